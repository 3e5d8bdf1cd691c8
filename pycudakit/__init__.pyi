"""Written by tools/public_stubs.py: change pycudakit/__init__.py, and run it."""

from contextlib import AbstractContextManager
from typing import Any

from numpy import ndarray

from pycudakit import errors as errors
from pycudakit import numpy as numpy
from pycudakit._runtime.context import EngineName
from pycudakit._families.elementwise.non_ufuncs import around as around
from pycudakit._families.elementwise.non_ufuncs import clip as clip
from pycudakit._families.elementwise.non_ufuncs import nan_to_num as nan_to_num
from pycudakit._families.elementwise.non_ufuncs import round as round
from pycudakit._families.elementwise.non_ufuncs import sinc as sinc
from pycudakit._families.elementwise.non_ufuncs import where as where
from pycudakit._families.elementwise.two_output_ufuncs import divmod as divmod
from pycudakit._families.elementwise.two_output_ufuncs import frexp as frexp
from pycudakit._families.elementwise.two_output_ufuncs import modf as modf
from pycudakit._families.elementwise.ufuncs import abs as abs
from pycudakit._families.elementwise.ufuncs import absolute as absolute
from pycudakit._families.elementwise.ufuncs import acos as acos
from pycudakit._families.elementwise.ufuncs import acosh as acosh
from pycudakit._families.elementwise.ufuncs import add as add
from pycudakit._families.elementwise.ufuncs import arccos as arccos
from pycudakit._families.elementwise.ufuncs import arccosh as arccosh
from pycudakit._families.elementwise.ufuncs import arcsin as arcsin
from pycudakit._families.elementwise.ufuncs import arcsinh as arcsinh
from pycudakit._families.elementwise.ufuncs import arctan as arctan
from pycudakit._families.elementwise.ufuncs import arctan2 as arctan2
from pycudakit._families.elementwise.ufuncs import arctanh as arctanh
from pycudakit._families.elementwise.ufuncs import asin as asin
from pycudakit._families.elementwise.ufuncs import asinh as asinh
from pycudakit._families.elementwise.ufuncs import atan as atan
from pycudakit._families.elementwise.ufuncs import atan2 as atan2
from pycudakit._families.elementwise.ufuncs import atanh as atanh
from pycudakit._families.elementwise.ufuncs import bitwise_and as bitwise_and
from pycudakit._families.elementwise.ufuncs import bitwise_invert as bitwise_invert
from pycudakit._families.elementwise.ufuncs import bitwise_left_shift as bitwise_left_shift
from pycudakit._families.elementwise.ufuncs import bitwise_not as bitwise_not
from pycudakit._families.elementwise.ufuncs import bitwise_or as bitwise_or
from pycudakit._families.elementwise.ufuncs import bitwise_right_shift as bitwise_right_shift
from pycudakit._families.elementwise.ufuncs import bitwise_xor as bitwise_xor
from pycudakit._families.elementwise.ufuncs import cbrt as cbrt
from pycudakit._families.elementwise.ufuncs import ceil as ceil
from pycudakit._families.elementwise.ufuncs import copysign as copysign
from pycudakit._families.elementwise.ufuncs import cos as cos
from pycudakit._families.elementwise.ufuncs import cosh as cosh
from pycudakit._families.elementwise.ufuncs import deg2rad as deg2rad
from pycudakit._families.elementwise.ufuncs import degrees as degrees
from pycudakit._families.elementwise.ufuncs import divide as divide
from pycudakit._families.elementwise.ufuncs import equal as equal
from pycudakit._families.elementwise.ufuncs import exp as exp
from pycudakit._families.elementwise.ufuncs import exp2 as exp2
from pycudakit._families.elementwise.ufuncs import expm1 as expm1
from pycudakit._families.elementwise.ufuncs import fabs as fabs
from pycudakit._families.elementwise.ufuncs import float_power as float_power
from pycudakit._families.elementwise.ufuncs import floor as floor
from pycudakit._families.elementwise.ufuncs import floor_divide as floor_divide
from pycudakit._families.elementwise.ufuncs import fmax as fmax
from pycudakit._families.elementwise.ufuncs import fmin as fmin
from pycudakit._families.elementwise.ufuncs import fmod as fmod
from pycudakit._families.elementwise.ufuncs import gcd as gcd
from pycudakit._families.elementwise.ufuncs import greater as greater
from pycudakit._families.elementwise.ufuncs import greater_equal as greater_equal
from pycudakit._families.elementwise.ufuncs import heaviside as heaviside
from pycudakit._families.elementwise.ufuncs import hypot as hypot
from pycudakit._families.elementwise.ufuncs import invert as invert
from pycudakit._families.elementwise.ufuncs import isfinite as isfinite
from pycudakit._families.elementwise.ufuncs import isinf as isinf
from pycudakit._families.elementwise.ufuncs import isnan as isnan
from pycudakit._families.elementwise.ufuncs import lcm as lcm
from pycudakit._families.elementwise.ufuncs import ldexp as ldexp
from pycudakit._families.elementwise.ufuncs import left_shift as left_shift
from pycudakit._families.elementwise.ufuncs import less as less
from pycudakit._families.elementwise.ufuncs import less_equal as less_equal
from pycudakit._families.elementwise.ufuncs import log as log
from pycudakit._families.elementwise.ufuncs import log10 as log10
from pycudakit._families.elementwise.ufuncs import log1p as log1p
from pycudakit._families.elementwise.ufuncs import log2 as log2
from pycudakit._families.elementwise.ufuncs import logaddexp as logaddexp
from pycudakit._families.elementwise.ufuncs import logaddexp2 as logaddexp2
from pycudakit._families.elementwise.ufuncs import logical_and as logical_and
from pycudakit._families.elementwise.ufuncs import logical_not as logical_not
from pycudakit._families.elementwise.ufuncs import logical_or as logical_or
from pycudakit._families.elementwise.ufuncs import logical_xor as logical_xor
from pycudakit._families.elementwise.ufuncs import maximum as maximum
from pycudakit._families.elementwise.ufuncs import minimum as minimum
from pycudakit._families.elementwise.ufuncs import mod as mod
from pycudakit._families.elementwise.ufuncs import multiply as multiply
from pycudakit._families.elementwise.ufuncs import negative as negative
from pycudakit._families.elementwise.ufuncs import nextafter as nextafter
from pycudakit._families.elementwise.ufuncs import not_equal as not_equal
from pycudakit._families.elementwise.ufuncs import positive as positive
from pycudakit._families.elementwise.ufuncs import pow as pow
from pycudakit._families.elementwise.ufuncs import power as power
from pycudakit._families.elementwise.ufuncs import rad2deg as rad2deg
from pycudakit._families.elementwise.ufuncs import radians as radians
from pycudakit._families.elementwise.ufuncs import reciprocal as reciprocal
from pycudakit._families.elementwise.ufuncs import remainder as remainder
from pycudakit._families.elementwise.ufuncs import right_shift as right_shift
from pycudakit._families.elementwise.ufuncs import rint as rint
from pycudakit._families.elementwise.ufuncs import sign as sign
from pycudakit._families.elementwise.ufuncs import signbit as signbit
from pycudakit._families.elementwise.ufuncs import sin as sin
from pycudakit._families.elementwise.ufuncs import sinh as sinh
from pycudakit._families.elementwise.ufuncs import sqrt as sqrt
from pycudakit._families.elementwise.ufuncs import square as square
from pycudakit._families.elementwise.ufuncs import subtract as subtract
from pycudakit._families.elementwise.ufuncs import tan as tan
from pycudakit._families.elementwise.ufuncs import tanh as tanh
from pycudakit._families.elementwise.ufuncs import true_divide as true_divide
from pycudakit._families.elementwise.ufuncs import trunc as trunc
from pycudakit._families.expression.comparisons import allclose as allclose
from pycudakit._families.expression.comparisons import array_equal as array_equal
from pycudakit._families.expression.comparisons import isclose as isclose
from pycudakit._families.expression.evaluate import evaluate as evaluate
from pycudakit._families.histogram.histogram import digitize as digitize
from pycudakit._families.histogram.histogram import histogram as histogram
from pycudakit._families.histogram.histogram import histogram2d as histogram2d
from pycudakit._families.histogram.histogramdd import histogramdd as histogramdd
from pycudakit._families.interp import interp as interp
from pycudakit._families.matmul.dot import average as average
from pycudakit._families.matmul.dot import dot as dot
from pycudakit._families.matmul.dot import vdot as vdot
from pycudakit._families.matmul.einsum import einsum as einsum
from pycudakit._families.matmul.matmul import matmul as matmul
from pycudakit._families.matmul.tensor_products import inner as inner
from pycudakit._families.matmul.tensor_products import tensordot as tensordot
from pycudakit._families.matmul.tensor_products import trace as trace
from pycudakit._families.matmul.tensor_products import vecdot as vecdot
from pycudakit._families.reduce.means import mean as mean
from pycudakit._families.reduce.means import std as std
from pycudakit._families.reduce.means import var as var
from pycudakit._families.reduce.min_max import amax as amax
from pycudakit._families.reduce.min_max import amin as amin
from pycudakit._families.reduce.min_max import argmax as argmax
from pycudakit._families.reduce.min_max import argmin as argmin
from pycudakit._families.reduce.min_max import max as max
from pycudakit._families.reduce.min_max import min as min
from pycudakit._families.reduce.min_max import ptp as ptp
from pycudakit._families.reduce.nan_functions import nanargmax as nanargmax
from pycudakit._families.reduce.nan_functions import nanargmin as nanargmin
from pycudakit._families.reduce.nan_functions import nanmax as nanmax
from pycudakit._families.reduce.nan_functions import nanmean as nanmean
from pycudakit._families.reduce.nan_functions import nanmin as nanmin
from pycudakit._families.reduce.nan_functions import nanprod as nanprod
from pycudakit._families.reduce.nan_functions import nanstd as nanstd
from pycudakit._families.reduce.nan_functions import nansum as nansum
from pycudakit._families.reduce.nan_functions import nanvar as nanvar
from pycudakit._families.reduce.sums import prod as prod
from pycudakit._families.reduce.sums import sum as sum
from pycudakit._families.reduce.truth_values import all as all
from pycudakit._families.reduce.truth_values import any as any
from pycudakit._families.reduce.truth_values import count_nonzero as count_nonzero
from pycudakit._families.select.quantiles import median as median
from pycudakit._families.select.quantiles import nanmedian as nanmedian
from pycudakit._families.select.quantiles import nanpercentile as nanpercentile
from pycudakit._families.select.quantiles import nanquantile as nanquantile
from pycudakit._families.select.quantiles import percentile as percentile
from pycudakit._families.select.quantiles import quantile as quantile
from pycudakit._families.sort.searching import searchsorted as searchsorted
from pycudakit._families.sort.set_operations import intersect1d as intersect1d
from pycudakit._families.sort.topk import topk as topk
from pycudakit._families.sort.unique import unique as unique
from pycudakit._families.take import nonzero as nonzero
from pycudakit._families.take import take as take
from pycudakit._interop.pinned_copy import pinned_copy as pinned_copy
from pycudakit._native.engine_status import EngineStatus as EngineStatus
from pycudakit._native.engine_status import engines as engines
from pycudakit._native.hardware import Device as Device
from pycudakit._native.hardware import Link as Link
from pycudakit._native.hardware import Memory as Memory
from pycudakit._native.hardware import build_info as build_info
from pycudakit._native.hardware import devices as devices
from pycudakit._native.hardware import link_speed as link_speed
from pycudakit._native.hardware import memory_info as memory_info
from pycudakit._native.hardware import release as release
from pycudakit._native.paths import get_include as get_include
from pycudakit._native.paths import get_library_dir as get_library_dir
from pycudakit._native.pinned import empty_pinned as empty_pinned
from pycudakit._native.stream_tuning import Tuning as Tuning
from pycudakit._native.stream_tuning import tuned as tuned
from pycudakit._native.stream_tuning import tunings as tunings
from pycudakit._native.version import __version__ as __version__
from pycudakit._runtime.call_log import Call as Call
from pycudakit._runtime.native_call import last_call as last_call
from pycudakit._runtime.profile import Profile as Profile
from pycudakit._runtime.profile import profile as profile
from pycudakit.fusing import Fused as Fused
from pycudakit.fusing import fuse as fuse
from pycudakit.fusing.composites.calculus import cross as cross
from pycudakit.fusing.composites.calculus import gradient as gradient
from pycudakit.fusing.composites.calculus import trapezoid as trapezoid
from pycudakit.fusing.composites.statistics import corrcoef as corrcoef
from pycudakit import image as image
from pycudakit.kernels import ElementwiseKernel as ElementwiseKernel
from pycudakit.kernels import ExclusiveScanKernel as ExclusiveScanKernel
from pycudakit.kernels import In as In
from pycudakit.kernels import InOut as InOut
from pycudakit.kernels import InclusiveScanKernel as InclusiveScanKernel
from pycudakit.kernels import Out as Out
from pycudakit.kernels import Program as Program
from pycudakit.kernels import ReductionKernel as ReductionKernel
from pycudakit.kernels import SourceModule as SourceModule
from pycudakit.kernels import grid_for as grid_for
from pycudakit.kernels import wrap as wrap
from pycudakit import linalg as linalg
from pycudakit import random as random

