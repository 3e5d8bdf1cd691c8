#include "common/random.h"

#include "common/random_transforms.h"
#include "stream/stream.h"

namespace pk::random {

namespace {

// A parameter: its bits, if it is the same for all, or else where the chunk has them.
struct Parameter {
    const uint64_t *each;
    uint64_t all;

    __host__ __device__ uint64_t at(int64_t i) const { return each != nullptr ? each[i] : all; }
};

// A chunk: elements [start, start + count) go to `to`.
struct Given {
    Planes planes;
    Parameter a, b;
    void *to;
    int64_t start, count;
    int64_t first_block, blocks;  // of words, counted from the one that the call begins in
    int32_t what, item;
    uint32_t half;
    bool has_half, has_parameters;
};

constexpr int THREADS = 256;

namespace device {

// A thread has a block of words, and whatever elements of the chunk they are for.
template <class Bits, class T>
struct Draw {
    const Given &given;

    __device__ void put(int64_t element, T value) const {
        const int64_t i = element - given.start;
        if (i >= 0 && i < given.count) static_cast<T *>(given.to)[i] = value;
    }
    __device__ void operator()(int64_t element, Bits bits) const {
        if constexpr (sizeof(T) == 8) {
            put(element, scaled(element, value(bits)));
        } else {
            put(element, value(bits));
        }
    }
    __device__ T value(Bits bits) const;
    __device__ double scaled(int64_t element, double value) const {
        const int64_t i = element - given.start;
        if (!given.has_parameters || i < 0 || i >= given.count) return value;
        const double a = bit_cast<double>(given.a.at(i));
        if (given.what == PK_RANDOM_EXPONENTIAL) return 0.0 + a * value;
        return a + bit_cast<double>(given.b.at(i)) * value;
    }
};

}  // namespace device

}  // namespace

}  // namespace pk::random
