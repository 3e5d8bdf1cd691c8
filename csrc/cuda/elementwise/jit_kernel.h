// Passes: programs over operands that lie in certain ways, which are compiled once much of their work was
// done.
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

class FusedKernel : public std::enable_shared_from_this<FusedKernel> {
   public:
    // The pass of these steps, of which the values do not count, and in which somebody heeds what they meet
    // or nobody does; null if there is none: it would be too long.
    static std::shared_ptr<FusedKernel> of(const std::vector<DeviceStep> &steps, int dims,
                                           bool reports_exceptions);
    // Forgets all that were compiled.
    static void release();

    FusedKernel(std::vector<DeviceStep> steps, int dims, bool reports_exceptions, uint64_t number);

    bool is_compiled() const { return is_compiled_.load(std::memory_order_acquire); }
    // Queues it, and returns whether that could be done; if not, notes the work for it.
    bool launch(const device::JitParams &params, cudaStream_t stream);

    // C++, for NVRTC.
    std::string source() const;
    void set_image(std::vector<char> image);

    const uint64_t number;

   private:
    using Library = Owned<cudaLibrary_t, cudaLibraryUnload>;
    const void *kernel();

    const std::vector<DeviceStep> steps_;
    const int dims_;
    const bool reports_exceptions_;
    std::atomic<int64_t> work_{0};  // operations that were interpreted
    std::atomic<bool> is_compiled_{false};
    std::mutex mutex_;  // guards what follows
    std::vector<char> image_;
    Library library_;
    std::map<int, const void *> kernels_;  // by device; null where it cannot be had
};

// The pass that most wants to be compiled; null if there is none.
std::shared_ptr<FusedKernel> next_jit_request();
void finish_jit_request(uint64_t number, std::vector<char> image);

}  // namespace pk
