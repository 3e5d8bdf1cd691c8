// Addresses of a strided operand's elements on the device: element index to coordinates to byte offset.
#pragma once

#include <cstdint>

#include "interpreter.h"
#include "value.cuh"

namespace pk::device {

// Computes the addresses of one operand's elements. For one or two dimensions, which most views have, sizes
// and strides are kept in registers.
class StridedAccess {
   public:
    __device__ StridedAccess(const InterpreterParams &call, const DeviceStep &step)
        : from_(step.value),
          start_(call.start),
          table_(call.coordinates == nullptr ? call.inline_coordinates : call.coordinates),
          strides_(table_ + step.c),
          last_(int(table_[0]) - 1),
          is_small_(call.is_small != 0),
          is_plane_(is_small_ && last_ <= 1) {
        if (!is_plane_) return;
        inner_stride_ = strides_[0];
        if (last_ == 1) {
            columns_ = FastDivisor(table_, 0);
            outer_stride_ = strides_[1];
        }
    }

    template <class T>
    __device__ T &at(int64_t element) const {
        return *reinterpret_cast<T *>(from_ + byte_offset(start_ + element));
    }

   private:
    // Return an element's byte offset from the operand's first element.
    __device__ int64_t byte_offset(int64_t element) const {
        if (is_plane_) {
            const auto index = uint32_t(element), row = columns_.divide(index);
            return (index - row * columns_.size) * inner_stride_ + row * outer_stride_;
        }
        int64_t bytes = 0;
#pragma unroll 1
        for (int d = 0; d < last_; ++d) {
            const int64_t size = table_[1 + 2 * d];
            const int64_t outer =
                is_small_ ? int64_t(FastDivisor(table_, d).divide(uint32_t(element))) : element / size;
            bytes += (element - outer * size) * strides_[d];
            element = outer;
        }
        return bytes + element * strides_[last_];
    }

    const int64_t from_, start_;
    const int64_t *const table_, *const strides_;
    const int last_;
    const bool is_small_, is_plane_;
    FastDivisor columns_;
    int64_t inner_stride_ = 0, outer_stride_ = 0;
};

}  // namespace pk::device
