#include "pycudakit_cuda.h"
