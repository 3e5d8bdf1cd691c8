"""Images and interpolation on operands that are resident, uploaded during the call, or on the host.

A call has the same bits with and without resident operands.
"""

import numpy as np
import pytest
from helpers.residency import KINDS, NOTES, devices_of_spans, fail_each_call, in_plan, numbers, table

from pycudakit._native import abi


def call(scope, entry, *arguments, options=None):
    report, plain = np.zeros(1, abi.REPORT), np.zeros(1, abi.OPTIONS)
    getattr(scope.library, entry)(*arguments, plain if options is None else options, report)
    return report[0]


def shape_of(array):
    return np.array(array.shape, np.int64)


def make_gray(scope, a, out, options=None):
    weights = np.array([299, 587, 114], np.int64)
    return call(scope, "pk_gray", table(a, out), shape_of(a), a.ndim, weights, 1000, 0, options=options)


TABLE = np.arange(256, dtype=np.uint16)[::-1].copy()


def look_up(scope, a, out, values=TABLE):
    return call(scope, "pk_lookup", table(a, out), shape_of(a), a.ndim, values, len(values))


def resized_by(method):
    def resize(scope, a, out):
        return call(
            scope, "pk_resize", table(a, out), shape_of(a), a.ndim, out.shape[-3], out.shape[-2], method
        )

    return resize


def filtered_by(kind, border, height=3, width=5):
    count = {abi.FILTER_CORRELATE: height * width, abi.FILTER_SEPARABLE: height + width}.get(kind, 0)
    weights = np.linspace(-0.5, 1, count)

    def filter_images(scope, a, out):
        window = np.zeros(1, abi.WINDOW)
        window["kind"], window["border"], window["height"], window["width"] = kind, border, height, width
        window["above"], window["left"], window["border_value"] = height // 2, width // 3, 9
        return call(scope, "pk_filter", window, weights, weights.size, table(a, out), shape_of(a))

    return filter_images


POINTS = np.linspace(-40, 40, 50), np.cos(np.linspace(0, 9, 50))


def interpolate(scope, a, out, xp=POINTS[0], fp=POINTS[1]):
    return call(scope, "pk_interp", xp, fp, xp.size, -1.0, 1.0, a, out, a.size)


WHOLE, BANDS = (5, 30, 40, 3), (2, 420, 410, 1)
# Functions, with their inputs and results.
CALLS = {
    "gray": (make_gray, ((70, 90, 3), "u1"), ((70, 90), "u1")),
    "gray floats": (make_gray, ((300, 290, 4), "f4"), ((300, 290), "f4")),
    "table": (look_up, ((700, 300), "u1"), ((700, 300), "u1")),
    "smaller": (resized_by(abi.RESIZE_AREA), ((2, 90, 80, 3), "u1"), ((2, 31, 17, 3), "u1")),
    "larger": (resized_by(abi.RESIZE_BILINEAR), ((60, 50, 1), "f4"), ((97, 101, 1), "f4")),
    "means": (filtered_by(abi.FILTER_BOX, abi.BORDER_SHRINK), (WHOLE, "u1"), (WHOLE, "f4")),
    "median": (filtered_by(abi.FILTER_MEDIAN, abi.BORDER_WRAP), (WHOLE, "u2"), (WHOLE, "u2")),
    "sums in bands": (
        filtered_by(abi.FILTER_SEPARABLE, abi.BORDER_REFLECT, 7, 4),
        (BANDS, "f4"),
        (BANDS, "f4"),
    ),
    "sums in doubles": (
        filtered_by(abi.FILTER_CORRELATE, abi.BORDER_CONSTANT, 4, 3),
        (BANDS, "u2"),
        (BANDS, "u2"),
    ),
    "maxima in bands": (filtered_by(abi.FILTER_MAXIMUM, abi.BORDER_MIRROR), (BANDS, "f4"), (BANDS, "f4")),
    "interp": (interpolate, ((300_001,), "f8"), ((300_001,), "f8")),
    "interp few": (interpolate, ((900,), "f8"), ((900,), "f8")),
}


def given(name):
    """Return a function, its input, an array for the result, and the expected result."""
    function, (shape, dtype), made = CALLS[name]
    return function, np.abs(numbers(*shape, dtype=np.int16)).astype(dtype), np.full(*made[:1], 77, made[1])


def truth(scope, function, a, out):
    wanted = np.zeros_like(out)
    function(scope, a.copy(), wanted)
    return wanted


def nearly_up(scope, report, wanted):
    """Check the bytes that were uploaded, apart from weights, tables and points."""
    if scope.is_cuda:
        assert wanted <= report["bytes_up"] <= wanted + 4 * NOTES


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
@in_plan
def test_homes(scope, name, kind):
    function, a, out = given(name)
    wanted = truth(scope, function, a, out)
    scope.keep(a)
    scope.keep(out, KINDS[kind])
    for goes_up in (a.nbytes, 0):
        report = function(scope, a, out)
        nearly_up(scope, report, goes_up)
        assert report["bytes_down"] == (out.nbytes if scope.is_cuda and kind == "result" else 0)
    if scope.is_cuda and kind != "result":
        assert (out == 77).all()
        assert scope.fetch(out)[1] == out.nbytes
    assert same_bits(out, wanted)


def test_a_result_comes_from_its_own_gpu(scope):
    """A grey image is copied back by the GPU that computed it."""
    _, a, out = given("gray")
    wanted = truth(scope, make_gray, a, out)

    def run(options):
        scope.keep(a)
        scope.keep(out, abi.RESIDENT_OUTPUT)
        make_gray(scope, a, out, options)

    assert devices_of_spans(scope, 1, run) == {1}
    assert same_bits(out, wanted)


