// Fused kernels: elementwise programs that are compiled by NVRTC, in the background, once they have been
// interpreted often enough. Both give the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/runtime/cuda.h"
#include "interpreter.h"
#include "jit_params.h"

namespace pk {

// The fused kernel of one instruction sequence and one access pattern for each operand. Until it is compiled,
// it counts the work that is interpreted instead.
class FusedKernel : public std::enable_shared_from_this<FusedKernel> {
   public:
    // Return the cached fused kernel of this instruction sequence; constants and addresses are not part of
    // the key. `reports_exceptions` selects the variant that records floating-point exceptions. Null if the
    // program needs more than JitParams::OPERANDS operands.
    static std::shared_ptr<FusedKernel> of(const std::vector<DeviceStep> &steps, int dims,
                                           bool reports_exceptions);
    // Clear the cache and the requests.
    static void release();

    FusedKernel(std::vector<DeviceStep> steps, int dims, bool reports_exceptions, uint64_t number);
    // Unload the kernel, once the launches on callers' streams have ended.
    ~FusedKernel();
    FusedKernel(const FusedKernel &) = delete;
    FusedKernel &operator=(const FusedKernel &) = delete;

    bool is_compiled() const { return is_compiled_.load(std::memory_order_acquire); }
    // Launch the kernel and return true, if it is compiled. Else add the call's work to the count, request
    // compilation once that is enough, and return false.
    bool launch(const device::JitParams &params, cudaStream_t stream);

    // Return the CUDA C++ source, for NVRTC.
    std::string source() const;
    // Set the compiled image; an empty one says that compilation failed.
    void set_image(std::vector<char> image);

    const uint64_t number;

   private:
    using Library = Owned<cudaLibrary_t, cudaLibraryUnload>;
    const void *kernel(cudaStream_t stream);

    const std::vector<DeviceStep> steps_;
    const int dims_;
    const bool reports_exceptions_;
    std::atomic<int64_t> work_{0};  // operations interpreted so far
    std::atomic<bool> is_compiled_{false};
    std::atomic<bool> ran_async_{false};  // was enqueued on a caller's stream, without being waited for
    std::mutex mutex_;                    // guards the members below
    std::vector<char> image_;
    Library library_;
    std::map<int, const void *> kernels_;  // by device; null where the image cannot be loaded
};

// Return the kernel that was requested first; null if none is to be compiled.
std::shared_ptr<FusedKernel> next_jit_request();
// Remove a request, and give its kernel the compiled image.
void finish_jit_request(uint64_t number, std::vector<char> image);

}  // namespace pk
