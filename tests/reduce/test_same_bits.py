"""Reductions have the same bits for any engine, threads, instruction set, layout, chunks and GPUs."""

import hashlib

import numpy as np
import pytest
from engines.test_same_bits import canonical, isas
from helpers.digests import digest_in_process
from helpers.sanitizers import SANITIZED
from helpers.strategies import FLOATS, assert_values, lay_out, layouts, outcome, seeds, values
from helpers.thorough_cases import thorough
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

FUNCTIONS = {
    "sum": lambda a, axis: pk.sum(a, axis=axis),
    "mean": lambda a, axis: pk.mean(a, axis=axis),
    "var": lambda a, axis: pk.var(a, axis=axis),
    "std": lambda a, axis: pk.std(a, axis=axis, ddof=1),
    "nanmean": lambda a, axis: pk.nanmean(a, axis=axis),
    "nanvar": lambda a, axis: pk.nanvar(a, axis=axis),
    "masked": lambda a, axis: pk.sum(a, axis=axis, where=a > 0),
    "prod": lambda a, axis: pk.prod(a, axis=axis),
    "norm": lambda a, axis: pk.linalg.norm(a, axis=axis),
    "norm 1": lambda a, _: pk.linalg.norm(a.ravel(), 1),
    "dot": lambda a, _: pk.vdot(a, a[::-1]),
    "min": lambda a, axis: pk.min(a, axis=axis) + 0,
    "ptp": lambda a, axis: pk.ptp(a, axis=axis),
    "argmax": lambda a, axis: pk.argmax(a, axis=axis),
    "nanargmin": lambda a, axis: pk.nanargmin(a, axis=axis),
}
TYPES = [*FLOATS, "int16", "uint64"]
SHAPES = [(300_001,), (50, 6001), (6001, 50), (3, 70_001), (40, 70, 33), (66_000, 3), (7, 1025, 17)]
LAYOUTS = ["C", "F", "step", "reversed", "transposed", "swapped", "misaligned"]


def array_of(dtype, shape, seed=1, kind="ordinary"):
    array = values(dtype, int(np.prod(shape)), kind, seed).reshape(shape)
    if array.dtype.kind == "f":  # sums of a wide range depend on their order
        with np.errstate(over="ignore"):
            array *= (10.0 ** np.random.default_rng(seed).uniform(-3, 3, shape)).astype(dtype)
        array = np.nan_to_num(array, posinf=1, neginf=-1)
    return array


def axes_of(shape):
    return [None] if len(shape) == 1 else [None, *range(len(shape))]


def results():
    """Yield a name and the result of many calls, on the current engine."""
    for kind, dtype in enumerate(TYPES):
        for number, shape in enumerate(SHAPES):
            if SANITIZED and (kind + number) % 5:
                continue
            array = lay_out(array_of(dtype, shape), LAYOUTS[number])
            for name, call in FUNCTIONS.items():
                for axis in axes_of(shape):
                    if axis is None or name not in ("norm 1", "dot"):
                        _, value, warned = outcome(call, array, axis)
                        yield f"{name} {dtype} {shape} {axis}", np.asarray(value), warned


def digest():
    """Print a hash for each result."""
    for name, value, warned in results():
        whole = hashlib.sha256(repr(sorted(warned)).encode())
        whole.update(canonical(value, free_zero=name.startswith("min")).tobytes())
        print(name, whole.hexdigest()[:16])  # noqa: T201


@pytest.fixture(scope="module")
def baseline():
    reason, lines = digest_in_process(__file__, PYCUDAKIT_ISA="baseline", PYCUDAKIT_THREADS="1")
    assert reason == "1 thread, baseline"
    assert len(lines) > (100 if SANITIZED else 900)
    return lines


# The two widest sets of instructions, with other numbers of threads than the baseline's.
@pytest.mark.parametrize(("isa", "threads"), list(zip(isas(), [7, 2, 7], strict=False))[-2:])
def test_threads_and_instruction_sets(baseline, isa, threads):
    reason, lines = digest_in_process(__file__, PYCUDAKIT_ISA=isa, PYCUDAKIT_THREADS=str(threads))
    assert reason == f"{threads} threads, {isa}"
    assert lines == baseline


shapes = st.one_of(
    st.sampled_from([*SHAPES, (1024,), (1025,), (2049, 3), (5, 1025), (70_000,), (130, 9, 65), (2000, 4, 4)]),
    st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple),
)
kinds = st.sampled_from(["ordinary", "ordinary", "small", "special"])


