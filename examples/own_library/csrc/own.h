// The ABI. Each function returns 0, or else own_last_error() says what went wrong.
#pragma once

#include <stdint.h>

#define OWN_API extern "C" __attribute__((visibility("default")))

// Of the calling thread.
OWN_API const char *own_last_error();

// out[i] = factor * in[i]; the two may be one.
OWN_API int32_t own_scale(const float *in, float *out, int64_t count, float factor);