def argpartition(a: Any, kth: Any, axis: Any = ..., kind: Any = ..., order: Any = ...) -> ndarray[Any, Any]: ...
def argsort(a: Any, axis: Any = ..., kind: Any = ..., order: Any = ..., *, stable: Any = ..., descending: Any = ...) -> ndarray[Any, Any]: ...
def argwhere(a: Any) -> ndarray[Any, Any]: ...
def ascontiguousarray(a: Any, dtype: Any = ...) -> ndarray[Any, Any]: ...
def astype(x: Any, dtype: Any, /, *, copy: Any = ..., device: Any = ...) -> ndarray[Any, Any]: ...
def bincount(x: Any, /, weights: Any = ..., minlength: Any = ...) -> ndarray[Any, Any]: ...
def compress(condition: Any, a: Any, axis: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def concat(arrays: Any, /, axis: Any = ..., out: Any = ..., *, dtype: Any = ..., casting: Any = ...) -> ndarray[Any, Any]: ...
def concatenate(arrays: Any, /, axis: Any = ..., out: Any = ..., *, dtype: Any = ..., casting: Any = ...) -> ndarray[Any, Any]: ...
def convolve(a: Any, v: Any, mode: Any = ...) -> ndarray[Any, Any]: ...
def correlate(a: Any, v: Any, mode: Any = ...) -> ndarray[Any, Any]: ...
def cov(m: Any, y: Any = ..., rowvar: Any = ..., bias: Any = ..., ddof: Any = ..., fweights: Any = ..., aweights: Any = ..., *, dtype: Any = ...) -> ndarray[Any, Any]: ...
def cummax(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def cummin(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def cumprod(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def cumsum(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def cumulative_prod(x: Any, /, *, axis: Any = ..., dtype: Any = ..., out: Any = ..., include_initial: Any = ...) -> ndarray[Any, Any]: ...
def cumulative_sum(x: Any, /, *, axis: Any = ..., dtype: Any = ..., out: Any = ..., include_initial: Any = ...) -> ndarray[Any, Any]: ...
def diff(a: Any, n: Any = ..., axis: Any = ..., prepend: Any = ..., append: Any = ...) -> ndarray[Any, Any]: ...
def engine(name: EngineName | None = ..., *, fallback: Any = ..., devices: Any = ..., progress: Any = ..., wait: Any = ...) -> AbstractContextManager[None]: ...
def exclusive_scan(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def flatnonzero(a: Any) -> ndarray[Any, Any]: ...
def flip(m: Any, axis: Any = ...) -> ndarray[Any, Any]: ...
def isin(element: Any, test_elements: Any, assume_unique: Any = ..., invert: Any = ..., *, kind: Any = ...) -> ndarray[Any, Any]: ...
def kron(a: Any, b: Any) -> ndarray[Any, Any]: ...
def lexsort(keys: Any, axis: Any = ...) -> ndarray[Any, Any]: ...
def nancumprod(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def nancumsum(a: Any, axis: Any = ..., dtype: Any = ..., out: Any = ...) -> ndarray[Any, Any]: ...
def outer(a: Any, b: Any, out: Any = ...) -> ndarray[Any, Any]: ...
def pad(array: Any, pad_width: Any, mode: Any = ..., **kwargs: Any) -> ndarray[Any, Any]: ...
def partition(a: Any, kth: Any, axis: Any = ..., kind: Any = ..., order: Any = ...) -> ndarray[Any, Any]: ...
def repeat(a: Any, repeats: Any, axis: Any = ...) -> ndarray[Any, Any]: ...
def roll(a: Any, shift: Any, axis: Any = ...) -> ndarray[Any, Any]: ...
def set_engine(name: EngineName, fallback: Any = ...) -> None: ...
def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = ...) -> ndarray[Any, Any]: ...
def setxor1d(ar1: Any, ar2: Any, assume_unique: Any = ...) -> ndarray[Any, Any]: ...
def sort(a: Any, axis: Any = ..., kind: Any = ..., order: Any = ..., *, stable: Any = ..., descending: Any = ...) -> ndarray[Any, Any]: ...
def stack(arrays: Any, axis: Any = ..., out: Any = ..., *, dtype: Any = ..., casting: Any = ...) -> ndarray[Any, Any]: ...
def swapaxes(a: Any, axis1: Any, axis2: Any) -> ndarray[Any, Any]: ...
def take_along_axis(arr: Any, indices: Any, axis: Any = ...) -> ndarray[Any, Any]: ...
def tile(A: Any, reps: Any) -> ndarray[Any, Any]: ...
def transpose(a: Any, axes: Any = ...) -> ndarray[Any, Any]: ...
def tril(m: Any, k: Any = ...) -> ndarray[Any, Any]: ...
def triu(m: Any, k: Any = ...) -> ndarray[Any, Any]: ...
def union1d(ar1: Any, ar2: Any) -> ndarray[Any, Any]: ...
def unique_values(x: Any) -> ndarray[Any, Any]: ...
def load_ipython_extension(shell: Any) -> None: ...

__all__ = [
    "Call",
    "Device",
    "ElementwiseKernel",
    "EngineStatus",
    "ExclusiveScanKernel",
    "Fused",
    "In",
    "InOut",
    "InclusiveScanKernel",
    "Link",
    "Memory",
    "Out",
    "Profile",
    "Program",
    "ReductionKernel",
    "SourceModule",
    "Tuning",
    "__version__",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "around",
    "array_equal",
    "ascontiguousarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "average",
    "bincount",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "build_info",
    "cbrt",
    "ceil",
    "clip",
    "compress",
    "concat",
    "concatenate",
    "convolve",
    "copysign",
    "corrcoef",
    "correlate",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "deg2rad",
    "degrees",
    "devices",
    "diff",
    "digitize",
    "divide",
    "divmod",
    "dot",
    "einsum",
    "empty_pinned",
    "engine",
    "engines",
    "equal",
    "errors",
    "evaluate",
    "exclusive_scan",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "flatnonzero",
    "flip",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "fuse",
    "gcd",
    "get_include",
    "get_library_dir",
    "gradient",
    "greater",
    "greater_equal",
    "grid_for",
    "heaviside",
    "histogram",
    "histogram2d",
    "histogramdd",
    "hypot",
    "image",
    "inner",
    "interp",
    "intersect1d",
    "invert",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "kron",
    "last_call",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "lexsort",
    "linalg",
    "link_speed",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "mean",
    "median",
    "memory_info",
    "min",
    "minimum",
    "mod",
    "modf",
    "multiply",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "negative",
    "nextafter",
    "nonzero",
    "not_equal",
    "outer",
    "pad",
    "partition",
    "percentile",
    "pinned_copy",
    "positive",
    "pow",
    "power",
    "prod",
    "profile",
    "ptp",
    "quantile",
    "rad2deg",
    "radians",
    "random",
    "reciprocal",
    "release",
    "remainder",
    "repeat",
    "right_shift",
    "rint",
    "roll",
    "round",
    "searchsorted",
    "set_engine",
    "setdiff1d",
    "setxor1d",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "tuned",
    "tunings",
    "union1d",
    "unique",
    "unique_values",
    "var",
    "vdot",
    "vecdot",
    "where",
    "wrap",
]
