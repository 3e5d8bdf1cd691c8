// The C ABI of the library. Each function returns 0 on success; else own_last_error() returns the message.
#pragma once

#include <stdint.h>

#define OWN_API extern "C" __attribute__((visibility("default")))

// The message of the calling thread's last failure.
OWN_API const char *own_last_error();

// out[i] = factor * in[i]; in and out may be the same array.
OWN_API int32_t own_scale(const float *in, float *out, int64_t count, float factor);
