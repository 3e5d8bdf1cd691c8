// cuBLAS, opened at run time where it is found: never linked, and without its headers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace pk::cublas {

// Opens the library of that path, or else one that the system's loader finds, unless one is open.
// Returns whether one is.
bool open(const std::string &path);
bool is_open();

// cuBLAS's numbers for types and for what is computed in.
enum Type { FLOAT32 = 0, FLOAT64 = 1, FLOAT16 = 2 };
enum Compute { IN_FLOAT32 = 68, IN_FLOAT64 = 70, IN_BFLOAT16 = 75, IN_TF32 = 77 };

// Products of matrices, row by row, some of which may be stored as their transposes: c = a @ b, or with what
// is in c already.
struct Products {
    int64_t m, n, k, batch;
    const void *a, *b;
    void *c;
    int64_t a_pitch, b_pitch, c_pitch;     // elements from a stored row to the next
    int64_t a_stride, b_stride, c_stride;  // and from a matrix to the next
    bool transposed_a, transposed_b;
    Type factor, total;
    Compute compute;
    bool adds;
};

// Queues them on the current device.
void multiply(const Products &products, int device, cudaStream_t stream);

}  // namespace pk::cublas
