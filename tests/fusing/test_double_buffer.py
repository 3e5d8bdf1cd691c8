"""Double buffering of in-place stencils gives NumPy's results."""

import numpy as np
import pytest

import pycudakit as pk

# Statements of a loop's body; `u` is double-buffered after some writes that read other elements of it.
STENCILS = """
u[1:-1, 1:-1] += (u[2:, 1:-1] - u[:-2, 1:-1]) * 3
r = u[2:, 1:-1] + u[:-2, 1:-1]; u[1:-1, 1:-1] = r - u[1:-1, 2:]
u[1:] -= u[:-1]
u[:, 1:] = u[:, :-1] + 1
u[...] = u[::-1] + u
r = u * 2; u[:-1] += r[1:]
np.subtract(u[1:], u[:-1], out=u[1:])
""".strip().splitlines()
OTHERS = """
s = u + 1
r = u[1:, 1:] - 1; q = r * 2; seen.append(q)
t = u.copy()
v = u[3:, ::2]
v[...] = 4
v += 1
u[0] = u[1]; u[:, -1] = u[:, -2]
u *= 3
u[2, 3] = 7
u[u > 50] = -2
u[[0, 2]] = 5
u[int(u[0, 0]) % 5] = 8
u[s[0, 0] % 3:] += 1
u[1:-1] = s[1:-1]
u[...] = t
u.sort(axis=1)
seen.append(int(u[1, 1]))
seen.append(u.sum())
seen.append(np.asarray(u)[4].copy())
np.asarray(v)[0] = 3
np.copyto(u, t)
np.add(u, 1, out=u)
u[1:5] = given[2:6]
given[3] = 1
u = u if len(seen) % 2 else u[...]
""".strip().splitlines()


def _body(statements, rounds):
    lines = ["def body(u, given):", " s = u + 2; t = u - 1; v = u[1:]; seen = []"]
    lines += [f" for _ in range({rounds}):"]
    lines += [f"  {statement}" for statement in statements]
    space = {"np": np}
    exec("\n".join([*lines, " return u, s, t, v, seen"]), space)
    return space["body"]


def _both(body, engine, shape):
    """Return the result and the argument of a body after its run, fused and plain."""
    found = []
    for function in (pk.fuse(body), body):
        array = np.random.default_rng(7).integers(-9, 9, shape)
        with pk.engine(engine):
            result = function(array, array)
        assert result[0] is array or result[0].base is not None
        found.append((result, array))
    return found


def _assert_same(found):
    (ours, array), (numpys, expected) = found
    np.testing.assert_array_equal(array, expected)
    for mine, theirs in zip(ours, numpys, strict=True):
        if type(theirs) is list:
            assert len(mine) == len(theirs)
            for one, other in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(one, other)
        else:
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)
            assert np.shares_memory(mine, array) == np.shares_memory(theirs, expected)


@pytest.mark.parametrize("stencil", STENCILS)
@pytest.mark.parametrize("other", ["pass", *OTHERS])
def test_stencil_with_another_statement(stencil, other, engine):
    _assert_same(_both(_body([stencil, other, stencil], 4), engine, (70, 60)))


@pytest.mark.parametrize("seed", range(25))
def test_any_statements(seed, engine):
    rng = np.random.default_rng(seed)
    some = [*rng.choice(STENCILS, 3), *rng.choice(OTHERS, 3)]
    rng.shuffle(some)
    _assert_same(_both(_body(some, 5), engine, (130, 80)))


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
def test_each_later_step_is_one_pass(steps, engine):
    if engine == "auto":
        pytest.skip("under auto, passes over so few elements run in NumPy")

    @pk.fuse
    def smooth(u):
        for _ in range(steps):
            sides = u[2:] + u[:-2]
            u[1:-1] += sides - 2 * u[1:-1]

    plate = np.random.default_rng(1).random((300, 200), np.float32)
    expected = plate.copy()
    smooth.__wrapped__(expected)
    with pk.engine(engine):
        plan = smooth.explain(plate)
        smooth(plate)
    np.testing.assert_array_equal(plate, expected)
    if engine == "cuda":
        assert (plan.bytes_up, plan.bytes_down) == (plate.nbytes, plate.nbytes)
    # Two passes for each of the first steps; then a copy of the whole array, and perhaps one back at the end.
    assert len(plan.passes) == (2 * steps if steps < 3 else 4 + 1 + (steps - 2) + steps % 2)


def test_writes_are_kept_when_the_body_raises(engine):
    def body(u):
        for step in range(7):
            u[1:] -= u[:-1]
            if step == 5:
                raise KeyError("stop")

    ours = np.arange(50_000)
    expected = ours.copy()
    for function, array in ((pk.fuse(body), ours), (body, expected)):
        with pk.engine(engine), pytest.raises(KeyError, match="stop"):
            function(array)
    np.testing.assert_array_equal(ours, expected)


def test_array_of_a_larger_one(engine):
    def body(u):
        for _ in range(6):
            u[1:] -= u[:-1]

    whole = np.arange(60_000).reshape(3, -1)
    expected = whole.copy()
    with pk.engine(engine):
        pk.fuse(body)(whole[1])
    body(expected[1])
    np.testing.assert_array_equal(whole, expected)


def test_arrays_that_overlap(engine):
    def body(u, v):
        for _ in range(6):
            u[1:] -= u[:-1]
            v[1:] += v[:-1] + u[1:]

    ours = np.arange(60_000)
    expected = ours.copy()
    with pk.engine(engine):
        pk.fuse(body)(ours[:50_000], ours[10_000:])
    body(expected[:50_000], expected[10_000:])
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_value_that_is_asked_for_after_it_was_written(engine, dtype):
    def body(u):
        later = u * 1.5 + np.float64(1)
        u[...] = later
        return later, later[1:] - u[:-1]

    ours = np.arange(50_000).astype(dtype)
    expected = ours.copy()
    with pk.engine(engine):
        results = pk.fuse(body)(ours)
    for mine, theirs in zip(results, body(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(ours, expected)
