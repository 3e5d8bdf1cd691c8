"""Dask arrays: results have the bits of whole arrays for any chunks, also on a cluster of processes."""

import array
import operator
import os
import pickle
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit._dask import reductions, registry

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

lazy_helpers = pytest.importorskip("helpers.dask_arrays")
in_this_thread, same = lazy_helpers.in_this_thread, lazy_helpers.same

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)
WIDE = RNG.normal(size=(120, 90)) * 10.0 ** RNG.integers(-12, 12, (120, 90))  # whose sums cancel
COUNTS = RNG.integers(0, 50, 20_000)
CHUNKS = [(120, 90), (33, 31), *thorough((50, 90), (120, 1))]


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: pk.add(x, 1),
        lambda x: pk.subtract(2.0, x),
        lambda x: pk.multiply(x, WIDE[0]),
        lambda x: pk.exp(pk.negative(pk.absolute(x))),
        lambda x: pk.where(pk.greater(x, 0), x, 0.0),
        lambda x: pk.clip(x, -1, 1),
        lambda x: pk.round(x, 2),
        lambda x: pk.astype(x, "float32"),
        lambda x: pk.divmod(x, 3.0)[1],
        pk.isfinite,
        lambda x: pk.add(x, x, dtype=np.float32),
    ],
)
def test_elementwise(engine, call, chunks):
    same(call(da.from_array(WIDE, chunks=chunks)), call(WIDE))


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")
def test_a_mask_is_refused():
    for mask in (np.eye(4, dtype=bool), da.eye(4, dtype=bool)):
        with pytest.raises(pk.errors.Unsupported, match="neither `out` nor `where`"):
            pk.add(da.ones((4, 4), chunks=2), 1, where=mask)


def test_arrays_beside_are_cut_as_the_array_is(engine):
    x = np.ones((4, 4), np.float32)
    for other in (
        ((1.0, 2.0, 3.0, 4.0),) * 4,
        [[1.0, 2.0] * 2] * 4,
        np.arange(4.0),
        array.array("d", [1, 2, 3, 4]),
    ):
        same(pk.add(da.from_array(x, chunks=3), other), pk.add(x, np.asarray(other)))
    same(pk.astype(da.from_array(x, chunks=3), np.float16), x.astype("f2"))
    same(pk.add(da.from_array(x, chunks=3), 1.5, dtype="i4", casting="unsafe"), np.full((4, 4), 2, "i4"))


def test_arrays_that_are_cut_differently(engine):
    x, y = da.from_array(WIDE, chunks=(50, 90)), da.from_array(WIDE[::-1], chunks=(33, 31))
    same(pk.hypot(x, y), pk.hypot(WIDE, WIDE[::-1]))


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("dtype", ["f8", "f2", *thorough("f4", "i4", "?")])
@pytest.mark.parametrize(
    "name", ["sum", "mean", "min", "max", "any", "all", "count_nonzero", "argmax", "nansum", "ptp"]
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_reductions_have_the_bits_of_one_machine(engine, name, dtype, chunks):
    x = np.clip(WIDE, -60000, 60000).astype(dtype)
    lazy = da.from_array(x, chunks=chunks)
    if (name, dtype) == ("ptp", "?"):  # NumPy raises
        with pytest.raises(TypeError, match="boolean subtract"):
            pk.ptp(lazy).compute()
        return
    for axis in (None, 0, 1, -1):
        same(getattr(pk, name)(lazy, axis=axis), getattr(pk, name)(x, axis=axis))
    if name not in ("argmax", "count_nonzero"):
        same(getattr(pk, name)(lazy, (0, 1), keepdims=True), getattr(pk, name)(x, (0, 1), keepdims=True))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("dtype", "to"),
    [
        ("f8", "f4"),
        ("f8", "f2"),
        ("f4", "f8"),
        ("f4", "i4"),
        ("f2", "f4"),
        ("i8", "u1"),
        ("i8", "f4"),
        ("?", "i2"),
    ],
)
@pytest.mark.parametrize("name", ["sum", "nansum", "prod", "mean", "nanmean", "std", "trace"])
def test_reductions_to_a_type(engine, name, dtype, to):
    x = np.clip(WIDE, 0, 100).astype(dtype)[:, :50]
    function, lazy = getattr(pk, name), da.from_array(x, chunks=(33, 31))
    if to[0] != "f" and name in ("mean", "nanmean", "std"):
        with pytest.raises((pk.errors.Unsupported, TypeError), match="dtype"):
            function(lazy, dtype=to)
        return
    for axis in [{}] if name == "trace" else [{"axis": None}, {"axis": 0}]:
        found, want = function(lazy, dtype=to, **axis), function(x, dtype=to, **axis)
        if name == "std" or (dtype, to) == ("f4", "f8"):  # these round twice
            within = 2 * np.finfo(want.dtype).eps
            np.testing.assert_allclose(found.compute(), want, rtol=within, strict=True)
        else:
            same(found, want)


