// PyCUDA's second header: the complex numbers, and the types by whose names textures held doubles. The
// functions of textures and surfaces do not exist, as CUDA 12 has no references to these.
#ifndef PYCUDA_HELPERS_HPP
#define PYCUDA_HELPERS_HPP

#include <pycuda-complex.hpp>

typedef float fp_tex_float;
typedef int2 fp_tex_double;
typedef uint2 fp_tex_cfloat;
typedef int4 fp_tex_cdouble;

#endif
