// Fused kernels: elementwise programs that are compiled by NVRTC, in the background, once they have been
// interpreted often enough. Both give the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
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

    // Add operations to the count, and request compilation once that is enough.
    void count(int64_t operations);
    bool is_compiled() const { return is_compiled_.load(std::memory_order_acquire); }
    // Launch the kernel and return true, if it is compiled. Else count the call's operations, and return
    // false.
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

// The fused kernels of the calls that are captured in a CUDA graph, which stay loaded as long as this lives.
class FusedKernelUses {
   public:
    // While this lives, the kernels of the thread's calls are added to `uses`.
    class Scope {
       public:
        explicit Scope(FusedKernelUses &uses) : outer_(std::exchange(current_, &uses)) {}
        ~Scope() { current_ = outer_; }
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;

       private:
        FusedKernelUses *const outer_;
    };
    // Add a kernel to those of the thread's scope, if there is one: one that is launched, or one that is not
    // compiled, with the operations that are interpreted instead.
    static void add_launched(const std::shared_ptr<FusedKernel> &kernel);
    static void add_interpreted(const std::shared_ptr<FusedKernel> &kernel, int64_t operations);

    // Count the operations of a launch of the graph that are interpreted.
    void count_launch() const;
    // Return true if one of the programs that are interpreted has been compiled meanwhile.
    bool is_stale() const;

   private:
    static thread_local FusedKernelUses *current_;
    std::set<std::shared_ptr<FusedKernel>> launched_;
    std::map<std::shared_ptr<FusedKernel>, int64_t> interpreted_;  // the operations of each
};

// Return the kernel that was requested first; null if none is to be compiled.
std::shared_ptr<FusedKernel> next_jit_request();
// Remove a request, and give its kernel the compiled image.
void finish_jit_request(uint64_t number, std::vector<char> image);

}  // namespace pk
