"""Property test: reductions and scans of device arrays with any keywords give the host's results."""

import numpy as np
import pytest
from helpers.strategies import DTYPES, assert_values, build, outcome
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import pycudakit as pk

SUMS = ["sum", "prod", "mean", "std", "var", "nansum", "nanprod", "nanmean", "nanstd", "nanvar"]
EXTREMES = ["min", "max", "nanmin", "nanmax"]
PLACES = ["argmin", "argmax", "nanargmin", "nanargmax"]
SCANS = ["cumsum", "cumprod", "nancumsum", "nancumprod", "cummax", "cummin", "exclusive_scan"]
OTHERS = ["any", "all", "ptp", "median", "nanmedian"]
SHAPES = [(), (1,), (2000,), (7, 1), (40, 60), (3, 70, 9)]
FILLING = 5  # the value in `out` before the call


@st.composite
def calls(draw):
    """Draw a function name, its array, its keywords, and the dtype and strides of its `out`."""
    name = draw(st.sampled_from([*SUMS, *EXTREMES, *PLACES, *SCANS, *OTHERS]))
    kind = draw(st.sampled_from(["ordinary", "special", "small"]))
    array = build(
        draw(st.sampled_from(DTYPES)), draw(st.sampled_from(SHAPES)), kind, draw(st.integers(0, 99))
    )
    axes = [None, 0, -1] if name in PLACES + SCANS else [None, 0, -1, (0, -1)]
    keywords = {"axis": draw(st.sampled_from(axes)) if array.ndim else None}
    if name not in SCANS:
        keywords["keepdims"] = draw(st.booleans())
    if name in SUMS + SCANS and draw(st.booleans()):
        keywords["dtype"] = draw(st.sampled_from(DTYPES))
    if name in [*SUMS, *EXTREMES, "any", "all"] and draw(st.booleans()):
        keywords["where"] = build("bool", array.shape, "special", 1)
    if name in ["sum", "prod", "nansum", "nanprod", *EXTREMES] and draw(st.booleans()):
        keywords["initial"] = draw(st.sampled_from([0, 3, 1.5, -0.0, np.nan]))
    if name.endswith(("std", "var")):
        keywords["ddof"] = draw(st.sampled_from([0, 1, 2]))
    dtype, step = draw(st.sampled_from([None, "own", *DTYPES])), draw(st.sampled_from([1, 2]))
    return name, array, keywords, dtype, step


@pytest.mark.filterwarnings("ignore")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call=calls())
def test_calls(cupy_library, call):
    name, array, keywords, dtype, step = call
    function = getattr(pk, name)

    def run(up, out):
        given = {key: up(value) if key == "where" else value for key, value in keywords.items()}
        return function(up(array), **given, **({} if out is None else {"out": out}))

    def down(result):
        return (
            cupy_library.down(result) if hasattr(result, "__cuda_array_interface__") else np.asarray(result)
        )

    with pk.engine("cpu"):
        status, usual, _ = outcome(run, np.copy, None)
    wide = wide_on_device = out = out_on_device = None
    if dtype is not None and status == "ok":
        shape, own = np.shape(usual), usual.dtype if dtype == "own" else dtype
        wide = np.full((*shape[:-1], step * shape[-1]) if shape else (), FILLING).astype(own)
        wide_on_device = cupy_library.up(wide)
        out, out_on_device = (x[..., ::step] if shape else x for x in (wide, wide_on_device))
    with pk.engine("cpu"):
        status, want, _ = outcome(run, np.copy, out)
    assume(type(want) is not pk.errors.Unsupported)  # supported by NumPy only
    device_status, got, _ = outcome(run, cupy_library.up, out_on_device)
    assert device_status == status, (want, got)
    if status == "ok":
        assert_values(down(got), np.asarray(want))
    else:
        assert (type(got), str(got)) == (type(want), str(want))
    if out is not None:
        assert_values(down(wide_on_device), wide)
