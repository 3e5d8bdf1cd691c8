// Writes small host data to device memory through kernel parameters.
#include "inline_upload.h"

#include <algorithm>
#include <cstring>

namespace pk {

namespace {

constexpr int THREADS = 128;

// The bytes that one launch carries.
struct InlineBytes {
    char data[3840];  // a launch has at most 4096 bytes of parameters
};

__global__ void write_inline(const __grid_constant__ InlineBytes bytes, int count, char *to) {
    for (int i = int(threadIdx.x); i < count; i += THREADS) to[i] = bytes.data[i];
}

}  // namespace

void upload_inline(const char *bytes, int64_t count, char *to, cudaStream_t stream) {
    constexpr int64_t BYTES_PER_LAUNCH = sizeof(InlineBytes);
    for (int64_t done = 0; done < count; done += BYTES_PER_LAUNCH) {
        const int64_t part = std::min(BYTES_PER_LAUNCH, count - done);
        InlineBytes inline_bytes;
        std::memcpy(inline_bytes.data, bytes + done, size_t(part));
        write_inline<<<1, THREADS, 0, stream>>>(inline_bytes, int(part), to + done);
        PK_CUDA(cudaGetLastError());
    }
}

}  // namespace pk
