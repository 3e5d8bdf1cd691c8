// own_scale on the CPU, for machines without a GPU.
#include "own.h"

OWN_API const char *own_last_error() { return ""; }

OWN_API int32_t own_scale(const float *in, float *out, int64_t count, float factor) {
    for (int64_t i = 0; i < count; ++i) out[i] = factor * in[i];
    return 0;
}
