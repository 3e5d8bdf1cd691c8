// What a module of compiled kernels tells of itself. The header is Python's, which compiles them with it.
#pragma once

#include "../../../pycudakit/kernels/compiling/include/pycudakit_image.h"