def test_parts_of_halves_do_not_overflow(engine):
    x = np.array([256, 256, 2, 1 / 512, 1 / 512, 0.5] * 4, np.float16)
    y = np.array([255, 300, 2, 1] + [256, 300, 2, 1] * 5, np.float16)
    signs = np.repeat([1, -1], 12).astype("f2")
    for n in (24, 6, 2, 1):
        same(pk.prod(da.from_array(x, chunks=n)), np.float16(2.0**-8))
        for call in (
            lambda m, a: m.matmul(a, a * signs),
            lambda m, a: m.einsum("i,i", a, a * signs),
            lambda m, a: m.tensordot(a, a * signs, 1),
            lambda m, a: m.matmul(a, a * signs, dtype=a.dtype),
        ):
            same(call(pk, da.from_array(y, chunks=n)), np.float16(call(np, y.astype("f8"))))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
def test_reductions_of_numbers(engine, name, dtype):
    x = (RNG.uniform(0.9, 1.1, (120, 90)) * 100).astype(dtype)
    if dtype != "i4":
        x[RNG.random(x.shape) < 0.3] = np.nan
    for more in (
        {},
        {"axis": 0},
        {"axis": 1},
        {"axis": (0, 1), "keepdims": True},
        *[{"ddof": 2}][name == "nanmean" :],
    ):
        lazy = getattr(pk, name)(da.from_array(x, chunks=(33, 31)), **more)
        want = getattr(np, name)(x.astype("f8"), **more)
        assert lazy.dtype == getattr(np, name)(x, **more).dtype
        np.testing.assert_allclose(lazy.compute(), want, rtol=1e-6 if dtype == "f4" else 1e-13)
    x[:, 3] = np.nan if dtype != "i4" else 0
    if dtype != "i4":
        with np.errstate(invalid="ignore"):
            found = getattr(pk, name)(da.from_array(x, chunks=(33, 31)), axis=0).compute()
        assert np.isnan(found).tolist() == [column == 3 for column in range(90)]


NAMES = "sum mean var std min max ptp any all prod count_nonzero nansum nanmean nanvar nanstd nanmin nanmax"


@pytest.mark.parametrize("name", NAMES.split())
def test_reductions_after_a_filter(engine, name):
    """Blocks of unknown size, some of them empty."""
    x = np.sort(RNG.uniform(0.9, 1.1, 1000))
    lazy, left = da.from_array(x, chunks=100), x[x > 1.03]
    found, want = getattr(pk, name)(lazy[lazy > 1.03]).compute(), getattr(pk, name)(left)
    np.testing.assert_allclose(found, want, rtol=1e-13)
    exact = name.removeprefix("nan") not in ("var", "std", "prod")
    assert found == want or not exact
    nothing = lazy[lazy > 2]
    if name.removeprefix("nan") in ("min", "max", "ptp"):
        with pytest.raises(ValueError, match="zero-size array"):
            getattr(pk, name)(nothing).compute()
    else:
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_equal(getattr(pk, name)(nothing).compute(), getattr(np, name)(x[x > 2]))


@pytest.mark.parametrize("name", [*NAMES.split(), "argmin", "argmax"])
def test_reductions_of_blocks_without_elements(engine, name):
    x = RNG.uniform(0.9, 1.1, (37, 23))
    lazy = da.from_array(x, chunks=((0, 30, 0, 7), (23, 0)))
    for axis in (None, 0, 1):
        whole = getattr(pk, name)(x, axis=axis, keepdims=True)
        found = getattr(pk, name)(lazy, axis=axis, keepdims=True).compute()
        np.testing.assert_allclose(found, whole, rtol=1e-13)


