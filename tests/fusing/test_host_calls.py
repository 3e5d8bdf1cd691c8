"""Host calls: calls of functions such as `sort` and `solve`, which replays make from Python between plans."""

import numpy as np
import pytest
from helpers.nested import assert_parts

import pycudakit as pk
from pycudakit.fusing.execute import capture, plan
from pycudakit.fusing.memory import residency
from pycudakit.fusing.trace import trace

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 3000  # smaller than the arrays that `take` needs


def vector(seed, size=SIZE):
    return np.random.default_rng(seed).integers(0, 100, size).astype("f8")


def indices(seed, size=SIZE):
    return np.random.default_rng(seed).integers(1 - size, size, size)


def square(seed, size=40):
    return np.random.default_rng(seed).random((size, size)) + size * np.eye(size)


def gathers(x, i):
    for _ in range(4):
        x = 0.5 * x + 0.25 * x[i]
    return x, x[i][:5]


def takes(x, i):
    return np.take(x * 2, i) + np.take(x, i, mode="wrap"), np.take_along_axis(x, np.abs(i), 0)


def rows_and_columns(a):
    return a[[0, 2, -1]] * 2, a[:, [1, 3]] + 1, a[[0, 1], [2, 3]].sum()


def sorts(x):
    order = np.argsort(x, kind="stable")
    return np.sort(x * 2)[::-1] + order, np.searchsorted(np.sort(x), x[:10] * 1.5)


def statistics(x):
    return np.median(x) + x, np.percentile(x * 2, [10, 50]), np.histogram(x, 8, (0, 100))[0] * 2


def interpolates(x):
    return np.interp(x * 0.5, np.arange(5.0), np.array([1.0, 3.0, 2.0, 0.0, 4.0])) + 1


def solves(a):
    x = np.ones(len(a))
    for _ in range(3):
        residual = a @ x - 1
        x = x - np.linalg.solve(a, residual)
    values, vectors = np.linalg.eigh(a + a.T)
    return x, values * 2, np.abs(vectors), np.linalg.det(a) > 0


def loop_until_sorted(x, i):
    turns = 0
    while np.max(x) > 5:
        x = np.sort(x)[::-1][np.abs(i)] * 0.5
        turns += 1
    return x, turns


def writes(x, i):
    y = np.zeros_like(x)
    y[i] = x * 2
    np.add.at(y, i, 1.0)
    y[[1, 2, 5]] += x[:3]
    np.put(y, [3, 4], [7.0, 8.0])
    return y + x


def writes_to_an_argument(x, i):
    x += 1
    x[i] = 5
    x[::2] *= 2
    np.subtract.at(x, i[:100], 0.5)
    return x.sum()


def reads_before_writes(x, i):
    """Operations that are deferred read the array as it was before."""
    y = x * 2
    before, total = y + 1, y.sum()
    y[i] = -1
    np.fill_diagonal(y[:100].reshape(10, 10), 7)
    np.putmask(y, y < 0, 3)
    after = y + 1
    np.maximum.at(y, [0, 1], 50.0)
    return before, total, after, y


def rows_of_an_argument(a, i):
    row = a[i[0] % 3]
    row[0] = 9
    return a[i[:4] % 3] + row, a


def numbers_as_operands(x, t):
    return np.median(x * t), np.interp(t, x[:0:-1] * 0 + np.arange(len(x) - 1), x[1:]), np.sort(x)[2] * t


def distinct(x):
    values = np.unique(x % 7)
    return values * 2, np.nonzero(x > 98)[0] + 1


VECTORS = [gathers, takes, loop_until_sorted, writes, writes_to_an_argument, reads_before_writes]
BODIES = {body: lambda seed: (vector(seed), indices(seed)) for body in VECTORS}
BODIES |= {body: lambda seed: (vector(seed),) for body in (sorts, statistics, interpolates, distinct)}
BODIES[rows_of_an_argument] = lambda seed: (square(seed), indices(seed))
BODIES[numbers_as_operands] = lambda seed: (vector(seed), 1.5 + seed)
BODIES |= {body: lambda seed: (square(seed),) for body in (rows_and_columns, solves)}


