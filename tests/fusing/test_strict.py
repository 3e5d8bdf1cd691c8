"""All functions of pycudakit are traced: a fused function of one call has no graph break."""

import inspect

import numpy as np
import pytest

import pycudakit as pk

OTHERS = """build_info devices empty_pinned engine engines evaluate fuse get_include get_library_dir grid_for
last_call link_speed memory_info pinned_copy profile release set_engine tuned tunings wrap"""
NO_FUNCTIONS_OF_ARRAYS = frozenset(OTHERS.split())

_rng = np.random.default_rng(0)
x, y = _rng.random((2, 1000))
X, S = _rng.random((50, 60)), _rng.random((40, 40))
i, b = _rng.integers(0, 9, 1000), x > 0.5
picture = _rng.random((64, 64, 3)).astype(np.float32)
grey = (picture[..., 0] * 255).astype(np.uint8)
V = np.array([3.0, 1.0, 2.0])
CALLS = [(x,), (x, y), (i,), (i, i), (b, b), (X,), (S, S), (X, 2), (x, 3), (x, 10), (x, (0.0, 1.0)), (x, 0.3)]
CALLS += [
    (S, 2),
    (b, x),
    (X, X[0]),
    (x, x, y),
    (X, 0, 1),
    (x, [0.1, 0.5]),
]
CALLS += [(i % 5, i[:9] % 5), (X, i[:50].reshape(50, 1), 1), (x, np.arange(5.0)), (b, x, y)]
CALLS += [(x, np.sort(x), np.sort(y)), (picture,), (picture, 3), (picture, (3, 3)), (grey,), (grey, 3)]
CALLS += [(picture[..., 0], 1.5), (picture, (32, 32)), (picture[..., 0], S[:3, :3].astype(np.float32))]
CALLS += [(grey, 1, 2, 9, 9)]

OWN = {"astype": [(x, "float32")], "cross": [(V, V[::-1])], "einsum": [("ij,jk->ik", S, S), ("ii->i", S)]}
OWN |= {name: [((x, y),), (X,), (picture, 1)] for name in ("concat", "concatenate", "stack")}
FUNCTIONS = [
    (space, name)
    for space in (pk, pk.linalg, pk.image)
    for name in space.__all__
    if inspect.isroutine(getattr(space, name)) and name not in NO_FUNCTIONS_OF_ARRAYS
]
COORDINATES = ("crop", "repeat", "tile")  # their second argument is a Python number


def parts(result):
    return result if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize(("space", "name"), FUNCTIONS, ids=lambda one: one if type(one) is str else "")
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_nothing_breaks(engine, space, name):
    def call(*arguments):
        return getattr(space, name)(*arguments)

    ran = 0
    for arguments in OWN.get(name, CALLS):
        if name in COORDINATES and any(isinstance(each, np.ndarray) for each in arguments[1:]):
            continue
        copies = [np.copy(each) if isinstance(each, np.ndarray) else each for each in arguments]
        try:
            want = call(*copies)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            continue  # the arguments do not fit this function
        if not all(map(np.array_equal, arguments, copies)):
            continue  # one argument was taken as `out`
        got = pk.fuse(call, strict=True)(*copies)
        ran += 1
        for mine, theirs in zip(parts(got), parts(want), strict=True):
            assert type(mine) is type(theirs)
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-8)
    assert ran


LISTS = [
    lambda x: np.sum([x, x * 2]),
    lambda x: np.sum((x, x - 1), axis=0),
    lambda x: np.max([x.max(), x.astype("f4").min(), 3.0]),
    lambda x: np.mean([[x > 1, x > 2], [x < 1, x < 0]], axis=(0, 1)),
    lambda x: np.median([x.astype("f4"), x], axis=0),
    lambda x: np.any([x < 0.5, x > 0.9], axis=0),
    lambda x: np.cumsum([x, x], axis=0),
    lambda x: np.argmax([x, x[::-1], x + 1], axis=0),
    lambda x: np.sum([x, [1.0] * len(x)], axis=0),
]


@pytest.mark.parametrize("place", range(len(LISTS)))
def test_lists_of_arrays(engine, place):
    got, want = pk.fuse(LISTS[place], strict=True)(x), LISTS[place](x)
    assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_lists_that_are_no_array(engine):
    with pytest.raises(ValueError, match="inhomogeneous"):
        pk.fuse(lambda x: np.sum([x, x[1:]]))(x)
    assert pk.fuse(lambda x: np.sum([1, 2]) + x[0])(x) == x[0] + 3


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x + 1 if np.max(x) > 1 else x,
        lambda x: x / float(x.sum()),
        lambda x, t: x * t if np.max(x) > t else x,
    ],
)
def test_each_call_with_a_graph_break_raises(engine, body):
    """Also calls that would be captured, or replayed."""
    fused = pk.fuse(body, strict=True)
    for _ in range(4):
        x = np.linspace(0, 3, 20_000)
        with pytest.raises(pk.errors.Unsupported, match="needs the values at once"):
            fused(x, *([0.5] if body.__code__.co_argcount == 2 else []))
