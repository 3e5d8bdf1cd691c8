// Loads kernel modules, describes their kernels, and caches the most recently used.
#include "module_cache.h"

#include <cstring>

#include "common/lru_cache.h"
#include "device_printf.h"

namespace pk::kernels {

namespace {

constexpr int WARP = 32;

int current_device() {
    int device = 0;
    PK_CUDA(cudaGetDevice(&device));
    return device;
}

int attribute(cudaDeviceAttr name, int device) {
    int value = 0;
    PK_CUDA(cudaDeviceGetAttribute(&value, name, device));
    return value;
}

// Return the block size of highest occupancy; of several, the largest.
int64_t suggested_block(const void *function, int most) {
    int best = 0, threads = 0;
    for (int block = most / WARP * WARP; block >= WARP; block -= WARP) {
        int blocks = 0;
        PK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, block, 0));
        if (blocks * block > threads) {
            threads = blocks * block;
            best = block;
        }
    }
    return best != 0 ? best : most;
}

void add_parameters(pk_kernel_limits &limits, const void *function) {
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < PK_MAX_PARAMETERS; ++i) {
        size_t offset = 0, bytes = 0;
        error = cudaFuncGetParamInfo(function, i, &offset, &bytes);
        if (error != cudaSuccess) break;
        limits.parameter_bytes[limits.parameters++] = int64_t(bytes);
    }
    (void)cudaGetLastError();
    // After the last parameter the driver reports an invalid value; any other error means that it cannot
    // tell.
    if (error != cudaSuccess && error != cudaErrorInvalidValue) limits.parameters = -1;
}

LoadedKernel describe(cudaLibrary_t library, const std::string &symbol, int device) {
    cudaKernel_t kernel = nullptr;
    PK_CUDA(cudaLibraryGetKernel(&kernel, library, symbol.c_str()));
    LoadedKernel loaded_kernel{reinterpret_cast<const void *>(kernel), {}};
    cudaFuncAttributes attributes{};
    PK_CUDA(cudaFuncGetAttributes(&attributes, loaded_kernel.function));
    pk_kernel_limits &limits = loaded_kernel.limits;
    limits.threads = attributes.maxThreadsPerBlock;
    limits.block[0] = attribute(cudaDevAttrMaxBlockDimX, device);
    limits.block[1] = attribute(cudaDevAttrMaxBlockDimY, device);
    limits.block[2] = attribute(cudaDevAttrMaxBlockDimZ, device);
    limits.grid[0] = attribute(cudaDevAttrMaxGridDimX, device);
    limits.grid[1] = attribute(cudaDevAttrMaxGridDimY, device);
    limits.grid[2] = attribute(cudaDevAttrMaxGridDimZ, device);
    limits.static_shared = int64_t(attributes.sharedSizeBytes);
    limits.shared = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) - limits.static_shared;
    if (limits.shared > attributes.maxDynamicSharedSizeBytes)
        PK_CUDA(cudaFuncSetAttribute(loaded_kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     int(limits.shared)));
    limits.registers = attributes.numRegs;
    limits.suggested_block = suggested_block(loaded_kernel.function, attributes.maxThreadsPerBlock);
    add_parameters(limits, loaded_kernel.function);
    return loaded_kernel;
}

Library load(const pk_image &image) {
    cudaLibrary_t library = nullptr;
    PK_CUDA(cudaLibraryLoadData(&library, reinterpret_cast<const void *>(image.address), nullptr, nullptr, 0,
                                nullptr, nullptr, 0));
    return Library(library);
}

std::optional<Variable> variable_of(cudaLibrary_t library, std::string_view name) {
    void *address = nullptr;
    size_t bytes = 0;
    const cudaError_t error = cudaLibraryGetGlobal(&address, &bytes, library, std::string(name).c_str());
    if (error == cudaErrorSymbolNotFound) {
        (void)cudaGetLastError();
        return std::nullopt;
    }
    check_cuda(error, "cudaLibraryGetGlobal", __FILE__, __LINE__);
    return Variable{address, int64_t(bytes)};
}

