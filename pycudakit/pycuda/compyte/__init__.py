"""`pycuda.compyte`: the names of dtypes that PyCUDA shares with PyOpenCL."""
