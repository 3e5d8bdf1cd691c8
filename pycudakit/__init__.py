"""NumPy's functions on an NVIDIA GPU or on all CPU cores: NumPy arrays in, NumPy arrays out."""

from typing import Any

from pycudakit import _lazy, errors
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._runtime import late_bound

# The public names, by module. tools/public_stubs.py writes __init__.pyi from them, for type checkers.
_IMPORTED = {
    "_families.elementwise.ufuncs": (
        "abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
        "asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift "
        "bitwise_not bitwise_or bitwise_right_shift bitwise_xor cbrt ceil copysign cos cosh "
        "deg2rad degrees divide equal exp exp2 expm1 fabs float_power floor floor_divide fmax "
        "fmin fmod gcd greater greater_equal heaviside hypot invert isfinite isinf isnan lcm "
        "ldexp left_shift less less_equal log log1p log2 log10 logaddexp logaddexp2 "
        "logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative "
        "nextafter not_equal positive pow power rad2deg radians reciprocal remainder "
        "right_shift rint sign signbit sin sinh sqrt square subtract tan tanh true_divide "
        "trunc"
    ),
    "_native.version": "__version__",
    "_runtime.call_log": "Call",
    "_runtime.context": "engine set_engine",
    "_runtime.native_call": "last_call",
}
_LAZY = {
    "_families.elementwise.manipulation": "ascontiguousarray flip roll swapaxes transpose tril triu",
    "_families.expression.comparisons": "allclose array_equal isclose",
    "_families.histogram.histogram": "bincount digitize histogram histogram2d",
    "_families.histogram.histogramdd": "histogramdd",
    "_families.interp": "interp",
    "_families.matmul.dot": "average dot vdot",
    "_families.matmul.einsum": "einsum",
    "_families.matmul.matmul": "matmul",
    "_families.matmul.tensor_products": "inner kron outer tensordot trace vecdot",
    "_families.reduce.means": "mean std var",
    "_families.reduce.min_max": "amax amin argmax argmin max min ptp",
    "_families.reduce.nan_functions": (
        "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar"
    ),
    "_families.reduce.sums": "prod sum",
    "_families.reduce.truth_values": "all any count_nonzero",
    "_families.scan.cumulative": (
        "cummax cummin cumprod cumsum cumulative_prod cumulative_sum exclusive_scan nancumprod nancumsum"
    ),
    "_families.scan.differences": "diff",
    "_families.select.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "_families.sort.searching": "searchsorted",
    "_families.sort.set_operations": "intersect1d isin setdiff1d setxor1d union1d unique_values",
    "_families.sort.sorting": "argpartition argsort lexsort partition sort",
    "_families.sort.topk": "topk",
    "_families.sort.unique": "unique",
    "_families.take": "argwhere compress flatnonzero nonzero take take_along_axis",
    "image": "",
    "linalg": "",
    "numpy": "",
    "random": "",
}
# Lazy functions that take arrays of other libraries by themselves, or no arrays at all.
_LAZY_UNWRAPPED = {
    "_families.elementwise.non_ufuncs": "around astype clip nan_to_num round sinc where",
    "_families.elementwise.two_output_ufuncs": "divmod frexp modf",
    "_families.expression.evaluate": "evaluate",
    "_interop.pinned_copy": "pinned_copy",
    "_native.engine_status": "EngineStatus engines",
    "_native.hardware": "Device Link Memory build_info devices link_speed memory_info release",
    "_native.paths": "get_include get_library_dir",
    "_native.pinned": "empty_pinned",
    "_native.stream_tuning": "Tuning tuned tunings",
    "_runtime.profile": "Profile profile",
    "fusing": "Fused fuse",
    "fusing.composites.calculus": "cross gradient trapezoid",
    "fusing.composites.joining": "concat concatenate repeat stack tile",
    "fusing.composites.padding": "pad",
    "fusing.composites.signals": "convolve correlate",
    "fusing.composites.statistics": "corrcoef cov",
    "kernels": (
        "ElementwiseKernel ExclusiveScanKernel In InOut InclusiveScanKernel Out Program "
        "ReductionKernel SourceModule grid_for wrap"
    ),
}

_lazy.import_names(__name__, _IMPORTED)
_lazy.attach(__name__, _LAZY, accept_foreign_arrays, _LAZY_UNWRAPPED)

late_bound.register(
    call_on_device=_lazy.lazy_function("pycudakit.fusing.single_call", "call"),
    call_on_dask=_lazy.lazy_function("pycudakit._dask.registry", "call"),
    compile_requested=_lazy.lazy_function("pycudakit.fusing.memory.background_jit", "compile_requested"),
)


def _unpickle_fused(function: Any, strict: bool) -> Any:
    """Restore a fused function. Pickles name this function, so that they name no private module."""
    return _lazy.lazy_function("pycudakit.fusing.api", "unpickle_fused")(function, strict)


def _unpickle_explained(kind: str, *fields: Any) -> Any:
    """Restore the result of `Fused.explain`, or a part of it: an `Explained`, `PlanPass` or `Break`."""
    return _lazy.lazy_function("pycudakit.fusing.schedule.explain", kind)(*fields)


def load_ipython_extension(shell: Any) -> None:
    """Add `%%cuda` to IPython or Jupyter; `%load_ext pycudakit` calls it."""
    _lazy.lazy_function("pycudakit.kernels.cell_magic", "register")(shell)


_HIDDEN = {"fusing", "kernels", "numpy"}  # submodules whose names are not those of NumPy's functions
__all__ = sorted({"errors", *_lazy.MODULES_OF_NAMES[__name__]} - _HIDDEN)  # noqa: PLE0605

_lazy.set_public_names(__name__, [*__all__, "numpy"])
_lazy.set_public_names(errors.__name__, errors.__all__)