@pytest.mark.parametrize("name", [*NAMES.split(), "argmin", "argmax"])
def test_reductions_of_one_number(engine, name):
    same(getattr(pk, name)(da.asarray(np.array(2.5))), getattr(np, name)(2.5))
    if not name.startswith("arg"):
        with pytest.raises(np.exceptions.AxisError):
            getattr(pk, name)(da.asarray(2.5), axis=1)


@pytest.mark.parametrize("name", NAMES.split())
def test_invalid_axes(engine, name):
    x = np.ones((2, 3))
    for axis in (2, -3, (0, 0), True, [0, 1], 1.0, "0"):
        with pytest.raises((TypeError, ValueError)) as whole:
            getattr(pk, name)(x, axis=axis)
        with pytest.raises(whole.type):
            getattr(pk, name)(da.from_array(x, chunks=2), axis=axis)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("name", NAMES.split())
def test_nothing_to_warn_of(engine, name, dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype) - 5
    lazy = getattr(pk, name)(da.from_array(x, chunks=2), axis=0)
    np.testing.assert_allclose(lazy.compute(), getattr(pk, name)(x, axis=0), rtol=1e-3)


@pytest.mark.filterwarnings("error")
def test_a_block_of_nan_alone(engine):
    x = np.array([np.nan, np.nan, 1.0, 5.0])
    lazy = da.from_array(x, chunks=2)
    for name in ("nanmin", "nanmax", "nanmean", "nansum"):
        same(getattr(pk, name)(lazy), getattr(pk, name)(x))
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        assert np.isnan(pk.nanmin(lazy[:2]).compute())


def test_a_number_is_no_array(engine):
    for name in NAMES.split():
        assert isinstance(getattr(pk, name)(da.ones(5, chunks=2)).compute(), np.generic), name


def test_more_free_parameters_than_elements(engine):
    x = da.from_array(np.array([1.0, 2.0]), chunks=1)
    assert pk.var(x, ddof=3).compute() == np.inf
    assert pk.nanvar(x.astype(int), ddof=3).compute() == np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(pk.nanvar(x, ddof=3).compute())
        assert np.isnan(pk.nanvar(da.from_array(np.array([1.0, np.inf]), chunks=1)).compute())


def test_reductions_that_only_numpy_supports():
    days = np.arange(9).astype("m8[D]")
    same(pk.sum(da.from_array(days, chunks=4)), days.sum())
    same(pk.count_nonzero(da.from_array(days, chunks=4)), np.intp(8))
    assert pk.sum(da.from_array(np.arange(9).astype(object), chunks=4)).compute() == 36
    masked = np.ma.masked_greater(WIDE, 0)
    lazy = da.from_array(masked, chunks=50)
    for name in ("sum", "max"):
        np.testing.assert_allclose(getattr(pk, name)(lazy).compute(), getattr(masked, name)(), rtol=1e-12)
    for values in (days, np.ones(3, complex), masked):
        for name in ("mean", "nanmean"):
            with pytest.raises(pk.errors.Unsupported, match=rf"dask\.array\.{name} computes it"):
                getattr(pk, name)(da.from_array(values))


def test_reductions_of_values_that_are_not_finite(engine):
    for value in (np.inf, np.nan, -np.inf):
        x = np.ones(1000)
        x[700] = value
        with np.errstate(invalid="ignore"):
            np.testing.assert_equal(pk.sum(da.from_array(x, chunks=300)).compute(), value)
            np.testing.assert_equal(pk.mean(da.from_array(x, chunks=300)).compute(), value)


@pytest.mark.parametrize("name", ["var", "std", "prod"])
def test_reductions_that_round_on_the_way(engine, name):
    x = RNG.uniform(0.9, 1.1, (120, 90))
    for axis in (None, 0, 1):
        lazy = getattr(pk, name)(da.from_array(x, chunks=(33, 31)), axis=axis)
        np.testing.assert_allclose(lazy.compute(), getattr(pk, name)(x, axis=axis), rtol=1e-13)
    lazy = pk.var(da.from_array(x, chunks=(33, 31)), ddof=1)
    np.testing.assert_allclose(lazy.compute(), np.var(x, ddof=1), rtol=1e-13)


def test_rounding_errors_of_products():
    a = RNG.normal(size=1000) * 10.0 ** RNG.integers(-50, 50, 1000)
    product, missing = reductions._product(a, 12345.0)
    from fractions import Fraction

    assert all(
        Fraction(p) + Fraction(m) == Fraction(x) * 12345 for x, p, m in zip(a, product, missing, strict=True)
    )


