// Entry points of modules that outlive a call: cubins or PTX, each an instance with variables of its own.
#include "common/module.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/handles.h"
#include "cuda/kernels/device_printf.h"
#include "cuda/kernels/module_cache.h"
#include "cuda/objects/launched_kernels.h"
#include "cuda/objects/own_streams.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

namespace {

// A module of one device, and the records that its kernels print.
class LoadedModule {
   public:
    // PTX is a string of C, which ends with a null byte.
    LoadedModule(const pk_image &image, int device)
        : LoadedModule(std::string(text_of(image.address, image.bytes)), image, device) {}

    // Return the kernels' output since the last call. They have ended.
    std::string printed() {
        if (printf_memory_.get() == nullptr) return {};
        const std::lock_guard<std::mutex> lock(mutex_);
        PrintfHeader header;
        copy_and_wait(&header, printf_memory_.get(), sizeof(header), cudaMemcpyDeviceToHost);
        if (header.used == 0) return {};
        std::vector<char> records(std::min(header.used, header.capacity));
        copy_and_wait(records.data(), static_cast<char *>(printf_memory_.get()) + sizeof(header),
                      records.size(), cudaMemcpyDeviceToHost);
        reset_printf();
        return text_of_records(records.data(), header);
    }

    const int device;
    Module module;

   private:
    LoadedModule(const std::string &data, pk_image image, int device)
        : device(device), module(with_address(image, data)) {
        const std::optional<Variable> header = module.printf_header();
        if (!header) return;
        printf_memory_ = allocate_device(int64_t(sizeof(PrintfHeader)) + RECORD_BYTES);
        void *const d_memory = printf_memory_.get();
        reset_printf();
        copy_and_wait(header->address, &d_memory, sizeof(d_memory), cudaMemcpyHostToDevice);
    }

    static pk_image with_address(pk_image image, const std::string &data) {
        image.address = reinterpret_cast<uint64_t>(data.c_str());
        return image;
    }

    static constexpr int64_t RECORD_BYTES = int64_t(8) << 20;

    void reset_printf() {
        PrintfHeader header;
        header.capacity = uint64_t(RECORD_BYTES);
        copy_and_wait(printf_memory_.get(), &header, sizeof(header), cudaMemcpyHostToDevice);
    }

    std::mutex mutex_;
    DeviceMemory printf_memory_;
};

struct Function {
    Function(uint64_t handle, std::shared_ptr<LoadedModule> loaded, const LoadedKernel &kernel,
             std::string label)
        : module_handle(handle), module(std::move(loaded)), kernel(kernel), name(std::move(label)) {}

    const uint64_t module_handle;
    const std::shared_ptr<LoadedModule> module;
    const LoadedKernel kernel;
    const std::string name;                    // "kernel 'add'"
    std::atomic<uint64_t> synchronization{0};  // the value of `synchronizations` at its last launch
};

// Never destroyed: programs give modules back until the process ends, when the driver may be gone.
Handles<LoadedModule> &modules() {
    static auto *const modules = new Handles<LoadedModule>("module");
    return *modules;
}
Handles<Function> &functions() {
    static auto *const functions = new Handles<Function>("function");
    return *functions;
}

dim3 extent(const int64_t (&of)[3]) { return dim3(unsigned(of[0]), unsigned(of[1]), unsigned(of[2])); }

void enqueue(const pk_launch &launch, Function &function, LaunchRequest &request) {
    cudaLaunchConfig_t config{};
    config.gridDim = extent(request.shape.grid);
    config.blockDim = extent(request.shape.block);
    config.dynamicSmemBytes = size_t(launch.shared);
    config.stream = streams::cuda_stream(launch.stream);
    function.synchronization = synchronizations.load();
    function.module->module.mark_async();
    PK_CUDA(cudaLaunchKernelExC(&config, function.kernel.function, request.arguments.data()));
}

int64_t attribute_of(const Function &function, int32_t attribute) {
    cudaFuncAttributes attributes{};
    PK_CUDA(cudaFuncGetAttributes(&attributes, function.kernel.function));
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return attributes.maxThreadsPerBlock;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return int64_t(attributes.sharedSizeBytes);
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return int64_t(attributes.constSizeBytes);
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return int64_t(attributes.localSizeBytes);
        case CU_FUNC_ATTRIBUTE_NUM_REGS: return attributes.numRegs;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: return attributes.ptxVersion;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return attributes.binaryVersion;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return attributes.cacheModeCA;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return attributes.maxDynamicSharedSizeBytes;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return attributes.preferredShmemCarveout;
        default: fail_no_attribute(attribute);
    }
}

}  // namespace

