// The table that a compiled module exports. The header belongs to the Python package, which compiles kernels
// with it.
#pragma once

#include "../../../pycudakit/kernels/compiling/include/pycudakit_image.h"