@pytest.mark.parametrize("chunks", [20_000, 7777, 3])
def test_counts_and_the_best(engine, chunks):
    counts = COUNTS[:100] if chunks == 3 else COUNTS
    lazy = da.from_array(counts, chunks=chunks)
    same(pk.bincount(lazy, minlength=50), pk.bincount(counts, minlength=50))
    for bins, span in ((10, (0, 50)), ([0, 1, 20, 50], None)):
        found, edges = pk.histogram(lazy, bins, span)
        whole = pk.histogram(counts, bins, span)
        same(found, whole[0])
        np.testing.assert_array_equal(edges, whole[1])
    np.testing.assert_allclose(
        pk.histogram(lazy, 10, (0, 50), density=True)[0].compute(),
        np.histogram(counts, 10, (0, 50), density=True)[0],
    )
    for largest in (True, False):
        found, whole = pk.topk(lazy, 77, largest=largest), pk.topk(counts, 77, largest=largest)
        same(found.values, whole.values)
        same(found.indices, whole.indices)


@pytest.mark.parametrize("chunks", [(200, 300, 3), (64, 100, 3), (17, 300, 1)])
@pytest.mark.parametrize("mode", ["reflect", "nearest", "constant", "mirror", "wrap"])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("box_blur", (5,)),
        ("box_blur", ((2, 7),)),
        ("gaussian_blur", (1.5,)),
        ("median_filter", (3,)),
        ("maximum_filter", (4,)),
        ("convolve", (np.arange(12.0).reshape(3, 4) / 66,)),
        ("laplace", ()),
    ],
)
def test_filters_read_the_halo_of_a_block(engine, name, given, mode, chunks):
    image = RNG.integers(0, 256, (200, 300, 3), np.uint8)
    call = getattr(pk.image, name)
    same(call(da.from_array(image, chunks=chunks), *given, mode=mode), call(image, *given, mode=mode))


def test_a_window_that_reaches_around_a_small_image(engine):
    image = RNG.integers(0, 256, (3, 4), np.uint8)
    for chunks in ((1, 1), (3, 2)):
        lazy = pk.image.box_blur(da.from_array(image, chunks=chunks), (7, 9), mode="grid-wrap")
        same(lazy, pk.image.box_blur(image, (7, 9), mode="grid-wrap"))


@pytest.mark.parametrize("chunks", [5000, 1024, 998, (2, 4998)])
@pytest.mark.parametrize(
    ("name", "parameters", "options"),
    [
        ("random", (), {}),
        ("random", (), {"dtype": np.float32}),
        ("standard_normal", (), {"dtype": "float32"}),
        ("normal", (5.0, 2.0), {}),
        ("integers", (0, 100), {}),
        ("poisson", (3.0,), {}),
    ],
)
def test_random_numbers_do_not_depend_on_the_blocks(engine, name, parameters, options, chunks):
    one, other = pk.random.default_rng(5), pk.random.default_rng(5)
    for _ in range(2):  # and the generator continues after them
        lazy = pk.random.on_dask(one, name, *parameters, size=(5000, 3), chunks=chunks, **options)
        same(lazy, getattr(other, name)(*parameters, size=(5000, 3), **options))
        assert one == other


def test_half_a_word_cannot_be_cut():
    rng = pk.random.default_rng(5)
    with pytest.raises(pk.errors.Unsupported, match="an even number of them: choose other chunks"):
        pk.random.on_dask(rng, "random", size=1000, chunks=333, dtype=np.float32)
    with pytest.raises(pk.errors.Unsupported, match="parameters are numbers"):
        pk.random.on_dask(rng, "normal", [1.0, 2.0], size=2)
    with pytest.raises(pk.errors.Unsupported, match="parameters are numbers"):
        pk.random.on_dask(rng, "normal", loc=[1.0, 2.0], size=2)
    with pytest.raises(pk.errors.Unsupported, match="blocks are of whole rows"):
        pk.random.on_dask(rng, "random", size=(2, 2), chunks=((1, 1), (1, 1)))
    for size in ((), None):
        with pytest.raises(pk.errors.Unsupported, match="of one dimension at least"):
            pk.random.on_dask(rng, "random", size=size)
    with pytest.raises(TypeError, match=r"a single integer, got '3\.5'"):
        pk.random.on_dask(rng, "random", size=3.5)
    with pytest.raises(TypeError, match=r"one of pk\.random\.default_rng"):
        pk.random.on_dask(np.random.default_rng(5), "random", size=3)
    assert rng == pk.random.default_rng(5)


