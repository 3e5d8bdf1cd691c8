#include "inline_upload.h"

#include <algorithm>
#include <cstring>

namespace pk {

namespace {

constexpr int THREADS = 128;

struct Bytes {
    char all[3840];  // a launch has parameters of up to 4096 bytes
};

__global__ void write(const __grid_constant__ Bytes bytes, int count, char *to) {
    for (int i = int(threadIdx.x); i < count; i += THREADS) to[i] = bytes.all[i];
}

}  // namespace

void write_with_launches(const char *bytes, int64_t count, char *to, cudaStream_t queue) {
    constexpr int64_t MOST = sizeof(Bytes);
    for (int64_t done = 0; done < count; done += MOST) {
        const int64_t part = std::min(MOST, count - done);
        Bytes given;
        std::memcpy(given.all, bytes + done, size_t(part));
        write<<<1, THREADS, 0, queue>>>(given, int(part), to + done);
        PK_CUDA(cudaGetLastError());
    }
}

}  // namespace pk
