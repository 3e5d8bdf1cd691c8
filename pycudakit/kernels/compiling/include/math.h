// C's header, after the declarations of CUDA's dialect.
#include "pycudakit_cuda.h"
#if !defined(PK_OWN_OVERLOADS)
#include_next <math.h>
#endif
