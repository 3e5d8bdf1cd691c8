// What kernels print: records in a device's memory, and the text that they are.
#pragma once

#include <cstdint>
#include <string>

namespace pk::kernels {

// As pycudakit/kernels/compiling/device_include/prelude.h has it; records of `room` bytes follow.
struct PrintfHeader {
    uint64_t used = 0, capacity = 0;
};

// The variable that every module has which prints, the address of a Printed.
constexpr char PRINTF_SYMBOL[] = "_ZN9pycudakit7printedIvEE";

// The text of the records, of which there are those that fit into the room; if more came, it says so.
std::string text_of_records(const char *records, const PrintfHeader &printf_header);

}  // namespace pk::kernels