using Cache = LruCache<std::pair<uint64_t, uint64_t>, std::shared_ptr<Module>, 64>;

}  // namespace

Module::Module(const pk_image &image) : library_(load(image)) {}

// Enqueued kernels may still run, so this waits for their devices. A destructor cannot report errors.
Module::~Module() {
    if (!ran_async_) return;
    for (const auto &entry : kernels_) synchronize_device(entry.first.first);
}

const LoadedKernel &Module::kernel(std::string_view symbol, const std::string &label) {
    const DeviceSymbol place(current_device(), symbol);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto cached = kernels_.find(place);
    if (cached != kernels_.end()) return cached->second;
    try {
        return kernels_.emplace(place, describe(library_.get(), place.second, place.first)).first->second;
    } catch (const Failure &failure) {
        fail(failure.status(),
             label + " cannot be loaded from its image, which may be for another GPU: " + failure.what());
    }
}

bool Module::has_kernel(const std::string &symbol) const {
    cudaKernel_t kernel = nullptr;
    const cudaError_t error = cudaLibraryGetKernel(&kernel, library_.get(), symbol.c_str());
    if (error == cudaErrorSymbolNotFound) {
        (void)cudaGetLastError();
        return false;
    }
    check_cuda(error, "cudaLibraryGetKernel", __FILE__, __LINE__);
    return true;
}

std::optional<Variable> Module::variable(std::string_view name) const {
    return variable_of(library_.get(), name);
}

const std::vector<char> &Module::initial_value(std::string_view name, const pk_image &image) {
    const DeviceSymbol place(current_device(), name);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto cached = initial_values_.find(place);
    if (cached != initial_values_.end()) return cached->second;
    // Kernels may have changed the variable, so the module is loaded again.
    const Library fresh = load(image);
    const std::optional<Variable> variable = variable_of(fresh.get(), name);
    std::vector<char> bytes;
    if (variable && variable->bytes != 0) {
        bytes.resize(size_t(variable->bytes));
        copy_and_wait(bytes.data(), variable->address, bytes.size(), cudaMemcpyDeviceToHost);
    }
    return initial_values_.emplace(place, std::move(bytes)).first->second;
}

std::optional<Variable> Module::printf_header() {
    const int device = current_device();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto cached = printf_headers_.find(device);
    if (cached != printf_headers_.end()) return cached->second;
    return printf_headers_[device] = variable_of(library_.get(), PRINTF_SYMBOL);
}

ModuleLock::ModuleLock(std::shared_ptr<Module> module, bool exclusive, Call &call)
    : module_(std::move(module)), exclusive_(exclusive) {
    std::unique_lock<std::mutex> lock(module_->mutex_);
    struct Waiting {
        Waiting(Module &module, bool exclusive) : module(module), counts(exclusive) {
            module.waiting_ += counts;
        }
        ~Waiting() { module.waiting_ -= counts; }
        Module &module;
        const int counts;
    } waiting(*module_, exclusive);
    auto is_free = [&] {
        return !module_->exclusive_ && (exclusive ? module_->users_ == 0 : module_->waiting_ == 0);
    };
    while (!module_->changed_.wait_for(lock, Call::POLL_INTERVAL, is_free)) {
        lock.unlock();
        struct Again {
            ~Again() { lock.lock(); }
            std::unique_lock<std::mutex> &lock;
        } again{lock};
        call.check_interrupt();
    }
    ++module_->users_;
    module_->exclusive_ = exclusive;
}

ModuleLock::~ModuleLock() {
    if (module_ == nullptr) return;
    {
        const std::lock_guard<std::mutex> lock(module_->mutex_);
        --module_->users_;
        if (exclusive_) module_->exclusive_ = false;
    }
    module_->changed_.notify_all();
}

std::shared_ptr<Module> load_module(const pk_image &image) {
    return Cache::get({image.key[0], image.key[1]}, [&] { return std::make_shared<Module>(image); });
}

void unload(const pk_image &image) { Cache::take({image.key[0], image.key[1]}); }

void release_modules() {
    Cache::drop_if([](const std::shared_ptr<Module> &module) { return module.use_count() == 1; });
}

}  // namespace pk::kernels
