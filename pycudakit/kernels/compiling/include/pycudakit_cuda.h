// CUDA's dialect of C++ for the machine's C++ compiler; included before the first line of a kernel's source.
#pragma once
#pragma GCC system_header

// C's <math.h>: C++'s takes longer to compile than most kernels. pycudakit_math.h has the overloads.
// With PK_HOST_CODE, for sources with host code of their own, they are C++'s.
#if __has_include(<bits/c++config.h>) && !defined(PK_HOST_CODE)
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include_next <math.h>
#include_next <stdlib.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#define PK_OWN_OVERLOADS 1
#else
#include_next <math.h>
#include_next <stdlib.h>
#endif
#include <float.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>  // before `clock` becomes a macro

#include "pycudakit_image.h"

#define PYCUDAKIT_CPU 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ 700

#define __global__
#define __device__
#define __host__
#define __constant__ __attribute__((visibility("default")))  // so that dlsym finds it
#define __managed__
#define __shared__ static thread_local  // all threads of a block run on one CPU thread
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__  // empty, since host headers write __attribute__((__noinline__))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

#define PK_HERE int line = __builtin_LINE()
// Functions of the headers that the compiler does not instrument.
#if !defined(PK_VOLATILE)
#define PK_OWN __attribute__((no_sanitize_address))
#elif defined(__clang__)
#define PK_OWN __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#define PK_OWN __attribute__((no_sanitize_thread, noinline))
#endif
#if defined(PK_VOLATILE)
#define PK_WAITING PK_OWN
#else
#define PK_WAITING
#endif
#define PK_HIDDEN __attribute__((visibility("hidden"), used))

#include "pycudakit_vectors.h"

#include "pycudakit_threads.h"

#include "pycudakit_warps.h"

#include "pycudakit_atomics.h"

#include "pycudakit_math.h"

#include "pycudakit_intrinsics.h"

#if defined(PK_CHECKED)
#include "pycudakit_checks.h"
#endif
#if defined(PK_VOLATILE)
#include "pycudakit_volatile.h"
#endif

#if defined(PK_HOST_CODE)
#include "pycudakit_runtime.h"
#endif
