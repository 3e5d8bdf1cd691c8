// What a module of compiled kernels tells of itself. The header is Python's, which compiles them with it.
#pragma once

#include "../../../pycudakit/_kernels/include/pycudakit_image.h"