def same(got, want, context):
    for mine, other in zip(got, want, strict=True):
        assert mine[0] == other[0], context
        if mine[0] == "ok":
            assert_values(np.asarray(mine[1]), np.asarray(other[1]), free_zero=True, context=context)


def answers(array, axis, names=FUNCTIONS):
    return [outcome(FUNCTIONS[name], array, axis) for name in names]


@given(data=st.data())
def test_layouts(engine, data):
    """Any layout gives the result of a dense array of the same elements."""
    array = array_of(data.draw(st.sampled_from(TYPES)), data.draw(shapes), data.draw(seeds), data.draw(kinds))
    for layout in data.draw(layouts):
        array = lay_out(array, layout)
    axis = data.draw(st.sampled_from(axes_of(array.shape)))
    dense = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    names = data.draw(st.lists(st.sampled_from(list(FUNCTIONS)), min_size=1, max_size=4, unique=True))
    same(
        answers(array, axis, names),
        answers(dense, axis, names),
        f"{names} {array.dtype} {array.shape} {axis}",
    )


@pytest.mark.parametrize(
    "layout", ["F", "step", "misaligned", *thorough("reversed", "transposed", "swapped")]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_layouts_of_long_arrays(engine, dtype, layout):
    for shape in SHAPES[1:2] if SANITIZED else SHAPES[1:6:2]:
        array = array_of(dtype, shape)
        for axis in axes_of(shape):
            same(answers(array, axis), answers(lay_out(array, layout), axis), f"{shape} {axis}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_and_columns(engine, dtype):
    """A column has the bits of the same elements as a row, and as a separate array."""
    for length in (5, 17, 1000, 1024, 1025, 5000):
        for count in (1, 3, 40):
            array = array_of(dtype, (length, count), length)
            for name in ("sum", "mean", "var", "prod", "norm", "nanvar"):
                call = FUNCTIONS[name]
                columns = outcome(call, array, 0)[1]
                rows = outcome(call, np.ascontiguousarray(array.T), 1)[1]
                alone = np.array([outcome(call, array[:, i].copy(), None)[1] for i in range(count)])
                assert_values(columns, rows, context=name)
                assert_values(columns, alone, context=name)


@given(data=st.data())
def test_engines(both_engines, data):
    array = array_of(data.draw(st.sampled_from(TYPES)), data.draw(shapes), data.draw(seeds), data.draw(kinds))
    for layout in data.draw(layouts):
        array = lay_out(array, layout)
    axis = data.draw(st.sampled_from(axes_of(array.shape)))
    with pk.engine("cpu"):
        want = answers(array, axis)
    constants = {
        "chunk_bytes": data.draw(st.sampled_from([256 << 10, 1 << 20, 3 << 20])),
        "in_place_bytes": data.draw(st.sampled_from([0, 0, 1 << 20])),
        "walk_bytes": data.draw(st.sampled_from([16 << 10, 512 << 10])),
        "threads": data.draw(st.sampled_from([1, 2, 7])),
        "device_bytes": data.draw(st.sampled_from([4 << 20, 64 << 20])),
    }
    count = data.draw(st.integers(1, len(pk.devices())))
    with pk.engine("cuda", devices=tuple(range(count))), pk.tuned(**constants):
        got = answers(array, axis)
    same(got, want, f"{array.dtype} {array.shape} {axis} {constants} {count}")
    assert [g[2] for g in got] == [w[2] for w in want]


def test_two_gpus(both_engines):
    if len(pk.devices()) < 2:
        pytest.skip("needs two GPUs")
    for dtype in TYPES:
        for shape in SHAPES:
            array = array_of(dtype, shape)
            for axis in axes_of(shape):
                with pk.engine("cuda", devices=(0,)):
                    want = answers(array, axis)
                with pk.engine("cuda", devices=(0, 1)), pk.tuned(chunk_bytes=256 << 10, in_place_bytes=0):
                    same(answers(array, axis), want, f"{dtype} {shape} {axis}")


def test_every_result_on_both_engines(both_engines):
    with pk.engine("cpu"):
        want = list(results())
    with pk.engine("cuda"):
        for (name, got, warned), (_, wanted, wanted_warned) in zip(results(), want, strict=True):
            assert_values(got, wanted, free_zero=name.startswith("min"), context=name)
            assert warned == wanted_warned, name


def test_the_order_shows(engine):
    """These tests would detect another order: the sum of an array depends on the order of its elements."""
    array = array_of("float32", (5000,))
    shuffled = [
        pk.sum(np.random.default_rng(i).permutation(array).astype(">f4"), dtype="f8") for i in range(9)
    ]
    assert len(set(shuffled)) > 1
