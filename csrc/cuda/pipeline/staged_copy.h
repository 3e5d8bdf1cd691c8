// Whole arrays on their way to a device or home.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

// Pieces of arrays, which several host threads take through slots; of pinned arrays, without them.
class StagedCopy {
   public:
    StagedCopy(Call &call, int device, bool up) : call_(call), device_(device), is_up_(up) {}

    void add(char *host, char *device, int64_t bytes);
    // Copies all, and waits for that; through the queue, what needs no slots.
    void run(cudaStream_t stream);

   private:
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
