"""Calls of every family of functions, for the digests of their results: tests/engines/test_result_digests.py.

Each family is a generator of cases: a name, and the arrays that calls return. All calls here are guaranteed
to have the same bits on both engines, with every instruction set and any number of threads
(docs/guarantees.md). So these are left out:

- products of floats that are rounded: NumPy's BLAS computes them on the engine `cpu`, cuBLAS on `cuda`. The
  products here are of integers, or of floats that are small whole numbers, whose sums are exact in any order;
- `Generator.multivariate_normal` of any covariance but a diagonal of squares: NumPy's LAPACK factors it;
- `image.gaussian_blur` of floats: NumPy's `exp` makes its weights. Of integers the result is rounded;
- `floor`, `ceil`, `trunc` and `rint` of integers, whose dtypes differ between releases of NumPy.
"""

from helpers.results.arrays import interp, matmul, sort, take
from helpers.results.bodies import fused, kernels
from helpers.results.draws import random
from helpers.results.elementwise import elementwise, expression
from helpers.results.images import image
from helpers.results.reductions import histogram, reduce, scan, select

FAMILIES = {
    "elementwise": elementwise,
    "expression": expression,
    "reduce": reduce,
    "scan": scan,
    "sort": sort,
    "select": select,
    "histogram": histogram,
    "matmul": matmul,
    "interp": interp,
    "take": take,
    "image": image,
    "random": random,
    "kernels": kernels,
    "fuse": fused,
}
