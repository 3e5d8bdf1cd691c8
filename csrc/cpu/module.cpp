// Entry points of modules on the CPU: shared libraries of compiled kernels, each an instance of its own.
#include "common/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/call/call.h"
#include "common/handles.h"
#include "cpu/device_arena.h"
#include "cpu/kernels/block_executor.h"
#include "cpu/kernels/file_copy.h"
#include "cpu/kernels/launcher.h"
#include "cpu/kernels/module_cache.h"
#include "cpu/stream.h"

namespace pk::kernels {

namespace {

// A module, and the text that its kernels print.
class LoadedModule {
   public:
    // The dynamic loader opens a file once, and so each instance has a file of its own.
    explicit LoadedModule(const std::string &path) : LoadedModule(FileCopy(path)) {}
    ~LoadedModule() {
        for (const uint64_t begin : variables_) device_memory::remove_range(begin);
    }
    LoadedModule(const LoadedModule &) = delete;
    LoadedModule &operator=(const LoadedModule &) = delete;

    device_memory::Range variable(const std::string &name) {
        const auto [address, bytes] = module.variable_memory(name);
        const device_memory::Range range{reinterpret_cast<uint64_t>(address), bytes};
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const uint64_t begin : variables_)
            if (begin == range.begin) return range;
        variables_.reserve(variables_.size() + 1);
        device_memory::add_range(range);
        variables_.push_back(range.begin);
        return range;
    }

    Module module;
    PrintBuffer printed;

   private:
    explicit LoadedModule(const FileCopy &file) : module(file.path()), text_(new uint8_t[MAX_PRINTED_BYTES]) {
        printed.set_memory(text_.get(), MAX_PRINTED_BYTES);
    }

    std::mutex mutex_;
    std::vector<uint64_t> variables_;  // the addresses of those that are registered
    std::unique_ptr<uint8_t[]> text_;
};

struct Function {
    const uint64_t module_handle;
    const std::shared_ptr<LoadedModule> module;
    const pk_image_kernel &kernel;
    const std::string name;  // "kernel 'add'"
    const Parameters parameters;
    const pk_kernel_limits limits;
};

// Never destroyed: programs give modules back until the process ends.
Handles<LoadedModule> &modules() {
    static auto *const modules = new Handles<LoadedModule>("module");
    return *modules;
}
Handles<Function> &functions() {
    static auto *const functions = new Handles<Function>("function");
    return *functions;
}

// Throws if a pointer is not to memory of the device.
void require_pointers(const Function &function, const LaunchRequest &request) {
    for (size_t i = 0; i < request.arguments.size(); ++i) {
        if (!function.parameters.is_pointer(i)) continue;
        uint64_t address = 0;
        std::memcpy(&address, request.arguments[i], sizeof(address));
        if (address == 0 || device_memory::find_near(address).bytes != 0) continue;
        fail(PK_INVALID_ARGUMENT, function.name + ": parameter " + function.parameters.label(i) + " is " +
                                      device_memory::hexadecimal(address) +
                                      ", an address that no allocation of the device has; it may have been "
                                      "freed, or be that of another library's memory");
    }
}

// The memory that a checked kernel may access, with the names of the parameters that point to it.
void describe_memory(const Function &function, const LaunchRequest &request, GuardedMemory &memory) {
    const device_memory::Range arena = device_memory::reservation();
    const uint64_t end = arena.begin + uint64_t(arena.bytes);
    const std::vector<device_memory::Range> ranges = device_memory::all_ranges();
    for (size_t n = 0; n < ranges.size(); ++n) {
        const device_memory::Range &range = ranges[n];
        std::string label = "an allocation";
        int64_t item = 1;
        for (size_t i = 0; i < request.arguments.size(); ++i) {
            if (!function.parameters.is_pointer(i)) continue;
            uint64_t address = 0;
            std::memcpy(&address, request.arguments[i], sizeof(address));
            if (address - range.begin >= uint64_t(range.bytes)) continue;
            const pk_parameter &parameter = function.parameters.of[i];
            label = std::string(parameter.label, strnlen(parameter.label, sizeof(parameter.label)));
            item = parameter.itemsize;
        }
        int64_t red_zone = device_memory::GUARD;
        if (range.begin - arena.begin < uint64_t(arena.bytes)) {  // no other memory, up to the next one
            const uint64_t next = n + 1 < ranges.size() ? std::min(ranges[n + 1].begin, end) : end;
            red_zone = int64_t(next - range.begin) - range.bytes;
        }
        memory.add(range.begin, range.bytes, item, label, red_zone);
    }
}

void run(const pk_launch &launch, const Function &function, const LaunchRequest &request) {
    GuardedMemory memory;
    const bool is_checked = function.module->module.checked();
    if (is_checked) describe_memory(function, request, memory);
    pk_options options{};
    options.progress_callback = launch.progress_callback;
    pk_report report{};
    Call call(&options, &report);
    call.begin(1);
    const Launch described{function.kernel,
                           is_checked,
                           function.module->module.code(),
                           function.name,
                           request.shape,
                           launch.shared,
                           request.arguments.data(),
                           is_checked ? &memory : nullptr,
                           std::chrono::milliseconds(launch.block_limit),
                           call,
                           function.module->printed};
    run_launch(described, call);
    call.end();
}

// The numbers of CUDA's CUfunction_attribute.
enum Attribute : int32_t {
    MAX_THREADS_PER_BLOCK = 0,
    SHARED_SIZE_BYTES = 1,
    CACHE_MODE_CA = 7,
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    PREFERRED_SHARED_MEMORY_CARVEOUT = 9
};

int64_t attribute_of(const Function &function, int32_t attribute) {
    if (attribute < MAX_THREADS_PER_BLOCK || attribute > PREFERRED_SHARED_MEMORY_CARVEOUT)
        fail_no_attribute(attribute);
    if (attribute == MAX_THREADS_PER_BLOCK) return function.limits.threads;
    if (attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES) return function.limits.shared;
    if (attribute == PREFERRED_SHARED_MEMORY_CARVEOUT) return -1;
    return 0;  // the host's compiler reports no registers, stack or shared memory
}

}  // namespace

}  // namespace pk::kernels

