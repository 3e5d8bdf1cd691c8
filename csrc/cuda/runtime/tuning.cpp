// The table of tuning constants: names, descriptions, defaults and limits.
#include "tuning.h"

#include <atomic>
#include <cctype>
#include <cstdio>
#include <string>

#include "common/call/environment.h"
#include "common/device.h"

namespace pk {

namespace {

// A constant's name, description, default and limits.
struct Constant {
    const char *name, *text;
    int64_t default_value, min_value, max_value;
};

// In the order of Tune. Measured on a host of 16 cores with an H200 on PCIe 5.
constexpr Constant constants[] = {
    {"threads", "host threads that serve one GPU", 16, 1, 1024},
    {"worth_a_thread", "bytes of a call for each host thread that it wakes", 1 << 20, 1, 1 << 30},
    {"slots", "chunks that each thread has in flight", 2, 1, 64},
    // A little more than 3 MiB, so that rows of a round number of bytes fit together with status and results.
    {"chunk_bytes", "pinned bytes of a staging slot: the most that a chunk's operands share",
     (3 << 20) + (64 << 10), 256 << 10, 1 << 30},
    {"device_bytes", "device bytes of a staging slot", 8 << 20, 512 << 10, 1 << 30},
    {"direct_bytes", "device bytes of a slot for pinned operands, which need no staging", 24 << 20, 512 << 10,
     1 << 30},
    {"smallest_chunk", "bytes of a call's first and last chunks", 256 << 10, 1, 1 << 30},
    {"run", "neighbouring chunks that a thread takes at once, so that two threads seldom share a huge page",
     3, 1, 1024},
    {"in_place_bytes", "bytes up to which a chunk is zero-copy: the kernel accesses pinned memory", 1 << 20,
     0, 16 << 20},
    {"walk_bytes", "pinned bytes of a slot if all chunks are zero-copy, as each element is read once",
     512 << 10, 4 << 10, 16 << 20},
    {"walk_both_ways", "bytes of a call up to which they are zero-copy in spite of large results", 192 << 20,
     0, 1 << 30},
    {"block", "threads in a block of the elementwise kernel", 128, 32, 1024},
    {"worth_compiling", "operations that fused functions interpret before a fused kernel is compiled",
     256 << 20, 1, int64_t(1) << 62},
};
constexpr int64_t COUNT = sizeof(constants) / sizeof(*constants);

int64_t initial(const Constant &constant) {
    std::string variable = std::string("PYCUDAKIT_STREAM_") + constant.name;
    for (char &letter : variable) letter = char(std::toupper(letter));
    const int64_t value =
        integer_from_environment(variable.c_str(), "a number", constant.default_value, constant.min_value);
    if (value > constant.max_value) {
        fail(PK_INVALID_ARGUMENT, variable + " is " + std::to_string(value) + "; set it to at most " +
                                      std::to_string(constant.max_value) + ", or unset it");
    }
    return value;
}

// The current values, at first from the environment.
struct Values {
    std::atomic<int64_t> at[COUNT];
    Values() {
        for (int64_t i = 0; i < COUNT; ++i) at[i] = initial(constants[i]);
    }
};

Values &values() {
    static Values values;
    return values;
}

}  // namespace

int64_t tuned(Tune constant) { return values().at[int(constant)].load(std::memory_order_relaxed); }

int64_t tuning_count() { return COUNT; }

pk_tuning tuning_of(int64_t index) {
    require_index(index, COUNT, "constant");
    const Constant &constant = constants[index];
    pk_tuning tuning{};
    std::snprintf(tuning.name, sizeof(tuning.name), "%s", constant.name);
    std::snprintf(tuning.text, sizeof(tuning.text), "%s", constant.text);
    tuning.value = tuned(Tune(index));
    tuning.default_value = constant.default_value;
    tuning.min_value = constant.min_value;
    tuning.max_value = constant.max_value;
    return tuning;
}

void tune(int64_t index, int64_t value) {
    require_index(index, COUNT, "constant");
    const Constant &constant = constants[index];
    if (value < constant.min_value || value > constant.max_value) {
        fail(PK_INVALID_ARGUMENT, std::string(constant.name) + " is from " +
                                      std::to_string(constant.min_value) + " to " +
                                      std::to_string(constant.max_value) + ", not " + std::to_string(value));
    }
    values().at[index] = value;
}

}  // namespace pk
