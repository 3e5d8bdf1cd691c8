"""Arrays with more than 2**32 elements, and arrays larger than memory."""

import json
import os
import sys

import numpy as np
import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED

import pycudakit as pk

# ---- More elements than there is memory for -----------------------------------------------------------

# x is one element broadcast to 2**40 or 2**36; y and z are two-dimensional views of the same kind.
CALLS = """
add(x, x)  power(x, 2)  sin(x)  isnan(x)  divmod(x, x)  modf(x)  frexp(x)  clip(x, 1, 2)  where(x, 1, 0)
astype(x, 'f4')  nan_to_num(x)  isclose(x, x)  allclose(x, x)  array_equal(x, x)  around(x)  positive(x)
add.outer(x[:9], x)  add.accumulate(x)  add.reduce(x)  ascontiguousarray(x)  flip(x)  roll(x, 1)
swapaxes(y, 0, 1)  tril(y)  triu(y)  sum(x)  sum(y, axis=0)  sum(y, axis=1)  sum(z, axis=0)  sum(z, axis=1)
sum(x, where=x > 1)  mean(x)  var(y, axis=0)  std(x)  max(x)  max(y, axis=0)  argmax(x)  argmin(y, axis=0)
nanargmax(x)  nansum(x)  nanmax(x)  nanvar(x)  any(x)  all(x)  count_nonzero(x)  prod(x)  ptp(x)
average(x, weights=x)  linalg.norm(x)  linalg.norm(y, axis=1)  cov(y)  corrcoef(y)  cumsum(x)
cumsum(y, axis=0)  cumprod(x)  cummax(x)  nancumsum(x)  exclusive_scan(x)  diff(x)  gradient(x)
trapezoid(x)  sort(x)  sort(y, axis=0)  argsort(y, axis=1)  lexsort([x, x])  partition(x, 3)
argpartition(x, 3)  topk(x, 3)  unique(x)  unique(x, True, True, True)  searchsorted(x, [1.0, 2.0])
searchsorted([1.0, 2.0], x)  isin(x, [1.0])  isin([1.0], x)  intersect1d(x, x)  union1d(x, x)  median(x)
median(y, axis=0)  median(y, axis=1)  quantile(x, 0.3)  nanmedian(x)  nanquantile(x, 0.3)
quantile([1.0, 2.0], x)  histogram(x, 5)  histogram(x, 5, (0, 3))  histogram(x, 5, (0, 3), weights=x)
histogram2d(x, x, 5, [[0, 3], [0, 3]])  histogramdd(z, 3)  digitize(x, [1.0, 2.0])  bincount(i)
bincount(i, x)  dot(x, x)  vdot(x, x)  inner(x, x)  outer(x, x)  kron(x, x)  matmul(y, y)  matmul(y, y[0])
vecdot(y, y)  trace(y)  einsum('i,i->', x, x)  einsum('ij->j', y)  tensordot(x, x, 1)
convolve(x, [1.0, 2.0])  correlate(x, x)  cross(z, z)  take(x, [0, -1])  take(x, i)
take_along_axis(y, i[: y.shape[0], None], 1)  compress(x, x)  nonzero(x)  flatnonzero(x)  argwhere(y)
interp(x, [1.0, 2.0], [2.0, 3.0])  interp([1.0], x, x)  repeat(x, 2)  tile(x, 2)  pad(x, 1)
concatenate([x, x])  stack([x, x])  evaluate('x + 1', {'x': x})  evaluate('sum(x * x)', {'x': x})
evaluate('max(x)', {'x': x})  pinned_copy(x)  fuse(lambda a: np.sum(np.sin(a)))(x)
fuse(lambda a: a * 2 + 1)(x)  fuse(lambda a: np.sort(a)[0])(x)  empty_pinned(n)  image.threshold(u, 3)
image.box_blur(u, 3)  image.median_filter(u, 3)  image.convolve(u, np.ones((3, 3)))  image.resize(u, (9, 9))
image.gaussian_blur(u, 2.0)  image.equalize_histogram(u)
image.rgb_to_gray(np.broadcast_to(np.uint8(1), (*y.shape, 3)))  random.default_rng(1).random(n)
random.default_rng(1).normal(x)  random.default_rng(1).poisson(x)  random.default_rng(1).binomial(i, 0.5)
random.default_rng(1).gamma(x)  random.default_rng(1).integers(0, i)  random.default_rng(1).choice(x, 3)
random.default_rng(1).choice(n, 3, replace=False)  random.default_rng(1).permutation(x)
random.default_rng(1).bytes(n)  random.default_rng(1).multivariate_normal([0, 0], np.eye(2), n)
SourceModule(SOURCE).get_function('first')(pk.InOut(np.ones(3)), pk.In(x), block=1)
"""
CODE = """
import ctypes, resource, signal, traceback, warnings
import pycudakit as pk
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
SOURCE = "__global__ void first(double *out, const double *x) { *out = *x; }"
pk.set_engine("ENGINE")
pk.sort(pk.add(np.ones(300_000), 1.0))

class Enough(Exception):
    pass

def handler(number, frame):
    late.append(time.perf_counter())
    raise Enough

signal.signal(signal.SIGALRM, handler)
told = {}
for power in (40, 36):
    n, half = 2**power, 2**(power // 2)
    x, y = np.broadcast_to(2.0, n), np.broadcast_to(2.0, (half, half))
    z, i = np.broadcast_to([1.0, 2.0, 3.0], (n // 2, 3)), np.broadcast_to(np.int64(2), n)
    u = np.broadcast_to(np.uint8(2), (half, half))
    for call in CALLS:
        late = []
        began = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            result = eval("pk." + call)
            outcome = "answered"
        except Enough:
            outcome = "interrupted"
        except BaseException as error:
            outcome = f"{type(error).__name__.removeprefix('_Array')}: {error}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        ended = time.perf_counter()
        told[f"{power} {call}"] = outcome, ended - (late[0] if late else began + 0.1)
    assert pk.sort([3.0, 1.0]).tolist() == [1.0, 3.0]
print(json.dumps(told))
"""
PLAIN = {"answered", "interrupted", "MemoryError", "OutOfMemory", "Unsupported", "ValueError", "TypeError"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
@pytest.mark.skipif(SANITIZED, reason="sanitizers take an address space of their own")
@pytest.mark.cpu
@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["cpu", "auto"])
def test_arrays_larger_than_memory(engine):
    """A call returns, raises a plain error, or runs until a signal: it never crashes or hangs."""
    calls = [call for line in CALLS.strip().splitlines() for call in line.split("  ")]
    if engine == "auto":
        for call in ("compress(x, x)", "nonzero(x)", "argwhere(y)"):
            calls.remove(call)  # runs in NumPy, which does not check for signals
    code = CODE.replace("ENGINE", engine).replace("CALLS", repr(calls))
    told = json.loads(python(code, timeout=900, env={"CUDA_VISIBLE_DEVICES": ""}))
    assert len(told) == 2 * len(calls)
    late = {name: seconds for name, (_, seconds) in told.items() if seconds > 10}
    assert not late  # 0.1 s on an idle machine; without the check it would be a minute
    odd = {name: words for name, (words, _) in told.items() if words.partition(":")[0] not in PLAIN}
    assert not odd
    assert sum(words == "interrupted" for words, _ in told.values()) > 20


