"""Array interop: arrays of CuPy, PyTorch, JAX, pandas, PyArrow and others as arguments of calls."""
