// Replaces the header of this name: pycudakit_cuda.h has its declarations.
#include "pycudakit_cuda.h"
