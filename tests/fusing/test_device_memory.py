"""Device memory of a fused function: the budget holds, buffers are freed, failures corrupt nothing."""

import gc
import os

import numpy as np
import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED
from helpers.strategies import assert_values
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import errors
from pycudakit._runtime.engine_choice import EngineChoice

N = 300_000


@pk.fuse
def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


@pk.fuse
def rolled(x):
    total = np.cumsum(x)
    mean = (total[8:] - total[:-8]) / 8
    return mean - np.mean(mean), np.max(mean)


@pk.fuse
def stepped(u):
    for _ in range(3):
        u[1:-1] += (u[2:] - 2 * u[1:-1] + u[:-2]) * 0.25
    return np.sort(u)[::2] * 2


@pk.fuse
def clusters(x, centres):
    distance = np.sum(centres * centres, axis=1) - 2 * (x @ centres.T)
    return np.argmin(distance, axis=1)


@pk.fuse
def drawn(generator):
    path = np.exp(generator.standard_normal(N) * 0.2 - 0.02)
    return np.mean(np.maximum(path - 1, 0)), path[:10]


@pk.fuse
def written(x, generator):
    sums, noise = x * 2, x * 3
    spread = np.mean(sums) + np.mean(noise)
    np.cumsum(x + 1, out=sums)
    generator.random(out=noise)
    return sums * 2, noise * 2, spread


def plans():
    generator = np.random.default_rng(4)
    return {
        "softmax": (softmax, lambda: [generator.normal(size=(600, 500))]),
        "rolled": (rolled, lambda: [generator.normal(size=N)]),
        "stepped": (stepped, lambda: [generator.normal(size=N)]),
    }


def copies(arguments):
    return [a.copy() for a in arguments]


def flat(result):
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


def same(ours, numpys):
    for mine, theirs in zip(ours, numpys, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_arrays_that_a_function_writes_to(engine):
    x = np.arange(float(N))
    sums, noise, spread = written(x, pk.random.default_rng(5))
    same([sums, spread], [np.cumsum(x + 1) * 2, np.mean(x * 2) + np.mean(x * 3)])
    assert (noise == pk.random.default_rng(5).random(N) * 2).all()


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["softmax", "rolled", "stepped"])
def test_right(engine, name):
    function, make = plans()[name]
    ours = make()
    numpys = copies(ours)
    same(flat(function(*ours)), flat(function.__wrapped__(*numpys)))
    same(ours, numpys)


@pytest.mark.smoke
def test_clusters(engine):
    generator = np.random.default_rng(1)
    x = generator.normal(size=(20_000, 16)).astype("f4")
    centres = generator.normal(size=(64, 16)).astype("f4") * 3
    theirs = clusters.__wrapped__(x, centres)
    assert np.mean(clusters(x, centres) == theirs) > 0.999


@pytest.mark.smoke
def test_draws(engine):
    mean, first = drawn(pk.random.default_rng(3))
    path = np.exp(pk.random.default_rng(3).standard_normal(N) * 0.2 - 0.02)
    np.testing.assert_allclose(first, path[:10], rtol=1e-12)
    np.testing.assert_allclose(mean, np.maximum(path - 1, 0).mean(), rtol=1e-9)


def seen(image):
    grey = pk.image.rgb_to_gray(image)
    edges = pk.image.sobel(pk.image.gaussian_blur(grey, 1.5), None)
    small = pk.image.resize(pk.image.median_filter(edges, 3), (100, 120))
    return np.bincount(edges.ravel(), minlength=256), pk.image.maximum_filter(small, 5), edges * 2


def run_on(x, places, values):
    y = np.cumsum(np.exp(x), axis=1)
    z = np.interp(y * 0.01, places, values)
    return (
        np.cumprod(np.clip(z, 0.99, 1.01), axis=1),
        np.bincount((z.ravel() * 3).astype(np.int64)),
        np.nancumsum(z),
    )


@pytest.mark.parametrize(("dtype", "beside"), [("uint8", 65_536), ("uint16", 1_200_000)])  # tables of counts
def test_images_stay(engine, dtype, beside):
    image = np.random.default_rng(1).integers(0, 256, (500, 600, 3)).astype(dtype)
    results = pk.fuse(seen)(image)
    call = pk.last_call()
    for ours, one_by_one in zip(results, seen(image), strict=True):
        assert_values(ours, one_by_one)
    if engine == "cuda":
        assert image.nbytes <= call.bytes_up <= image.nbytes + beside


def test_sums_and_lines_stay(engine):
    generator = np.random.default_rng(2)
    x = generator.normal(size=(400, 500))
    places, values = np.linspace(0, 9, 40), generator.uniform(0.5, 2, 40)
    results = pk.fuse(run_on)(x, places, values)
    call = pk.last_call()
    same(results, run_on(x, places, values))
    if engine == "cuda":
        assert x.nbytes <= call.bytes_up <= x.nbytes + 65_536