def assert_close(one, other):
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_each_call_has_numpys_result(engine, body):
    fused = pk.fuse(body)
    for seed in (0, 1, 2, 3, 0, 1, 2, 3):
        ours, numpys = BODIES[body](seed), BODIES[body](seed)
        kept = fused(*ours)
        assert_parts(kept, body(*numpys), assert_close)
        assert_parts(ours, numpys, assert_close)
        if seed == 3:  # memory of a result is not used again
            again = fused(*BODIES[body](0))
            assert_parts(kept, body(*BODIES[body](3)), assert_close)
            assert_parts(again, body(*BODIES[body](0)), assert_close)
    if engine != "auto" and body is not rows_of_an_argument:  # a view by a computed number
        assert "replayed" in pk.last_call().reason


@pytest.mark.parametrize("min_resident_bytes", [1, residency.MIN_RESIDENT_BYTES])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_each_call_on_a_fake_gpu_has_numpys_result(small_gpu, monkeypatch, body, min_resident_bytes):
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", min_resident_bytes)
    test_each_call_has_numpys_result("cuda", body)


def test_a_replay_of_host_calls_alone_on_a_fake_gpu(small_gpu):
    test_a_replay_of_host_calls_alone_says_so("cuda")


def test_large_operands_are_no_host_calls_on_a_gpu(small_gpu, monkeypatch):
    """It computes with them in its own memory, in traced calls."""
    monkeypatch.setattr(trace, "_MAX_HOST_CALL_BYTES", 9 * SIZE)
    for size in (SIZE, 2 * SIZE):
        fused = pk.fuse(lambda x: np.interp(x * 0.5, np.arange(3.0), np.array([1.0, 3.0, 2.0])) + 1)
        for seed in range(4):
            x = vector(seed, size)
            assert_close(fused(x), fused.__wrapped__(x))
        assert ("replayed" in pk.last_call().reason) == (size == SIZE)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_under_auto(body):
    """The engine of a replay is that of its capture."""
    fused = pk.fuse(body)
    with pk.engine("auto"):
        for seed in range(40):
            ours, numpys = BODIES[body](seed), BODIES[body](seed)
            assert_parts(fused(*ours), body(*numpys), assert_close)
            assert_parts(ours, numpys, assert_close)


@pytest.mark.parametrize("most", range(8))
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_capture_that_ends_early(engine, body, most, monkeypatch):
    """It may end while an operand of a host call is computed; the call goes on without it."""
    monkeypatch.setattr(capture, "_MAX_REQUESTS", most)
    fused = pk.fuse(body)
    for seed in (0, 1, 2):
        ours, numpys = BODIES[body](seed), BODIES[body](seed)
        assert_parts(fused(*ours), body(*numpys), assert_close)
        assert_parts(ours, numpys, assert_close)


def test_a_replay_of_host_calls_alone_says_so(engine):
    fused = pk.fuse(lambda x: (np.median(x), np.percentile(x, [20, 70])))
    for seed in range(4):
        x = vector(seed)
        assert_parts(fused(x), (np.median(x), np.percentile(x, [20, 70])), assert_close)
    assert ("replayed" in pk.last_call().reason) == (engine != "auto")


def test_an_index_out_of_range(engine):
    """The exception is NumPy's, and so is the argument, which was written to before."""

    def body(x, i):
        x += 1
        y = x[i] * 2
        x[i] = 0
        return y

    fused = pk.fuse(body)
    for turn in range(6):
        x, i = vector(turn), indices(turn)
        others = x.copy(), i.copy()
        if turn % 2:
            i[7] = others[1][7] = SIZE
            for function, arguments in ((fused, (x, i)), (body, others)):
                with pytest.raises(IndexError, match=f"index {SIZE} is out of bounds"):
                    function(*arguments)
        else:
            np.testing.assert_array_equal(fused(x, i), body(*others))
        np.testing.assert_array_equal(x, others[0])


