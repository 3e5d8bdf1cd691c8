// Checks the arguments of pk_run_kernels and pk_kernel_info.
#include "kernels.h"

#include <algorithm>
#include <cstring>

namespace pk::kernels {

namespace {

constexpr int64_t MOST_LOOPS = 64;  // of nested repetitions
constexpr int64_t MOST = INT64_MAX;

template <class T>
Table<T> table(uint64_t address, int64_t size, const char *field) {
    if (size < 0 || (size != 0 && address == 0) || address % alignof(T) != 0)
        fail(PK_INVALID_ARGUMENT,
             std::string("run.") + field + " is a null pointer, misaligned or of negative size");
    return {reinterpret_cast<const T *>(address), size};
}

int64_t times(int64_t a, int64_t b) { return a != 0 && b > MOST / a ? MOST : a * b; }
int64_t plus(int64_t a, int64_t b) { return b > MOST - a ? MOST : a + b; }

std::string triple(const int64_t (&of)[3]) {
    return "(" + std::to_string(of[0]) + ", " + std::to_string(of[1]) + ", " + std::to_string(of[2]) + ")";
}

}  // namespace

static int64_t *checked_length(const uint8_t *text, int64_t capacity, int64_t *length) {
    require(length != nullptr, "length is a null pointer");
    require(capacity >= 0 && (capacity == 0 || text != nullptr),
            "capacity is negative, or text is a null pointer");
    *length = 0;
    return length;
}

Request::Request(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length)
    : text(text), capacity(capacity), length(checked_length(text, capacity, length)), run(run) {}

static const pk_image &checked_image(const pk_image *image) {
    require(image != nullptr && image->address != 0 && image->bytes > 0, "an image has no bytes");
    return *image;
}

static std::string checked_symbol(const uint8_t *symbol, int64_t bytes) {
    require(symbol != nullptr && bytes > 0, "a kernel has no symbol");
    return std::string(reinterpret_cast<const char *>(symbol), size_t(bytes));
}

static pk_kernel_limits &checked_limits(pk_kernel_limits *limits) {
    require(limits != nullptr, "limits is a null pointer");
    return *limits;
}

InfoRequest::InfoRequest(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes,
                         pk_kernel_limits *limits)
    : image(checked_image(image)),
      symbol(checked_symbol(symbol, symbol_bytes)),
      limits(checked_limits(limits)) {}

void fail_no_variable(const std::string &name) {
    fail(PK_INVALID_ARGUMENT,
         "symbols: the source has no __constant__ or __device__ variable '" + name + "'");
}

void require_fits(const std::string &name, int64_t variable_bytes, int64_t value_bytes) {
    if (value_bytes <= variable_bytes) return;
    fail(PK_INVALID_ARGUMENT, "symbols: '" + name + "' has " + std::to_string(variable_bytes) +
                                  " bytes, and its value " + std::to_string(value_bytes));
}

std::string_view text_of(uint64_t address, int64_t bytes) {
    return {reinterpret_cast<const char *>(address), size_t(bytes)};
}

std::string named(const pk_kernel &kernel) {
    return "kernel '" + std::string(kernel.label, strnlen(kernel.label, sizeof(kernel.label))) + "'";
}

Run::Run(const pk_run *run) {
    require(run != nullptr, "run is a null pointer");
    images = table<pk_image>(run->images, run->image_count, "images");
    kernels = table<pk_kernel>(run->kernels, run->kernel_count, "kernels");
    buffers = table<pk_buffer>(run->buffers, run->buffer_count, "buffers");
    symbols = table<pk_symbol>(run->symbols, run->symbol_count, "symbols");
    steps = table<pk_step>(run->steps, run->step_count, "steps");
    arguments = table<pk_argument>(run->arguments, run->argument_count, "arguments");
    values = table<uint8_t>(run->values, run->value_bytes, "values");
    require(run->block_limit >= 0, "run.block_limit is negative");
    block_limit = run->block_limit;
    check_tables();
    value_offsets_.reserve(size_t(arguments.size));
    int64_t offset = 0;
    for (const pk_argument &argument : arguments) {
        value_offsets_.push_back(offset);
        if (argument.buffer == PK_ARGUMENT_VALUE) {
            require(argument.bytes > 0 && argument.bytes <= values.size - offset,
                    "an argument has a value that run.values does not have");
            offset += argument.bytes;
        } else if (argument.buffer != PK_ARGUMENT_NULL) {
            require(argument.buffer >= 0 && argument.buffer < buffers.size,
                    "an argument names a buffer that there is not");
            require(argument.offset >= 0 && argument.offset <= buffers[argument.buffer].bytes,
                    "an argument is outside of its buffer");
        }
    }
    launches_.resize(size_t(steps.size));
    launches = count_launches(0, steps.size, 0);
}

void Run::check_tables() const {
    for (const pk_image &image : images)
        require(image.address != 0 && image.bytes > 0, "an image has no bytes");
    for (const pk_kernel &kernel : kernels) {
        require(kernel.image >= 0 && kernel.image < images.size, "a kernel names an image that there is not");
        require(kernel.symbol != 0 && kernel.symbol_bytes > 0, "a kernel has no symbol");
    }
    for (const pk_buffer &buffer : buffers) {
        const bool moves = (buffer.flags & (PK_BUFFER_UPLOAD | PK_BUFFER_DOWNLOAD | PK_ON_DEVICE)) != 0;
        require(buffer.bytes >= 0, "a buffer has a negative size");
        require(!moves || buffer.bytes == 0 || buffer.address != 0, "a buffer's address is a null pointer");
    }
    for (const pk_symbol &symbol : symbols) {
        require(symbol.image >= 0 && symbol.image < images.size, "a symbol names an image that there is not");
        require(symbol.name != 0 && symbol.name_bytes > 0, "a symbol has no name");
        require(symbol.address != 0 && symbol.bytes > 0, "a symbol has no value");
    }
}

int64_t Run::count_launches(int64_t first, int64_t count, int depth) {
    require(depth <= MOST_LOOPS, "steps repeat steps that repeat steps, too deep");
    int64_t sum = 0;
    for (int64_t i = first; i < first + count; ++i) {
        const pk_step &step = steps[i];
        int64_t &own = launches_[size_t(i)];
        if (step.kernel == PK_STEP_REPEAT) {
            require(step.count >= 0, "a step repeats others a negative number of times");
            require(step.length >= 0 && step.length < first + count - i,
                    "a step repeats steps that there are not");
            own = times(step.count, count_launches(i + 1, step.length, depth + 1));
            i += step.length;
        } else {
            check_launch(step);
            own = 1;
        }
        sum = plus(sum, own);
    }
    return sum;
}

void Run::check_launch(const pk_step &step) const {
    require(step.kernel >= 0 && step.kernel < kernels.size, "a step names a kernel that there is not");
    require(step.argument_count >= 0 && step.argument_count <= PK_MAX_PARAMETERS &&
                step.first_argument >= 0 && step.first_argument <= arguments.size - step.argument_count,
            "a step has arguments that there are not");
    require(step.count >= 0, "a step is for a negative number of threads");
}

Shape shape_of(const pk_step &step, const pk_kernel_limits &limits) {
    Shape shape{};
    if (step.count == 0) {
        std::copy(step.grid, step.grid + 3, shape.grid);
        std::copy(step.block, step.block + 3, shape.block);
    } else {
        const int64_t block = std::max<int64_t>(1, limits.suggested_block);
        shape = {{(step.count - 1) / block + 1, 1, 1}, {block, 1, 1}};
    }
    return shape;
}

void require_shape(const std::string &name, const Shape &shape, int64_t shared,
                   const pk_kernel_limits &limits) {
    auto refuse = [&](const std::string &message) { fail(PK_INVALID_ARGUMENT, name + ": " + message); };
    int64_t threads = 1;
    for (int d = 0; d < 3; ++d) {
        const char axis = "xyz"[d];
        if (shape.block[d] < 1 || shape.block[d] > limits.block[d])
            refuse("block " + triple(shape.block) + ": " + axis + " is from 1 to " +
                   std::to_string(limits.block[d]) + ", not " + std::to_string(shape.block[d]));
        if (shape.grid[d] < 1 || shape.grid[d] > limits.grid[d])
            refuse("grid " + triple(shape.grid) + ": " + axis + " is from 1 to " +
                   std::to_string(limits.grid[d]) + ", not " + std::to_string(shape.grid[d]));
        threads = times(threads, shape.block[d]);
    }
    if (threads > limits.threads)
        refuse("block " + triple(shape.block) + " has " + std::to_string(threads) +
               " threads; this kernel may have " + std::to_string(limits.threads) + " here");
    if (shared < 0 || shared > limits.shared)
        refuse("shared=" + std::to_string(shared) + " bytes of dynamic shared memory; from 0 to " +
               std::to_string(limits.shared) + " are possible here, beside " +
               std::to_string(limits.static_shared) + " that the kernel declares");
}

void require_allowed(const Run &run, const pk_step &step, const pk_kernel_limits &limits) {
    const pk_kernel &kernel = run.kernels[step.kernel];
    auto refuse = [&](const std::string &message) {
        fail(PK_INVALID_ARGUMENT, named(kernel) + ": " + message);
    };
    require_shape(named(kernel), shape_of(step, limits), step.shared, limits);
    if (limits.parameters < 0) return;
    if (step.argument_count != limits.parameters)
        refuse("it takes " + std::to_string(limits.parameters) + " arguments, not " +
               std::to_string(step.argument_count));
    for (int64_t i = 0; i < step.argument_count; ++i) {
        const pk_argument &argument = run.arguments[step.first_argument + i];
        const int64_t bytes = argument.buffer == PK_ARGUMENT_VALUE ? argument.bytes : int64_t(sizeof(void *));
        if (bytes != limits.parameter_bytes[i])
            refuse("argument " + std::to_string(i) + " has " + std::to_string(bytes) +
                   " bytes, and the kernel's parameter " + std::to_string(limits.parameter_bytes[i]));
    }
}

}  // namespace pk::kernels