# ---- More elements than 32 bits count ------------------------------------------------------------------

N = 2**31 + 5


def has_room():
    """Return True if 12 GiB are free; with overcommitted memory the process would be killed."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 12 << 30
    except (OSError, ValueError):
        return False


needs_room = pytest.mark.skipif(
    not (os.environ.get("PYCUDAKIT_TEST_LARGE") and has_room()),
    reason="needs 12 GiB, minutes, and PYCUDAKIT_TEST_LARGE=1",
)


class Many:
    """A large periodic array of bytes, for which counts and last values are known."""

    def __init__(self):
        period = 1_000_003  # a prime, so that elements at a distance of a power of two differ
        few = np.random.default_rng(1).integers(0, 256, period, np.uint8)
        self.values = np.resize(few, N)
        counts = np.bincount(few, minlength=256) * (N // period)
        self.counts = counts + np.bincount(few[: N % period], minlength=256)
        for value, last in zip(self.values[-3:].tolist(), (0, 7, 255), strict=True):
            self.counts[value] -= 1
            self.counts[last] += 1
        self.values[-3:] = 0, 7, 255
        self.total = int(self.counts @ np.arange(256))

    def rows(self):
        return self.values[: 2**31].reshape(2**16, 2**15)


@pytest.fixture(scope="module")
def many():
    return Many()


def same(found, expected):
    """Compare an array with a function of the index, at indices all over the array and at its end."""
    for first in (*range(0, N - 4096, N // 64), 2**31 - 100, N - 4096):
        part = slice(first, first + 4096)
        np.testing.assert_array_equal(found[part], expected(part))


@needs_room
@pytest.mark.thorough
@pytest.mark.usefixtures("engine")
class TestMoreElementsThan32BitsCount:
    def test_elements(self, many):
        x = many.values
        same(pk.add(x, np.uint8(3)), lambda part: x[part] + np.uint8(3))
        same(pk.evaluate("x ^ 3 if x > 9 else x", {"x": x}), lambda p: np.where(x[p] > 9, x[p] ^ 3, x[p]))
        same(pk.fuse(lambda a: a * np.uint8(2) + np.uint8(1))(x), lambda part: x[part] * 2 + np.uint8(1))
        backward = pk.subtract(np.uint8(0), x[::-1])
        same(backward[::-1], lambda part: -x[part])

    def test_reductions(self, many):
        x, counts = many.values, many.counts
        assert pk.sum(x) == many.total
        assert pk.mean(x) == pytest.approx(many.total / N, rel=1e-12)
        squares = int(counts @ np.arange(256) ** 2)
        assert pk.var(x) == pytest.approx(squares / N - (many.total / N) ** 2, rel=1e-9)
        assert pk.count_nonzero(x) == N - counts[0]
        assert pk.max(x) == 255
        assert pk.argmin(pk.where(x == 0, 1, x)) > 0
        assert pk.fuse(lambda a: np.sum(a.astype(np.int64) * 2))(x) == 2 * many.total
        assert pk.sum(x[: 2**31].reshape(2, -1), axis=1).sum() == many.total - 7 - 255 - x[2**31 : -2].sum()
        assert pk.sum(x[: 2**31].reshape(-1, 2), axis=0).sum() == many.total - 7 - 255 - x[2**31 : -2].sum()

    def test_places(self, many):
        one = np.zeros(N, np.uint8)
        one[-2] = 1
        assert pk.argmax(one) == N - 2
        assert pk.flatnonzero(one).tolist() == [N - 2]
        assert pk.any(one)
        assert pk.searchsorted(one[:-1], np.uint8(1)) == N - 2
        assert pk.take(many.values, [N - 1, -2, N - 3]).tolist() == [255, 7, 0]

    def test_orders(self, many):
        ends = np.cumsum(many.counts)
        found = pk.sort(many.values)
        assert found.size == N
        assert found[ends - 1].tolist() == list(range(256))
        assert found[ends[:-1]].tolist() == list(range(1, 256))
        del found
        assert pk.median(many.values) == np.searchsorted(ends, N // 2, side="right")
        assert pk.topk(many.values, 3)[0].tolist() == [255] * 3
        assert pk.unique(many.values).tolist() == list(range(256))

    def test_counts(self, many):
        assert pk.bincount(many.values).tolist() == many.counts.tolist()
        assert pk.histogram(many.values, 256, (0, 256))[0].tolist() == many.counts.tolist()

    def test_running_totals(self, many):
        found = pk.cumsum(many.values, dtype=np.uint8)
        assert found[-1] == many.total % 256
        same(found[1:], lambda part: found[:-1][part] + many.values[1:][part])
        assert pk.cummax(many.values)[-1] == 255

    def test_others(self, many):
        x = many.values
        drawn = pk.random.default_rng(1).integers(0, 256, N, np.uint8)
        assert drawn.size == N
        assert np.unique(drawn[-4096:]).size > 200
        assert pk.isin(x[-9:], [7]).tolist() == (x[-9:] == 7).tolist()
        assert pk.roll(x, 1)[0] == 255
        rows = many.rows()
        for filtered in (pk.image.threshold, pk.image.box_blur):
            end = filtered(rows[-40:, -40:], 3)
            np.testing.assert_array_equal(filtered(rows, 3)[-20:, -20:], end[-20:, -20:])
        assert pk.image.resize(rows, (50, 50)).shape == (50, 50)

    def test_kernels(self, many):
        source = """
        __global__ void last(unsigned char *x, long long n) {
            long long i = n - 1 - threadIdx.x;
            x[i] = x[i] + 1;
        }
        """
        x = many.values.copy()
        pk.SourceModule(source).get_function("last")(pk.InOut(x), x.size, block=3)
        assert x[-4:].tolist() == [many.values[-4], 1, 8, 0]