std::string launched_kernels() {
    constexpr size_t MAX_NAMES = 8;
    std::vector<std::string> names;
    functions().each([&](const Function &function) {
        if (function.synchronization == synchronizations) names.push_back(function.name);
    });
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), MAX_NAMES); ++i)
        text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    return names.size() > MAX_NAMES ? text + ", ..." : text;
}

}  // namespace pk::kernels

using namespace pk::kernels;

extern "C" int32_t pk_module_load(const pk_image *image, int64_t device, uint64_t *module) {
    return pk::guarded([&] {
        require_image(image, module);
        pk::streams::require_device(device);
        const pk::CurrentDevice current{int(device)};
        *module = modules().add(std::make_shared<LoadedModule>(*image, int(device)));
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
        (void)Parameters(parameters, parameter_count);
        const auto loaded = modules().get(module);
        pk::require_cuda();
        const pk::CurrentDevice current(loaded->device);
        const std::string label = "kernel '" + name + "'";
        if (!loaded->module.has_kernel(name)) fail_no_kernel(name);
        const LoadedKernel &kernel = loaded->module.kernel(name, label);
        *limits = kernel.limits;
        *function = functions().add(std::make_shared<Function>(module, loaded, kernel, label));
    });
}

extern "C" int32_t pk_module_variable(uint64_t module, const uint8_t *name, int64_t name_bytes,
                                      uint64_t *address, int64_t *bytes) {
    return pk::guarded([&] {
        pk::require(address != nullptr && bytes != nullptr, "address or bytes is a null pointer");
        const std::string text = checked_name(name, name_bytes, "a variable");
        const auto loaded = modules().get(module);
        pk::require_cuda();
        const pk::CurrentDevice current(loaded->device);
        const std::optional<Variable> variable = loaded->module.variable(text);
        if (!variable) fail_no_variable(text);
        *address = reinterpret_cast<uint64_t>(variable->address);
        *bytes = variable->bytes;
    });
}

extern "C" int32_t pk_module_launch(const pk_launch *launch, const uint8_t *parameters, int64_t bytes) {
    return pk::guarded([&] {
        const pk_launch &checked = checked_launch(launch);
        const auto function = functions().get(checked.function);
        LaunchRequest request(checked, function->name, function->kernel.limits, parameters, bytes);
        pk::require_cuda();
        const pk::CurrentDevice current(function->module->device);
        enqueue(checked, *function, request);
    });
}

extern "C" int32_t pk_module_printed(uint64_t module, uint8_t *text, int64_t capacity, int64_t *length) {
    return pk::guarded([&] {
        require_printed(text, capacity, length);
        const auto loaded = modules().get(module);
        pk::require_cuda();
        const pk::CurrentDevice current(loaded->device);
        synchronizing(true, [] { pk::synchronize_current_device(); });
        const std::string printed = loaded->printed();
        *length = int64_t(printed.size());
        const auto copied = size_t(std::min(*length, capacity));
        if (copied != 0) std::memcpy(text, printed.data(), copied);
    });
}

extern "C" int32_t pk_function_attribute(uint64_t function, int32_t attribute, int64_t *value) {
    return pk::guarded([&] {
        pk::require(value != nullptr, "value is a null pointer");
        const auto of = functions().get(function);
        pk::require_cuda();
        const pk::CurrentDevice current(of->module->device);
        *value = attribute_of(*of, attribute);
    });
}

extern "C" int32_t pk_function_set_attribute(uint64_t function, int32_t attribute, int64_t value) {
    return pk::guarded([&] {
        const auto of = functions().get(function);
        if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize &&
            attribute != cudaFuncAttributePreferredSharedMemoryCarveout)
            fail_no_attribute(attribute);
        pk::require_cuda();
        const pk::CurrentDevice current(of->module->device);
        PK_CUDA(cudaFuncSetAttribute(of->kernel.function, cudaFuncAttribute(attribute), int(value)));
    });
}
