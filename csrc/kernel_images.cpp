#include "kernel_images.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "kernel_printed.h"

namespace pk::kernels {

namespace {

constexpr size_t MOST_IMAGES = 64;
constexpr int WARP = 32;

int current_device() {
    int device = 0;
    PK_CUDA(cudaGetDevice(&device));
    return device;
}

int attribute(cudaDeviceAttr what, int device) {
    int value = 0;
    PK_CUDA(cudaDeviceGetAttribute(&value, what, device));
    return value;
}

// The block that keeps most threads on a multiprocessor: of several, the largest.
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
    // The one after the last is an invalid value; anything else, a driver that does not tell.
    if (error != cudaSuccess && error != cudaErrorInvalidValue) limits.parameters = -1;
}

Loaded describe(cudaLibrary_t library, const std::string &symbol, int device) {
    cudaKernel_t kernel = nullptr;
    PK_CUDA(cudaLibraryGetKernel(&kernel, library, symbol.c_str()));
    Loaded found{reinterpret_cast<const void *>(kernel), {}};
    cudaFuncAttributes attributes{};
    PK_CUDA(cudaFuncGetAttributes(&attributes, found.function));
    pk_kernel_limits &limits = found.limits;
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
        PK_CUDA(cudaFuncSetAttribute(found.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     int(limits.shared)));
    limits.registers = attributes.numRegs;
    limits.suggested_block = suggested_block(found.function, attributes.maxThreadsPerBlock);
    add_parameters(limits, found.function);
    return found;
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

using Key = std::pair<uint64_t, uint64_t>;

struct Kept {
    Key key;
    std::shared_ptr<Image> image;
};

// The last used in front. Never destroyed: at the process's exit the driver may be gone before it.
struct Shelf {
    std::mutex mutex;
    std::list<Kept> images;
};

Shelf &shelf() {
    static Shelf *const shelf = new Shelf;
    return *shelf;
}

}  // namespace

Image::Image(const pk_image &image) : library_(load(image)) {}

const Loaded &Image::kernel(std::string_view symbol, const std::string &label) {
    const Place place(current_device(), symbol);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = kernels_.find(place);
    if (known != kernels_.end()) return known->second;
    try {
        return kernels_.emplace(place, describe(library_.get(), place.second, place.first)).first->second;
    } catch (const Failure &failure) {
        fail(failure.status(),
             label + " is not to be had from its image, which may be for another GPU: " + failure.what());
    }
}

std::optional<Variable> Image::variable(std::string_view name) const {
    return variable_of(library_.get(), name);
}

const std::vector<char> &Image::pristine(std::string_view name, const pk_image &image) {
    const Place place(current_device(), name);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = pristine_.find(place);
    if (known != pristine_.end()) return known->second;
    // Kernels may have written the variable since.
    const Library fresh = load(image);
    const std::optional<Variable> variable = variable_of(fresh.get(), name);
    std::vector<char> bytes(size_t(variable ? variable->bytes : 0));
    if (!bytes.empty())
        PK_CUDA(cudaMemcpy(bytes.data(), variable->address, bytes.size(), cudaMemcpyDeviceToHost));
    return pristine_.emplace(place, std::move(bytes)).first->second;
}

std::optional<Variable> Image::printed() {
    const int device = current_device();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = printed_.find(device);
    if (known != printed_.end()) return known->second;
    return printed_[device] = variable_of(library_.get(), PRINTED_SYMBOL);
}

Use::Use(std::shared_ptr<Image> image, bool alone, Call &call) : image_(std::move(image)), alone_(alone) {
    std::unique_lock<std::mutex> lock(image_->mutex_);
    struct Waiting {
        Waiting(Image &image, bool alone) : image(image), counts(alone) { image.waiting_ += counts; }
        ~Waiting() { image.waiting_ -= counts; }
        Image &image;
        const int counts;
    } waiting(*image_, alone);
    auto is_free = [&] { return !image_->alone_ && (alone ? image_->users_ == 0 : image_->waiting_ == 0); };
    while (!image_->changed_.wait_for(lock, Call::PATIENCE, is_free)) {
        lock.unlock();
        struct Again {
            ~Again() { lock.lock(); }
            std::unique_lock<std::mutex> &lock;
        } again{lock};
        call.look();
    }
    ++image_->users_;
    image_->alone_ = alone;
}

Use::~Use() {
    if (image_ == nullptr) return;
    {
        const std::lock_guard<std::mutex> lock(image_->mutex_);
        --image_->users_;
        if (alone_) image_->alone_ = false;
    }
    image_->changed_.notify_all();
}

std::shared_ptr<Image> loaded(const pk_image &image) {
    const Key key(image.key[0], image.key[1]);
    Shelf &from = shelf();
    const std::lock_guard<std::mutex> lock(from.mutex);
    auto known =
        std::find_if(from.images.begin(), from.images.end(), [&](auto &kept) { return kept.key == key; });
    if (known != from.images.end()) {
        from.images.splice(from.images.begin(), from.images, known);
    } else {
        from.images.push_front({key, std::make_shared<Image>(image)});
        if (from.images.size() > MOST_IMAGES) from.images.pop_back();
    }
    return from.images.front().image;
}

void unload(const pk_image &image) {
    const Key key(image.key[0], image.key[1]);
    Shelf &from = shelf();
    const std::lock_guard<std::mutex> lock(from.mutex);
    from.images.remove_if([&](auto &kept) { return kept.key == key; });
}

void release_images() {
    Shelf &from = shelf();
    const std::lock_guard<std::mutex> lock(from.mutex);
    from.images.remove_if([](auto &kept) { return kept.image.use_count() == 1; });
}

}  // namespace pk::kernels
