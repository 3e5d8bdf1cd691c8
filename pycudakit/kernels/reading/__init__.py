"""Parser of CUDA C sources: preprocessor, declarators, and the signatures of kernels and variables."""
