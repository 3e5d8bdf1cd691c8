// cuBLAS, loaded at run time with dlopen: the library is never linked, and its headers are not needed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace pk::cublas {

// Open the library at `path`, or one that the system's loader finds, unless one is open already. Return
// true if one is open.
bool open(const std::string &path);
bool is_open();

// Values of cudaDataType and cublasComputeType_t.
enum Type { FLOAT32 = 0, FLOAT64 = 1, FLOAT16 = 2 };
enum Compute { IN_FLOAT32 = 68, IN_FLOAT64 = 70, IN_BFLOAT16 = 75, IN_TF32 = 77 };

// A batched product of row-major matrices, c = a @ b or c += a @ b; factors may be stored transposed.
struct Products {
    int64_t m, n, k, batch;
    const void *a, *b;
    void *c;
    int64_t a_pitch, b_pitch, c_pitch;     // elements from one stored row to the next
    int64_t a_stride, b_stride, c_stride;  // elements from one matrix to the next
    bool transposed_a, transposed_b;
    Type factor, total;
    Compute compute;
    bool adds;
};

// Enqueue the products on the current device.
void multiply(const Products &products, int device, cudaStream_t stream);

// Destroy the handles that no call uses.
void release();

}  // namespace pk::cublas
