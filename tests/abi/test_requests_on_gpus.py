"""Lists of requests (pk_run_requests) during a capture of a stream of the caller's, and on several GPUs."""

import gc

import numpy as np
import pytest
from helpers.request_lists import F64, SIZE
from helpers.residency import LARGE

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi

CANNOT = "cannot be captured in a CUDA graph"


class Capture:
    """A stream of CuPy's, and the graph of the calls in a ``with`` block."""

    def __init__(self, cupy):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._mode = cupy.cuda.runtime.streamCaptureModeRelaxed
        self._graph = None

    def __enter__(self):
        gc.collect()  # the end of another test's graph would end the capture
        self.stream.synchronize()
        self.stream.begin_capture(self._mode)

    def __exit__(self, *_):
        self._graph = self.stream.end_capture()

    def launch(self):
        self._graph.launch(self.stream)
        self.stream.synchronize()


@pytest.fixture
def cupy(engine):
    cupy = pytest.importorskip("cupy")
    if engine != "cuda":
        pytest.skip("it has no streams")
    return cupy


def on_device(scope, cupy, lists):
    """Import arrays of CuPy's as the arrays of a list; return them."""
    arrays = [cupy.asarray(each) for each in (lists.x, lists.out, lists.number)]
    for array, home in zip((lists.x, lists.out, lists.number), arrays, strict=True):
        scope.lend(array, home)
    return arrays


def assert_results(lists, out, number):
    np.testing.assert_array_equal(out, lists.x * lists.x)
    np.testing.assert_allclose(number[0], (lists.x * lists.x).sum(), rtol=1e-14)


@pytest.mark.parametrize("has_stop", [False, True])
def test_a_captured_list(cupy, scope, library, lists, has_stop):
    """A stop reads a value while the list runs, which a capture cannot; the calls before it are captured."""
    capture, arrays = Capture(cupy), []

    def body():
        arrays.extend(on_device(scope, cupy, lists))
        library.pk_residency_set_stream(capture.stream.ptr)
        lists.run(library)  # loads the kernels
        lists.stops = np.array([(1, 2, 0, F64, abi.STOP_IF_NOT_FINITE)] * has_stop, abi.STOP)
        with capture:
            if has_stop:
                with pytest.raises(errors.Unsupported, match=CANNOT):
                    lists.run(library)
            else:
                lists.run(library)
        library.pk_residency_set_stream(0)

    scope.run(body)
    assert lists.completed.value == 2
    lists.x *= 3
    x, out, number = arrays
    x.set(lists.x, stream=capture.stream)
    capture.launch()
    assert_results(lists, out.get(), number.get())


def test_a_list_of_host_arrays_is_not_captured(cupy, scope, library, lists):
    capture = Capture(cupy)

    def body():
        library.pk_residency_set_stream(capture.stream.ptr)
        with capture, pytest.raises(errors.Unsupported, match=CANNOT):
            lists.run(library)
        library.pk_residency_set_stream(0)

    scope.run(body)
    assert lists.completed.value == 0
    lists.run(library)
    assert_results(lists, lists.out, lists.number)


def test_a_list_during_a_capture_of_another_stream(cupy, library, kept):
    """It runs, captures graphs of its own, and launches them."""
    capture = Capture(cupy)
    kept.order = np.array([0, 1] * 6, np.int32)
    kept.run(library)
    with capture.stream:
        x, y = cupy.ones(100), cupy.zeros(100)
        cupy.multiply(x, 2, out=y)
        with capture:
            cupy.multiply(x, 3, out=y)
            for turn in range(3):
                kept.x[:] = np.linspace(turn, 5, SIZE)
                kept.run(library)
                assert_results(kept, kept.out, kept.number)
        x.fill(7)
    capture.launch()
    assert (y.get() == 21).all()


@pytest.fixture
def two_gpus(engine):
    if engine != "cuda" or len(pk.devices()) < 2:
        pytest.skip("needs two GPUs")


def run_on(library, lists, *devices):
    """Run a list on these GPUs; return its results as bytes."""
    indices = np.array(devices, np.int64)
    lists.options["devices"], lists.options["device_count"] = indices.ctypes.data, len(indices)
    lists.out[:] = lists.number[:] = 0
    lists.run(library)
    assert_results(lists, lists.out, lists.number)
    return lists.out.tobytes(), lists.number.tobytes()


def enlarge(lists, size):
    lists.x, lists.out, lists.shape[0] = np.linspace(1, 2, size), np.zeros(size), size
    lists.set_buffers(lists.x, lists.out, lists.number)


@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_a_list_on_each_gpu(two_gpus, library, lists, size):
    enlarge(lists, size)
    results = {run_on(library, lists, *devices) for devices in ([0], [1], [0, 1], [1, 0])}
    assert len(results) == 1


def test_a_list_with_a_key_on_each_gpu(two_gpus, library, kept):
    """Its CUDA graphs are of one GPU."""
    kept.order = np.array([0, 1] * 6, np.int32)
    for device in (0, 0, 0, 1, 1, 1, 0, 1, 0, 0):
        kept.x += 1
        run_on(library, kept, device)


def test_a_list_of_arrays_on_the_second_gpu(two_gpus, scope, library, lists):
    """A list on their GPU uses them there, and one on another GPU through host memory."""
    enlarge(lists, LARGE)

    def uploads(device):
        index = np.array([device], np.int64)
        lists.options["devices"], lists.options["device_count"] = index.ctypes.data, 1
        lists.run(library)
        uploaded = lists.report["bytes_up"][0]
        for array in (lists.out, lists.number):
            scope.fetch(array)
        assert_results(lists, lists.out, lists.number)
        return uploaded // lists.x.nbytes

    def body():
        library.pk_residency_set_device(1)
        scope.keep(lists.x)
        for array in (lists.out, lists.number):
            scope.keep(array, abi.RESIDENT_TEMPORARY)
        assert [uploads(1) for _ in range(3)] == [1, 0, 0]
        assert uploads(0) >= 1

    scope.run(body)