@pytest.mark.parametrize("kept", ["the input", "the result"])
@pytest.mark.parametrize("name", CALLS)
@in_plan
def test_one_of_both_is_resident(scope, name, kept):
    function, a, out = given(name)
    wanted = truth(scope, function, a, out)
    if kept == "the input":
        scope.keep(a)
    else:
        scope.keep(out, abi.RESIDENT_TEMPORARY)
    for _ in range(2):
        report = function(scope, a, out)
        assert report["bytes_down"] == (out.nbytes if scope.is_cuda and kept == "the input" else 0)
    if kept == "the input":
        nearly_up(scope, report, 0)
    scope.fetch(out)
    assert same_bits(out, wanted)


@in_plan
def test_one_call_reads_the_result_of_another(scope):
    blur, edges = (
        filtered_by(abi.FILTER_BOX, abi.BORDER_REFLECT),
        filtered_by(abi.FILTER_SEPARABLE, abi.BORDER_NEAREST),
    )
    colours, gray, half = (300, 420, 3), (1, 300, 420, 1), (1, 150, 210, 1)
    a = scope.keep(np.abs(numbers(*colours, dtype=np.int16)).astype(np.uint8))
    shapes = {"gray": gray, "blurred": gray, "edges": gray, "half": half, "inverse": half}

    def run(a, made):
        yield make_gray(scope, a, made["gray"].reshape(colours[:2]))
        yield blur(scope, made["gray"], made["blurred"])
        yield edges(scope, made["blurred"], made["edges"])
        yield resized_by(abi.RESIZE_AREA)(scope, made["edges"], made["half"])
        yield look_up(scope, made["half"], made["inverse"])

    wanted = {name: np.zeros(shape, np.uint8) for name, shape in shapes.items()}
    list(run(a.copy(), wanted))
    kept = {name: scope.temporary(shape, np.uint8) for name, shape in shapes.items()}
    for i, report in enumerate(run(a, kept)):
        nearly_up(scope, report, a.nbytes if i == 0 else 0)
        scope.down(report, 0)
    for name, array in kept.items():
        scope.fetch(array)
        assert same_bits(array, wanted[name])


@pytest.mark.parametrize("shape", [WHOLE, BANDS])
@in_plan
def test_some_of_the_images(scope, shape):
    function = filtered_by(abi.FILTER_SEPARABLE, abi.BORDER_REFLECT)
    a, out = numbers(*shape), np.full((shape[0] + 1, *shape[1:]), 77, np.float32)
    wanted = truth(scope, function, a[1:], out[2:])
    scope.keep(a)
    scope.keep(out)
    nearly_up(scope, function(scope, a[1:], out[2:]), a.nbytes + out.nbytes)
    nearly_up(scope, function(scope, a[1:], out[2:]), 0)
    scope.fetch(out)
    assert same_bits(out[2:], wanted)
    assert (out[:2] == 77).all()


WAYS = {
    "channels backwards": (lambda a: a[..., ::-1], 0),
    "rows backwards": (lambda a: a[::-1], None),
    "strided": (lambda a: a[:, ::2], None),
}


@pytest.mark.parametrize("way", WAYS)
@in_plan
def test_views(scope, way):
    view, goes_up = WAYS[way]
    a = numbers(200, 300, 3)
    t, out = scope.temporary(a.shape), scope.temporary(view(a).shape[:2])
    wanted = np.zeros(out.shape, np.float32)
    make_gray(scope, view(a + a), wanted)
    scope.evaluate("add", t, a, a)
    report = make_gray(scope, view(t), out)
    if goes_up is not None:
        nearly_up(scope, report, goes_up)
    scope.fetch(out)
    assert same_bits(out, wanted)


@in_plan
def test_operands_read_on_the_host(scope):
    xp, fp, values = (scope.keep(array.copy(), abi.RESIDENT_TEMPORARY) for array in (*POINTS, TABLE))
    for kept, array in ((xp, POINTS[0]), (fp, POINTS[1]), (values, TABLE)):
        scope.evaluate("add", kept, array, array)
    x, levels = numbers(900, dtype=np.float64), numbers(900, dtype=np.uint8)
    wanted, out = np.zeros(900), np.zeros(900)
    interpolate(scope, x, wanted, 2 * POINTS[0], 2 * POINTS[1])
    interpolate(scope, x, out, xp, fp)
    assert same_bits(out, wanted)
    wanted, out = np.zeros(900, np.uint8), np.zeros(900, np.uint8)
    look_up(scope, levels, wanted, 2 * TABLE)
    look_up(scope, levels, out, values)
    assert same_bits(out, wanted)


FAULTS = """
import os
from helpers.residency import Scope
from abi.test_residency_image import given, truth
from pycudakit import errors
from pycudakit._native import abi
scope = Scope("cuda")
trials = [given(name) for name in ("gray", "table", "larger", "means", "sums in bands", "interp few")]
wanted = [truth(scope, *trial) for trial in trials]
failed = 0
def trial(call, kind):
    global failed
    for (function, a, out), values in zip(trials, wanted, strict=True):
        a, out = scope.keep(a.copy()), scope.keep(out.copy(), kind)
        os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
        try:
            function(scope, a, out)
        except errors.Error:
            failed += 1
        del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
        function(scope, a, out)
        scope.fetch(out)
        assert out.tobytes() == values.tobytes()
        scope.drop(a)
        scope.drop(out)
def body():
    for call in range(1, 25):
        trial(call, (abi.RESIDENT_TEMPORARY, abi.RESIDENT_OUTPUT)[call % 2])
scope.run(body)
print(failed > 20)
"""


def test_calls_that_fail(scope):
    fail_each_call(scope, FAULTS)