using namespace pk::kernels;

extern "C" int32_t pk_module_load(const pk_image *image, int64_t device, uint64_t *module) {
    return pk::guarded([&] {
        require_image(image, module);
        pk::streams::require_device(device);
        *module =
            modules().add(std::make_shared<LoadedModule>(std::string(text_of(image->address, image->bytes))));
    });
}

extern "C" int32_t pk_module_unload(uint64_t module) {
    return pk::guarded([&] {
        const auto removed = modules().remove(module);
        functions().remove_if([&](const Function &function) { return function.module_handle == module; });
    });
}

extern "C" int32_t pk_module_function(uint64_t module, const uint8_t *symbol, int64_t symbol_bytes,
                                      const pk_parameter *parameters, int64_t parameter_count,
                                      pk_kernel_limits *limits, uint64_t *function) {
    return pk::guarded([&] {
        pk::require(limits != nullptr && function != nullptr, "limits or function is a null pointer");
        const std::string name = checked_name(symbol, symbol_bytes, "a kernel");
        const Parameters described(parameters, parameter_count);
        const auto loaded = modules().get(module);
        const pk_image_kernel &kernel = loaded->module.kernel(name);
        *limits = limits_of(kernel);
        *function = functions().add(std::make_shared<Function>(
            Function{module, loaded, kernel, "kernel '" + name + "'", described, *limits}));
    });
}

extern "C" int32_t pk_module_variable(uint64_t module, const uint8_t *name, int64_t name_bytes,
                                      uint64_t *address, int64_t *bytes) {
    return pk::guarded([&] {
        pk::require(address != nullptr && bytes != nullptr, "address or bytes is a null pointer");
        const auto range = modules().get(module)->variable(checked_name(name, name_bytes, "a variable"));
        *address = range.begin;
        *bytes = range.bytes;
    });
}

extern "C" int32_t pk_module_launch(const pk_launch *launch, const uint8_t *parameters, int64_t bytes) {
    return pk::guarded([&] {
        const pk_launch &checked = checked_launch(launch);
        const auto function = functions().get(checked.function);
        pk::streams::require_stream(checked.stream);
        const LaunchRequest request(checked, function->name, function->limits, parameters, bytes);
        require_pointers(*function, request);
        run(checked, *function, request);
    });
}

extern "C" int32_t pk_module_printed(uint64_t module, uint8_t *text, int64_t capacity, int64_t *length) {
    return pk::guarded([&] {
        require_printed(text, capacity, length);
        *length = modules().get(module)->printed.take(text, capacity);
    });
}

extern "C" int32_t pk_function_attribute(uint64_t function, int32_t attribute, int64_t *value) {
    return pk::guarded([&] {
        pk::require(value != nullptr, "value is a null pointer");
        *value = attribute_of(*functions().get(function), attribute);
    });
}

extern "C" int32_t pk_function_set_attribute(uint64_t function, int32_t attribute, int64_t) {
    return pk::guarded([&] {
        (void)functions().get(function);
        if (attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES && attribute != PREFERRED_SHARED_MEMORY_CARVEOUT)
            fail_no_attribute(attribute);  // shared memory is host memory: these change nothing here
    });
}
