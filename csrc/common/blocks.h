// What pk_run_blocks is asked for, checked.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"

namespace pk::blocks {

template <class T>
T *at(uint64_t address) {
    return reinterpret_cast<T *>(address);
}

// A pass's operands for the first block and for a thread with that memory of its own.
std::vector<pk_operand> operands_of(const pk_block_program &pass, const char *scratch);

struct Request {
    pk_block_program *const programs;
    const int64_t program_count, blocks, scratch_bytes;

    Request(pk_block_program *programs, int64_t program_count, int64_t blocks, int64_t scratch_bytes,
            const pk_report *report);
    int64_t elements() const { return blocks; }
};

}  // namespace pk::blocks