def test_a_singular_matrix(engine):
    fused = pk.fuse(lambda a: np.linalg.solve(a, a[0] * 2) + 1)
    for turn in range(6):
        a = square(turn) * (turn % 2 == 0)
        if turn % 2:
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                fused(a)
        else:
            np.testing.assert_allclose(fused(a), np.linalg.solve(a, a[0] * 2) + 1)


@pytest.mark.parametrize("singular", range(4))
def test_warnings_before_an_exception(engine, singular):
    """They are issued whether the call is traced, captured or replayed."""

    def body(a):
        return np.exp(a[0]), np.linalg.solve(a, a[1])

    fused = pk.fuse(body)
    for turn in range(singular):
        fused(square(turn))
    with (
        np.errstate(over="warn"),
        pytest.warns(RuntimeWarning, match="overflow encountered in exp"),
        pytest.raises(np.linalg.LinAlgError),
    ):
        fused(np.full((40, 40), 1e300))


def test_arrays_that_later_calls_reuse_are_not_downloaded(small_gpu, monkeypatch):
    """Another thread may have them by then."""

    def body(x):
        s = np.sort(x.reshape(10, -1), axis=0)
        s += 1
        z = x + np.median(s * 2)
        return np.sort(z.reshape(10, -1), axis=0).sum()

    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", 1)
    fused, downloaded, sync = pk.fuse(body), [], plan.DeviceCopies.sync_arguments

    def sync_arguments(copies):
        before = small_gpu.bytes_down
        sync(copies)
        downloaded.append(small_gpu.bytes_down - before)

    monkeypatch.setattr(plan.DeviceCopies, "sync_arguments", sync_arguments)
    for seed in range(5):
        assert_close(fused(vector(seed)), body(vector(seed)))
    assert "replayed" in pk.last_call().reason
    assert downloaded == [0] * 3


def test_views_of_large_arrays_are_no_host_calls_on_a_gpu(small_gpu, monkeypatch):
    """All of the array would be downloaded."""
    monkeypatch.setattr(trace, "_MAX_HOST_CALL_BYTES", 9 * SIZE)
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", 1)
    fused = pk.fuse(lambda x: np.unique((x + 1)[:10]) * 2)
    for size in (SIZE, 2 * SIZE):
        for seed in range(4):
            x = np.random.default_rng(seed).permutation(np.arange(float(size)))
            assert_close(fused(x), fused.__wrapped__(x))
        assert ("replayed" in pk.last_call().reason) == (size == SIZE)


def test_constants_stay(engine):
    """A replay's constants are not those that the caller gets, and may write to."""

    def body(x):
        table = np.arange(5.0)
        return np.sort(table), np.take(table, [4, 2]), x + 1

    fused = pk.fuse(body)
    for seed in range(5):
        got = fused(vector(seed))
        assert_parts(got, body(vector(seed)), assert_close)
        for part in got:
            part[...] = -1


def test_the_host_calls_are_graph_breaks_and_numpys_time(engine):
    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    fused = pk.fuse(solves)
    for _ in range(4):
        fused(square(1, 100))
    call = pk.last_call()
    assert any("numpy.linalg.solve()" in each.name for each in call.breaks)
    (numpys,) = (row for row in call.rest if row.function == "NumPy")
    assert 0 < numpys.seconds < call.seconds


def test_masked_selections_are_replayed_where_as_many_elements_are_kept(engine):
    def body(x):
        kept = x[x > 50]
        return kept * 2, kept.sum(), x[x < 3]

    fused = pk.fuse(body)
    for seed in range(3):
        x = np.random.default_rng(seed).permutation(vector(0))
        assert_parts(fused(x), body(x), assert_close)
        is_replayed = "replayed" in pk.last_call().reason
    assert is_replayed == (engine != "auto")
    for x in (vector(1), np.full(SIZE, 5.0), np.zeros(SIZE), np.full(SIZE, 70.0), vector(0)):
        assert_parts(fused(x), body(x), assert_close)
