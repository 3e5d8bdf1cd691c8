// Device printf: kernels write records to device memory, and the host formats them after the run.
#pragma once

#include <cstdint>
#include <string>

namespace pk::kernels {

// The header of the record buffer, as in pycudakit/kernels/compiling/device_include/prelude.h; `capacity`
// bytes of records follow.
struct PrintfHeader {
    uint64_t used = 0, capacity = 0;
};

// The variable of a module that prints: the address of the PrintfHeader.
constexpr char PRINTF_SYMBOL[] = "_ZN9pycudakit7printedIvEE";

// Format the records. If more were written than fit, the text ends with a note that says so.
std::string text_of_records(const char *records, const PrintfHeader &printf_header);

}  // namespace pk::kernels
