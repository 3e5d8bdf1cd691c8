"""`pycuda.curandom`: random numbers in arrays on the device, by cuRAND's device API."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit.pycuda import gpuarray
from pycudakit.pycuda._absent import Absent
from pycudakit.pycuda._device import cached_per_device
from pycudakit.pycuda._errors import absent
from pycudakit.pycuda._md5 import compression
from pycudakit.pycuda._memory import DeviceAllocation, mem_alloc
from pycudakit.pycuda.compiler import SourceModule

_BLOCKS, _THREADS = 132, 1024  # whatever the device has, so that a seed gives the same numbers everywhere
_GENERATORS = _BLOCKS * _THREADS
_STATE_BYTES = 48

# ---- rand ---------------------------------------------------------------------------------------------

_RAND = """
#include <curand_kernel.h>

extern "C" __global__ void fill(%(type)s *out, unsigned long long seed, size_t n) {
    const size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t begin = thread * %(run)d;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, thread, 0, &state);
    for (size_t i = begin; i < begin + %(run)d && i < n; ++i) out[i] = %(draw)s;
}
"""
_RUN = 64  # numbers of one generator: a new one costs as much as some ten numbers
_RAND_TYPES = {
    "float32": ("float", "(curand(&state) >> 8) * 0x1p-24f"),
    "float64": ("double", "((((unsigned long long)curand(&state) << 32) | curand(&state)) >> 11) * 0x1p-53"),
    "int32": ("unsigned int", "curand(&state)"),
    "uint32": ("unsigned int", "curand(&state)"),
}


# C code that programs put into their own kernels: it computes four random integers `a`, `b`, `c` and `d` from
# the thread, the index `i`, the size `n` and a `seed`.
md5_code = compression(
    [f"{name}.{axis}" for name in ("threadIdx", "blockIdx") for axis in "xyz"]
    + ["seed", "i", "n"]
    + [f"{name}.{axis}" for name in ("blockDim", "gridDim") for axis in "xyz"]
    + ["0"]
)


def rand(shape: Any, dtype: Any = np.float32, stream: Any = None) -> gpuarray.GPUArray:
    """Return an array of random numbers: uniform in [0, 1) for floats, of all bits for 32-bit integers.

    The seed is drawn from NumPy's global generator, so that `np.random.seed` determines the numbers.

    Parameters
    ----------
    shape
        The shape.
    dtype
        float32, float64, int32 or uint32.
    stream
        The stream in which the numbers are made.
    """
    result = gpuarray.empty(shape, dtype)
    kernel = _rand_kernel(_checked("rand", result.dtype, _RAND_TYPES))
    seed = np.random.randint(2**31 - 1)  # noqa: NPY002  # PyCUDA's rand does so
    blocks = -(-result.size // (_RUN * 256))
    if blocks:
        kernel.prepared_async_call((blocks, 1), (256, 1, 1), stream, result.gpudata, seed, result.size)
    return result


@cached_per_device
def _rand_kernel(dtype: str) -> Any:
    kind, draw = _RAND_TYPES[dtype]
    source = _RAND % {"type": kind, "draw": draw, "run": _RUN}
    return SourceModule(source, no_extern_c=True).get_function("fill")


def _checked(function: str, dtype: Any, table: dict[str, Any]) -> str:
    name = str(dtype)
    if name not in table:
        raise TypeError(f"{function} makes {', '.join(table)}, not {name}")
    return name


# ---- Generators ---------------------------------------------------------------------------------------


class _Fill(NamedTuple):
    """A kernel that fills an array: its types, its parameters and the expression of an element."""

    type: str
    draw: str
    parameters: str = ""


def _fills() -> dict[str, _Fill]:
    fills = {"uniform_int": _Fill("unsigned int", "curand(state)")}
    for kind, suffix in (("float", ""), ("double", "_double")):
        fills[f"uniform_{kind}"] = _Fill(kind, f"curand_uniform{suffix}(state)")
        scale = f"{kind} mean, {kind} stddev, "
        for count in ("", "2"):  # with 2, pairs of the Box-Muller transform
            out, draw = f"{kind}{count}", f"normal{count}{suffix}(state"
            fills[f"normal_{out}"] = _Fill(out, f"curand_{draw})")
            fills[f"normal_log_{out}"] = _Fill(out, f"curand_log_{draw}, mean, stddev)", scale)
    fills["poisson_int"] = _Fill("unsigned int", "curand_poisson(state, lambda)", "double lambda, ")
    for name, out in (("float", "float"), ("double", "double"), ("int", "unsigned int")):
        fills[f"poisson_inplace_{name}"] = _Fill(out, f"({out})curand_poisson(state, double(out[i]))")
    return fills


_FILLS = _fills()

_FILL = """
__global__ void __launch_bounds__({threads})
{name}({state} *states, {type} *out, {parameters}size_t n) {{
    const size_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    {state} *state = &states[thread];
    for (size_t i = thread; i < n; i += size_t(blockDim.x) * gridDim.x) out[i] = {draw};
}}
"""
_PREPARE = """
__global__ void __launch_bounds__({threads})
prepare({state} *states, size_t n, unsigned int *seeds, size_t offset) {{
    const size_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < n) curand_init(seeds[thread], thread, offset, &states[thread]);
}}
"""
_SKIP = """
__global__ void __launch_bounds__({threads})
{name}({state} *states, size_t n, unsigned long long skip) {{
    const size_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < n) {function}(skip, &states[thread]);
}}
__global__ void __launch_bounds__({threads})
{name}_array({state} *states, size_t n, const unsigned long long *skip) {{
    const size_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < n) {function}(skip[thread], &states[thread]);
}}
"""


class _Generator:
    """One generator a thread of 132 blocks of 1024 threads; their states are in device memory.

    Parameters
    ----------
    seed_getter
        A function of a count that returns an int32 GPUArray of as many seeds; by default the seeds are
        drawn from NumPy's global generator.
    offset
        How many numbers each generator skips at first.
    """

    has_box_muller = True
    generator_bits = 32
    block_count = _BLOCKS
    generators_per_block = _THREADS

    _state_type: str
    _skips: dict[str, str]  # cuRAND's function by the kernel that calls it

    def __init__(self, seed_getter: Callable[[int], Any] | None = None, offset: int = 0) -> None:
        seeds = (seed_getter or seed_getter_unique)(_GENERATORS)
        if not (
            isinstance(seeds, gpuarray.GPUArray) and seeds.dtype == np.int32 and seeds.size == _GENERATORS
        ):
            raise TypeError(f"seed_getter({_GENERATORS}) returns an int32 GPUArray of {_GENERATORS} seeds")
        self.state_type = self._state_type
        self.module = _module(self.source())
        self._state = mem_alloc(_GENERATORS * _STATE_BYTES)
        self._launch("prepare", None, _GENERATORS, seeds.gpudata, offset)

    @property
    def state(self) -> DeviceAllocation:
        """The states of all generators."""
        return self._state

    @classmethod
    def source(cls) -> str:
        """Return the source of the kernels."""
        names = {"state": cls._state_type, "threads": _THREADS}
        kernels = [_PREPARE.format(**names)]
        kernels += [_FILL.format(name=name, **names, **fill._asdict()) for name, fill in _FILLS.items()]
        kernels += [
            _SKIP.format(name=name, **names, function=function) for name, function in cls._skips.items()
        ]
        return '#include <curand_kernel.h>\nextern "C" {' + "".join(kernels) + "}\n"

    def _launch(self, kernel: str, stream: Any, *arguments: Any) -> None:
        function = self.module.get_function(kernel)
        function.prepared_async_call((_BLOCKS, 1), (_THREADS, 1, 1), stream, self._state, *arguments)

    def _fill_normal(self, kernel: str, data: Any, stream: Any, *scale: float) -> None:
        _require_no_gaps(data)
        kind = {"float32": "float", "float64": "double"}
        name = f"{kernel}_{kind[_checked(kernel, data.dtype, kind)]}"
        # A kernel that writes pairs needs their alignment, which a view may lack.
        in_pairs = data.size % 2 == 0 and data.ptr % (2 * data.itemsize) == 0
        self._launch(
            name + "2" * in_pairs, stream, data.gpudata, *scale, data.size // 2 if in_pairs else data.size
        )

    # ---- fill and gen ------------------------------------------------------------------------------

    def fill_uniform(self, data: Any, stream: Any = None) -> None:
        """Fill an array: uniform in (0, 1] for floats, of all bits for 32-bit integers."""
        _require_no_gaps(data)
        names = {"float32": "float", "float64": "double", "int32": "int", "uint32": "int"}
        name = names[_checked("fill_uniform", data.dtype, names)]
        self._launch(f"uniform_{name}", stream, data.gpudata, data.size)

    def fill_normal(self, data: Any, stream: Any = None) -> None:
        """Fill an array with numbers of the standard normal distribution."""
        self._fill_normal("normal", data, stream)

    def fill_log_normal(self, data: Any, mean: float, stddev: float, stream: Any = None) -> None:
        """Fill an array with numbers whose logarithms are normal, of this mean and deviation."""
        self._fill_normal("normal_log", data, stream, mean, stddev)

    def fill_poisson(self, data: Any, lambda_value: float | None = None, stream: Any = None) -> None:
        """Fill an array with numbers of the Poisson distribution; by default its elements are the means."""
        _require_no_gaps(data)
        if lambda_value is None:
            names = {"float32": "float", "float64": "double", "uint32": "int"}
            name = names[_checked("fill_poisson", data.dtype, names)]
            self._launch(f"poisson_inplace_{name}", stream, data.gpudata, data.size)
        else:
            _checked("fill_poisson with lambda_value", data.dtype, {"uint32": "int"})
            self._launch("poisson_int", stream, data.gpudata, lambda_value, data.size)

    def gen_uniform(self, shape: Any, dtype: Any, stream: Any = None) -> gpuarray.GPUArray:
        """Return a new array that `fill_uniform` has filled."""
        result = gpuarray.empty(shape, dtype)
        self.fill_uniform(result, stream)
        return result

    def gen_normal(self, shape: Any, dtype: Any, stream: Any = None) -> gpuarray.GPUArray:
        """Return a new array that `fill_normal` has filled."""
        result = gpuarray.empty(shape, dtype)
        self.fill_normal(result, stream)
        return result

    def gen_log_normal(
        self, shape: Any, dtype: Any, mean: float, stddev: float, stream: Any = None
    ) -> gpuarray.GPUArray:
        """Return a new array that `fill_log_normal` has filled."""
        result = gpuarray.empty(shape, dtype)
        self.fill_log_normal(result, mean, stddev, stream)
        return result

    def gen_poisson(
        self, shape: Any, dtype: Any, lambda_value: float, stream: Any = None
    ) -> gpuarray.GPUArray:
        """Return a new array that `fill_poisson` has filled."""
        result = gpuarray.empty(shape, dtype)
        self.fill_poisson(result, lambda_value, stream)
        return result

    # ---- Skipping ----------------------------------------------------------------------------------

    def call_skip_ahead(self, i: int, stream: Any = None) -> None:
        """Skip `i` numbers of each generator."""
        self._launch("skip_ahead", stream, _GENERATORS, i)

    def call_skip_ahead_array(self, i: Any, stream: Any = None) -> None:
        """Skip `i[k]` numbers of generator `k`; `i` is a uint64 GPUArray for all, or for the first block."""
        self._launch("skip_ahead_array", stream, *_counts(i))

    def call_skip_ahead_sequence(self, i: int, stream: Any = None) -> None:
        """Skip `i` sequences of each generator."""
        self._launch("skip_ahead_sequence", stream, _GENERATORS, i)

    def call_skip_ahead_sequence_array(self, i: Any, stream: Any = None) -> None:
        """Skip `i[k]` sequences of generator `k`; `i` is a uint64 GPUArray."""
        self._launch("skip_ahead_sequence_array", stream, *_counts(i))


def _require_no_gaps(data: Any) -> None:
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise ValueError("a generator fills whole arrays, and this one is a view with gaps: give a copy")


def _counts(skips: Any) -> tuple[int, Any]:
    """Return the number of generators that skip, and the numbers that each skips."""
    # PyCUDA's programs give the counts of the first block, the only one that its function skips.
    if skips.size not in (_THREADS, _GENERATORS) or skips.dtype.kind not in "iu" or skips.dtype.itemsize != 8:
        raise TypeError(
            f"one uint64 for each of the {_GENERATORS} generators, or the {_THREADS} of the first block, is "
            f"wanted, not {skips.size} {skips.dtype}"
        )
    return skips.size, skips.gpudata


@cached_per_device
def _module(source: str) -> Any:
    return SourceModule(source, no_extern_c=True)


class XORWOWRandomNumberGenerator(_Generator):
    """Marsaglia's XORWOW generators (2003), as cuRAND has them."""

    _state_type = "curandStateXORWOW"
    _skips = {"skip_ahead": "skipahead", "skip_ahead_sequence": "skipahead_sequence"}  # noqa: RUF012