def ranked(x):
    y = np.exp(x) - 1
    return np.median(y), np.percentile(y, [5, 95], axis=1), np.quantile(y, 0.3, axis=-1), y.max()


def test_order_statistics_stay(engine):
    x = np.random.default_rng(3).normal(size=(500, 400))
    results = pk.fuse(ranked)(x)
    call = pk.last_call()
    same(results, ranked(x))
    if engine == "cuda":
        assert x.nbytes <= call.bytes_up <= x.nbytes + 65_536


BUDGET = """
import pycudakit as pk
@pk.fuse
def f(x, y):
    z = np.sqrt(x * x + y)
    m = np.mean(z, axis=0)
    w = (z - m) / np.std(z, axis=0)
    w[::2] *= 2
    return w, np.max(w), np.cumsum(w, axis=1)
x, y = np.random.default_rng(0).uniform(1, 2, (2, 3000, 2000))
for engine in {engines}:
    with pk.engine(engine):
        ours = f(x, y)
    theirs = f.__wrapped__(x, y)
    print(all(np.allclose(a, b) for a, b in zip(ours, theirs)), pk.memory_info().plan_bytes <= {budget})
"""


@pytest.mark.parametrize("budget", [0, *thorough(64 << 20, 1 << 30)])
def test_any_budget(engine, budget):
    engines = [engine]
    code = BUDGET.format(engines=engines, budget=budget)
    printed = python(code, env={"PYCUDAKIT_PLAN_MEMORY": str(budget)})
    assert printed.split() == ["True", "True"]


def test_memory_is_where_it_was(engine):
    x = np.random.default_rng(0).normal(size=(100, 200))
    for _ in range(20):  # `auto` measures the engines
        softmax(x)
    gc.collect()
    before = pk.memory_info()
    for _ in range(300 if SANITIZED else 1000):
        softmax(x)
    after = pk.memory_info()
    assert (after.plan_bytes, after.device_bytes) == (before.plan_bytes, before.device_bytes)
    pk.release()
    assert pk.memory_info().plan_bytes == 0


@pytest.mark.parametrize("name", ["softmax", "rolled", "stepped"])
def test_every_cuda_call_fails_once(engine, name, monkeypatch):
    """Whichever library call fails: the run raises or is right, and the next run is right."""
    function, make = plans()[name]
    arguments = make()
    numpys = copies(arguments)
    want = flat(function.__wrapped__(*numpys))
    function(*copies(arguments))
    failed = 0
    # The calls of each scope are counted separately: every n-th of each call fails.
    for n in [*range(1, 30), *range(30, 200, 17)] if pk.engines()["cuda"] else [1]:
        monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
        given = copies(arguments)
        try:
            same(flat(function(*given)), want)
        except errors.Error:
            failed += 1
        monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
        given = copies(arguments)
        same(flat(function(*given)), want)
        same(given, numpys)
    if engine != "auto":  # which falls back to the CPU engine if nothing was written yet
        assert bool(failed) == (engine == "cuda")


@pytest.mark.parametrize("library", [np, pk])
def test_a_generator_draws_again_where_the_gpu_failed(library, monkeypatch):
    function = pk.fuse(lambda generator, x: x * 2 + generator.standard_normal(x.size))
    ours, theirs, x = library.random.default_rng(7), library.random.default_rng(7), np.ones(50_000)
    want = function.__wrapped__(theirs, x)
    function._autotuned.best[((x.shape, x.dtype),)] = EngineChoice("body", "cuda", "auto: cuda 1 ms")
    monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", "1")
    with pk.engine("auto"), pytest.warns(RuntimeWarning, match="took over|takes over"):
        result = function(ours, x)
    assert pk.last_call().reason.startswith("auto: the CUDA engine failed")
    monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
    np.testing.assert_allclose(result, want, rtol=1e-12)
    np.testing.assert_allclose(ours.random(9), theirs.random(9), rtol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_in_a_forked_child(engine):
    code = f"""
import pycudakit as pk
f = pk.fuse(lambda x: np.sqrt(x * x + 1) - np.mean(x))
x = np.linspace(0, 1, 200_000)
with pk.engine("{engine}"):
    f(x)
pid = os.fork()
if pid == 0:
    try:
        with pk.engine("auto"):
            ok = np.allclose(f(x), f.__wrapped__(x))
    except pk.errors.Error:
        ok = False
    os._exit(0 if ok else 1)
print(os.waitpid(pid, 0)[1])
"""
    assert python(code) == "0"
