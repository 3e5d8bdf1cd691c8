"""Operands with dense but separated rows, short and long, together with broadcast operands."""

import itertools

import numpy as np
import pytest

import pycudakit as pk

SHAPES = [(5, 100), (9, 128), (3, 1000), (40, 5000), (3, 4, 300), (2, 1, 3, 131), (1, 700), (600, 1)]
DTYPES = [np.float64, np.float32, np.float16, np.int16, np.uint8]


def _unaligned(array):
    room = np.empty(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


# A view of a shape, inside an array with a border of one element.
FORMS = {
    "inside": lambda a: a[(slice(1, -1),) * a.ndim],
    "dense": lambda a: a[(slice(1, -1),) * a.ndim].copy(),
    "backwards": lambda a: a[(slice(1, -1),) * a.ndim][::-1],
    "row": lambda a: a[(*(slice(1, 2),) * (a.ndim - 1), slice(1, -1))],
    "column": lambda a: a[(*(slice(1, -1),) * (a.ndim - 1), slice(1, 2))],
    "plane": lambda a: a[(slice(1, 2), *(slice(1, -1),) * (a.ndim - 1))],
    "element": lambda a: a[(slice(1, 2),) * a.ndim],
    "turned": lambda a: np.asfortranarray(a)[(slice(1, -1),) * a.ndim],
    "every other": lambda a: np.repeat(a, 2, axis=-1)[(*(slice(1, -1),) * (a.ndim - 1), slice(2, -2, 2))],
    "swapped": lambda a: a.astype(a.dtype.newbyteorder())[(slice(1, -1),) * a.ndim],
    "unaligned": lambda a: _unaligned(a)[(slice(1, -1),) * a.ndim],
}
PAIRS = [pair for pair in itertools.product(FORMS, FORMS) if "inside" in pair or "column" in pair]


def _arrays(shape, dtype, *forms):
    rng = np.random.default_rng(len(shape) * shape[-1])
    whole = [rng.integers(1, 12, [n + 2 for n in shape]).astype(dtype) for _ in forms]
    return [FORMS[form](array) for form, array in zip(forms, whole, strict=True)]


def _body(a, b):
    return (a + b) * a - (b + a * b)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("forms", PAIRS, ids="-".join)
def test_two_operands(engine, shape, forms):
    for dtype in DTYPES:
        a, b = _arrays(shape, dtype, *forms)
        with pk.engine(engine):
            result, sums = pk.add(a, b), pk.fuse(_body)(a, b)
        np.testing.assert_array_equal(result, a + b)
        np.testing.assert_array_equal(sums, _body(a, b))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("out", ["inside", "backwards", "turned", "every other", "swapped", "unaligned"])
@pytest.mark.parametrize("other", ["inside", "row", "column"])
def test_results_and_in_place(engine, shape, out, other):
    for dtype in DTYPES:
        a, b, target = _arrays(shape, dtype, "inside", other, out)
        expected = target.copy()
        with pk.engine(engine):
            pk.multiply(a, b, out=target)
            np.testing.assert_array_equal(target, np.multiply(a, b, out=expected))
            pk.subtract(target, b, out=target)
        np.testing.assert_array_equal(target, np.subtract(expected, b, out=expected))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("other", ["inside", "row", "column", "element"])
def test_reductions_of_computed_arrays(engine, shape, other):
    def totals(a, b):
        c = a * b + a
        return [c.sum(axis=axis) for axis in range(c.ndim)] + [c.max(axis=-1), c.sum()]

    a, b = _arrays(shape, np.float64, "inside", other)
    with pk.engine(engine):
        results = pk.fuse(totals)(a, b)
    for mine, theirs in zip(results, totals(a, b), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("width", [100, 1000, 20_000])
def test_exceptions_are_met_in_any_row(engine, width):
    a = np.ones((30, width + 2), np.float32)[:, 1:-1]
    column = np.ones((30, 1), np.float32)
    column[17] = 0
    with pk.engine(engine), np.errstate(divide="raise"):
        with pytest.raises(FloatingPointError, match="divide by zero"):
            pk.divide(a, column)
        column[17] = 2
        assert (pk.divide(a, column)[17] == 0.5).all()
