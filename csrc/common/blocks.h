// The checked arguments of pk_run_blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"

namespace pk::blocks {

template <class T>
T *at(uint64_t address) {
    return reinterpret_cast<T *>(address);
}

// The operands of a program for the first block, for a thread with the given scratch.
std::vector<pk_operand> operands_of(const pk_block_program &pass, const char *scratch);

struct Request {
    pk_block_program *const programs;
    const int64_t program_count, blocks, scratch_bytes;

    Request(pk_block_program *programs, int64_t program_count, int64_t blocks, int64_t scratch_bytes,
            const pk_report *report);
    int64_t elements() const { return blocks; }
};

}  // namespace pk::blocks