class MRG32k3aRandomNumberGenerator(_Generator):
    """L'Ecuyer's combined multiple recursive generators MRG32k3a (1999), as cuRAND has them."""

    _state_type = "curandStateMRG32k3a"
    _skips = {  # noqa: RUF012
        "skip_ahead": "skipahead",
        "skip_ahead_sequence": "skipahead_sequence",
        "skip_ahead_subsequence": "skipahead_subsequence",
    }

    def call_skip_ahead_subsequence(self, i: int, stream: Any = None) -> None:
        """Skip `i` subsequences of each generator."""
        self._launch("skip_ahead_subsequence", stream, _GENERATORS, i)

    def call_skip_ahead_subsequence_array(self, i: Any, stream: Any = None) -> None:
        """Skip `i[k]` subsequences of generator `k`; `i` is a uint64 GPUArray."""
        self._launch("skip_ahead_subsequence_array", stream, *_counts(i))


def seed_getter_uniform(n: int) -> gpuarray.GPUArray:
    """Return `n` times one seed, drawn from Python's global generator."""
    return gpuarray.empty(n, np.int32).fill(random.randint(0, 2**31 - 1))  # noqa: S311


def seed_getter_unique(n: int) -> gpuarray.GPUArray:
    """Return `n` seeds, drawn from NumPy's global generator."""
    return gpuarray.to_gpu(np.random.randint(0, 2**31 - 1, n).astype(np.int32))  # noqa: NPY002


def get_curand_version() -> None:
    """Return None, as PyCUDA without cuRAND's library does: Sobol generators need that."""


# ---- Sobol's generators, which do not exist -------------------------------------------------------------

_SOBOL = "use XORWOWRandomNumberGenerator here, or scipy.stats.qmc.Sobol on the host"

generate_direction_vectors = absent("generate_direction_vectors", _SOBOL)
generate_scramble_constants32 = absent("generate_scramble_constants32", _SOBOL)
generate_scramble_constants64 = absent("generate_scramble_constants64", _SOBOL)


class Sobol32RandomNumberGenerator(Absent):
    """A Sobol generator, whose use raises LogicError."""

    _remedy = _SOBOL


class Sobol64RandomNumberGenerator(Sobol32RandomNumberGenerator):
    """A Sobol generator, whose use raises LogicError."""


class ScrambledSobol32RandomNumberGenerator(Sobol32RandomNumberGenerator):
    """A Sobol generator, whose use raises LogicError."""


class ScrambledSobol64RandomNumberGenerator(Sobol32RandomNumberGenerator):
    """A Sobol generator, whose use raises LogicError."""
