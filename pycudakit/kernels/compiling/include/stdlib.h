#include "pycudakit_cuda.h"
#if !defined(PK_OWN_OVERLOADS)
#include_next <stdlib.h>
#endif
