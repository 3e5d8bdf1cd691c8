"""Programs written for NumPy give the same results with `pycudakit.numpy`."""

import numpy  # noqa: ICN001  (`np` is the program's argument)
import pytest

import pycudakit as pk
import pycudakit.numpy

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def mandelbrot(np):
    y, x = np.ogrid[-1.2:1.2:60j, -2:0.6:80j]
    c = x + 1j * y
    z, times = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(30):
        inside = np.abs(z) < 2
        z[inside] = z[inside] ** 2 + c[inside]
        np.add(times, 1, out=times, where=inside)
    return times, np.bincount(times.ravel())


@program
def life(np):
    cells = np.zeros((30, 40), np.uint8)
    cells[10:13, 10:13] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    for _ in range(20):
        around = np.add.reduce([np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)])
        cells = np.where(np.logical_or(around == 3, (around == 4) & (cells == 1)), 1, 0).astype(np.uint8)
    return cells


@program
def k_means(np):
    points = np.sin(np.arange(600.0)).reshape(300, 2) * 10
    centres = points[:4].copy()
    for _ in range(8):
        distances = np.linalg.norm(points[:, None] - centres, axis=-1)
        nearest = np.argmin(distances, axis=1)
        centres = np.stack([np.mean(points[nearest == i], axis=0) for i in range(len(centres))])
    return centres, np.unique(nearest, return_counts=True)


@program
def least_squares(np):
    x = np.linspace(-1, 1, 50)
    design = np.vander(x, 4)
    solution, *_ = np.linalg.lstsq(design, np.exp(x), rcond=None)
    fitted = np.matmul(design, solution)
    return solution, np.sqrt(np.mean(np.square(fitted - np.exp(x)))), np.polyval(solution, 0.5)


@program
def spectrum(np):
    t = np.arange(256) / 256
    signal = np.sin(2 * np.pi * 20 * t) + 0.5 * np.cos(2 * np.pi * 50 * t)
    power = np.absolute(np.fft.rfft(signal)) ** 2
    return np.argsort(power)[-2:], np.fft.rfftfreq(256, 1 / 256)[np.argmax(power)]


@program
def prime_sieve(np):
    is_prime = np.ones(1000, bool)
    is_prime[:2] = False
    for n in range(2, 32):
        if is_prime[n]:
            is_prime[n * n :: n] = False
    primes = np.flatnonzero(is_prime)
    return primes, np.diff(primes), np.gcd.reduce(np.diff(primes)[1:]), np.count_nonzero(is_prime)


@program
def tables(np):
    table = np.zeros(6, [("name", "U4"), ("weight", float), ("day", "M8[D]")])
    table["name"] = ["b", "a", "c", "b", "a", "b"]
    table["weight"] = [3.0, np.nan, 1.0, 2.0, 5.0, np.inf]
    table["day"] = np.datetime64("2024-02-27") + np.arange(6)
    names, index = np.unique(table["name"], return_inverse=True)
    finite = np.nan_to_num(table["weight"], posinf=9.0)
    return (
        names,
        np.bincount(index, weights=finite),
        np.sort(table, order="name")["day"],
        np.nanmax(table["weight"]),
    )


@program
def images(np):
    picture = np.add.outer(np.arange(20), np.arange(30)) % 256
    windows = np.lib.stride_tricks.sliding_window_view(picture, (3, 3))
    blurred = np.einsum("ijkl,kl->ij", windows, np.full((3, 3), 1 / 9))
    edges = np.hypot(*np.gradient(blurred))
    counts, borders = np.histogram(edges, bins=5)
    return (
        blurred,
        edges,
        counts,
        borders,
        np.percentile(blurred, [10, 50, 90]),
        np.digitize(blurred, [5, 20]),
    )


@program
def walks(np):
    rng = np.random.Generator(np.random.PCG64(7))
    steps = rng.choice([-1, 1], (20, 100))
    places = np.cumsum(steps, axis=1)
    highest = np.maximum.accumulate(places, axis=1)
    return (
        places[:, -1],
        np.max(highest - places),
        np.median(highest),
        np.cov(places[:3]),
        np.ptp(places, axis=0),
    )


@program
def groups(np):
    keys = np.array([3, 1, 2, 3, 1, 1, 2])
    values = np.arange(7.0)
    order = np.lexsort((values, keys))
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    totals = np.zeros(4)
    np.add.at(totals, keys, values)
    return order, np.add.reduceat(values[order], starts), totals, np.searchsorted(keys[order], [1, 2, 3])


@program
def kinds(np):
    """Use dtypes and introspection of NumPy as a program does."""
    x = np.asarray([1, 2, 3], dtype=np.float32)
    return (
        np.result_type(np.float32, np.int16),
        np.issubdtype(x.dtype, np.floating),
        np.finfo(np.float32).eps,
        np.can_cast("i8", "f4"),
        isinstance(np.max(x), np.floating),
        np.array_equal(np.vectorize(np.add)(x, 1), x + 1),
        np.frompyfunc(np.hypot, 2, 1)(3, 4),
        np.apply_along_axis(np.sum, 0, np.eye(3)),
        np.piecewise(x, [x < 2, x >= 2], [np.negative, np.sqrt]),
        np.ma.masked_less(x, 2).sum(),
        np.inf,
        np.newaxis,
    )


@program
def heat(np):
    plate = np.zeros((40, 40))
    plate[0] = 100.0
    for _ in range(50):
        inner = plate[1:-1, 1:-1]
        sides = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        np.multiply(sides, 0.25, out=inner)
    with np.errstate(divide="ignore"):
        return np.log(plate).clip(-20), np.transpose(plate), np.any(np.isnan(plate)), np.average(plate)


def flat(result):
    return [part for each in result for part in flat(each)] if isinstance(result, (list, tuple)) else [result]


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_program(run):
    got, want = flat(run(pycudakit.numpy)), flat(run(numpy))
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert type(ours) is type(theirs)
        if isinstance(theirs, numpy.ndarray) and theirs.dtype.kind in "fc":
            numpy.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12, strict=True)
        elif isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-12)
        else:
            numpy.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("run", [life, k_means, heat, spectrum], ids=lambda run: run.__name__)
def test_program_on_an_engine(engine, run):
    if run is spectrum:
        with pytest.raises(pk.errors.Unsupported, match=r"^fft\.rfft: "):
            run(pycudakit.numpy)
        with pk.engine(engine, fallback="numpy"):
            for ours, theirs in zip(run(pycudakit.numpy), run(numpy), strict=True):
                numpy.testing.assert_array_equal(ours, theirs)
        return
    for ours, theirs in zip(flat(run(pycudakit.numpy)), flat(run(numpy)), strict=True):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert pk.last_call().engine == engine


def test_a_whole_function(engine):
    import pycudakit.numpy as np

    @pk.fuse
    def standardised(x):
        out = np.zeros(x.shape)
        out += (x - np.mean(x)) / np.std(x)
        return out, np.add.reduce(out, axis=0), np.linalg.norm(out)

    x = numpy.arange(12.0).reshape(3, 4)
    for ours, theirs in zip(standardised(x), standardised.__wrapped__(x), strict=True):
        numpy.testing.assert_array_equal(ours, theirs)
