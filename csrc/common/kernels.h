// User kernels: the checked arguments of pk_run_kernels and pk_kernel_info, for both engines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/call/call.h"
#include "pycudakit.h"

namespace pk::kernels {

// An array of the caller, with its length.
template <class T>
struct Table {
    const T *data = nullptr;
    int64_t size = 0;

    const T *begin() const { return data; }
    const T *end() const { return data + size; }
    const T &operator[](int64_t i) const { return data[i]; }
};

// A checked run: indices, addresses and sizes are valid. The limits of kernels and devices are not checked
// here.
class Run {
   public:
    explicit Run(const pk_run *run);

    Table<pk_image> images;
    Table<pk_kernel> kernels;
    Table<pk_buffer> buffers;
    Table<pk_symbol> symbols;
    Table<pk_step> steps;
    Table<pk_argument> arguments;
    Table<uint8_t> values;
    int64_t block_limit = 0;
    int64_t launches = 0;  // including repetitions; INT64_MAX if there are more

    // The bytes of an argument passed by value. Values are adjacent, in the order of the arguments.
    const uint8_t *value_of(int64_t argument) const { return values.data + value_offsets_[size_t(argument)]; }

    // Calls launch(step) for every launch, in order, including repetitions.
    template <class Launch>
    void each(Launch &&launch) const {
        each(0, steps.size, launch);
    }
    // The same for the steps [first, first + count).
    template <class Launch>
    void each(int64_t first, int64_t count, Launch &launch) const {
        for (int64_t i = first; i < first + count; ++i) {
            const pk_step &step = steps[i];
            if (step.kernel != PK_STEP_REPEAT) {
                launch(step);
                continue;
            }
            if (launches_[size_t(i)] != 0) {
                for (int64_t round = 0; round < step.count; ++round) each(i + 1, step.length, launch);
            }
            i += step.length;
        }
    }

   private:
    void check_tables() const;
    void check_launch(const pk_step &step) const;
    int64_t count_launches(int64_t first, int64_t count, int depth);

    std::vector<int64_t> value_offsets_;  // of each argument
    std::vector<int64_t> launches_;       // of each step, including repetitions
};

// The arguments of pk_run_kernels: a run, and the destination of printed text.
struct Request {
    Request(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length);
    int64_t elements() const { return run.launches; }

    uint8_t *text;
    int64_t capacity;
    int64_t *length;  // 0 until something is printed
    Run run;
};

// The arguments of pk_kernel_info.
struct InfoRequest {
    InfoRequest(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes, pk_kernel_limits *limits);

    const pk_image &image;
    std::string symbol;
    pk_kernel_limits &limits;
};

// Errors of a run's symbols: the module has no such variable, or the value is larger than the variable.
[[noreturn]] void fail_no_variable(const std::string &name);
void require_fits(const std::string &name, int64_t variable_bytes, int64_t value_bytes);

std::string_view text_of(uint64_t address, int64_t bytes);

// Returns "kernel 'blur'".
std::string named(const pk_kernel &kernel);

// The block and the grid of a launch. The library chooses them if the step has a count.
struct Shape {
    int64_t grid[3], block[3];
    int64_t threads() const { return block[0] * block[1] * block[2]; }
    int64_t blocks() const { return grid[0] * grid[1] * grid[2]; }
};
Shape shape_of(const pk_step &step, const pk_kernel_limits &limits);

// Throws unless the kernel and the device allow this shape and this shared memory. `name` begins the message.
void require_shape(const std::string &name, const Shape &shape, int64_t shared,
                   const pk_kernel_limits &limits);

// Throws unless the kernel and the device allow this launch and its arguments. The message has the numbers.
void require_allowed(const Run &run, const pk_step &step, const pk_kernel_limits &limits);

}  // namespace pk::kernels
