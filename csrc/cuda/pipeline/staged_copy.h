// Bulk copies of whole arrays to or from a device, staged through slots by several host threads.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

// A batch of copies in one direction. Arrays are cut into pieces, which host threads stage through slots;
// pinned arrays are copied directly.
class StagedCopy {
   public:
    StagedCopy(Call &call, int device, bool up) : call_(call), device_(device), is_up_(up) {}

    void add(char *host, char *device, int64_t bytes);
    // Copy all arrays and wait. Pinned ones are copied in `stream`.
    void run(cudaStream_t stream);

   private:
    // An array, or a piece of one.
    struct Array {
        char *host, *device;
        int64_t bytes;
    };
    class Thread;

    void run_pinned(cudaStream_t stream);
    void run_staged();
    std::vector<Array> cut(int64_t threads) const;

    Call &call_;
    const int device_;
    const bool is_up_;
    int64_t bytes_ = 0;
    std::vector<Array> arrays_, pinned_;
};

}  // namespace pk::kernels