def test_random_numbers_in_another_array_s_blocks(engine):
    like = da.zeros((50, 3), chunks=((7, 43), (3,)))
    lazy = pk.random.on_dask(pk.random.default_rng(5), "gumbel", size=like.shape, chunks=like.chunks)
    assert lazy.chunks == like.chunks
    same(lazy, pk.random.default_rng(5).gumbel(size=(50, 3)))


def test_every_handler_has_a_public_function():
    for name in registry.HANDLERS:
        assert callable(operator.attrgetter(name)(pk)), name


def test_dask_is_not_imported_before_it_is_needed():
    code = (
        "import sys, numpy, pycudakit as pk; pk.sum(pk.add(numpy.ones(9), 1)); print('dask' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_calls_of_blocks_pickle():
    lazy = pk.mean(pk.exp(da.ones((4, 4), chunks=2)))
    assert pickle.loads(pickle.dumps(lazy)).compute() == pk.mean(np.exp(np.ones((4, 4))))


def centred(x):
    return np.sort(x) - x.mean()


FUSED = pk.fuse(centred)


@pytest.mark.parametrize("call", [pk.sort, FUSED], ids=["sort", "fused"])
def test_calls_on_each_block(engine, call):
    """Functions of whole arrays, and fused ones, are pickled by `map_blocks`."""
    lazy = pickle.loads(pickle.dumps(da.from_array(WIDE, (50, 90)).map_blocks(call)))
    same(lazy, np.concatenate([call(WIDE[start : start + 50]) for start in (0, 50, 100)]))


# ---- On processes ---------------------------------------------------------------------------------------


@pytest.fixture
def script():
    """The example."""
    pytest.importorskip("distributed")
    found = ROOT / "examples" / "dask_pipeline.py"
    if not found.is_file():
        pytest.skip("examples/ is not beside the tests")
    return found


def run(script, variables):
    """Run the script; return its output."""
    done = subprocess.run(
        [sys.executable, script],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={**{k: v for k, v in os.environ.items() if k != "PYCUDAKIT_ENGINE"}, **variables},
    )
    # Dask warns about processes that are slow on a busy machine.
    told = [
        line for line in done.stderr.splitlines() if not re.search(r" - distributed\S* - WARNING - ", line)
    ]
    assert (done.returncode, told) == (0, [])
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
@pytest.mark.parametrize("variables", [{"PYCUDAKIT_ENGINE": "cpu"}, {}])
def test_a_cluster_of_processes(script, variables):
    count = max(2, len(pk.devices()))
    assert f"{count} processes, 16 blocks: the bits of one machine: True" in run(script, variables)


@pytest.mark.thorough
def test_processes_that_share_a_gpu_or_have_one_each(script):
    """With one GPU, two processes share it within their budgets; with more, each process sees one."""
    if not pk.engines()["cuda"]:
        pytest.skip("needs a GPU")
    count = max(2, len(pk.devices()))
    assert f"{count} processes, 16 blocks: the bits of one machine: True" in run(
        script, {"PYCUDAKIT_ENGINE": "cuda"}
    )


def test_each_process_has_its_gpu(script, monkeypatch):
    example = runpy.run_path(str(script))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-9,2")
    names = example["gpus"]()
    assert names == ["GPU-9", "2"]
    visible = [variables["CUDA_VISIBLE_DEVICES"] for variables in example["environments"](names)]
    assert visible == names
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert example["gpus"]() == [str(gpu.index) for gpu in pk.devices()]
    for few in ([], ["0"]):
        one, other = example["environments"](few)
        assert one == other
        assert "CUDA_VISIBLE_DEVICES" not in one


@pytest.mark.thorough
def test_a_process_finds_its_gpu(script, monkeypatch):
    """It sets CUDA_VISIBLE_DEVICES before it uses CUDA."""
    pytest.importorskip("distributed")
    from distributed import Client

    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    example = runpy.run_path(str(script))
    unseen = dask.config.set({"distributed.diagnostics.nvml": False})  # Dask would look for GPU 7
    with unseen, example["start_cluster"](["7", "8"]) as cluster, Client(cluster) as client:
        assert set(client.run(lambda: dask.config.get("distributed.diagnostics.nvml")).values()) == {False}
        found = client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
    assert sorted(found.values()) == ["7", "8"]
