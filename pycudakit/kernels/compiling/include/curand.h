// Replaces the header of this name: curand_kernel.h has its declarations.
#include "curand_kernel.h"
