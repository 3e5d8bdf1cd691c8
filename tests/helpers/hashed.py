"""Input arrays whose bits depend on a seed alone: an integer hash makes them, on every machine the same.

NumPy's generators are not used: a new release of NumPy may change their streams. Nor are NumPy's
transcendental functions, whose bits depend on the machine.
"""

import numpy as np

INTEGERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def words(count, seed):
    """Return 64-bit words: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014) of the indices."""
    x = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(1_000_003 * seed)
    with np.errstate(over="ignore"):
        x *= np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def whole(shape, low, high, seed=0, dtype="int64"):
    """Return integers of [low, high), of any dtype."""
    count = int(np.prod(shape))
    numbers = (words(count, seed) >> np.uint64(33)).astype(np.int64) % (high - low) + low
    return numbers.astype(dtype).reshape(shape)


def ordinary(dtype, shape, seed=0):
    """Return numbers of a few binary digits, without a negative zero; floats are fractions of 64."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return whole(shape, 0, 2, seed, bool)
    if dtype.kind == "f":
        return (whole(shape, -1000, 1001, seed) / 64).astype(dtype)
    return whole(shape, 0 if dtype.kind == "u" else -100, 101, seed, dtype)


def uniform(shape, seed=0, dtype="float64"):
    """Return floats of [0, 1) that have all of their digits."""
    bits = words(int(np.prod(shape)), seed) >> np.uint64(11)
    return (bits.astype(np.float64) * 2.0**-53).astype(dtype).reshape(shape)


def bits(dtype, shape, seed=0):
    """Return values of any bits; each NaN is the quiet one without a payload."""
    dtype, count = np.dtype(dtype), int(np.prod(shape))
    if dtype.kind == "b":
        return whole(shape, 0, 2, seed, bool)
    found = words(count, seed).astype("<u8").astype(f"u{dtype.itemsize}").view(dtype)
    if dtype.kind == "f":
        found = np.where(np.isnan(found), dtype.type(np.nan), found)
    return found.reshape(shape)


def special(dtype):
    """Return the values at which a dtype's arithmetic is most likely to go wrong."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        near = [least, least + 1, most - 1, most, most // 2, most // 2 + 1, 8 * dtype.itemsize]
        return np.array([0, 1, 2, 3, 5, 7, *near, *([-1, -2, -3] if least else [])], dtype)
    info = np.finfo(dtype)
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 100.0, 3.140625, np.inf, info.max, info.tiny, info.eps]
    half = np.array([*positive, info.smallest_subnormal, 1 - info.epsneg], dtype)
    return np.concatenate([half, -half, np.array([np.nan], dtype)])


def operands(dtype, count, size=600):
    """Return one or two arrays: of two, each pair of special values; values of any bits; ordinary ones."""
    edges = special(dtype)
    first = np.repeat(edges, edges.size), bits(dtype, size, 1), ordinary(dtype, size, 2)
    second = np.tile(edges, edges.size), bits(dtype, size, 3), ordinary(dtype, size, 4)
    return [np.concatenate(parts) for parts in (first, second)[:count]]


def some_nan(array, seed=9):
    """Return a copy of an array of floats in which about one element of eight is NaN."""
    return np.where(whole(array.shape, 0, 8, seed) == 0, array.dtype.type(np.nan), array)
