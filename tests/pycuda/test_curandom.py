"""curandom: distributions, seeds, skipping; the same integers on both engines."""

import hashlib

import numpy as np
import pytest
from helpers.thorough_cases import thorough

from pycudakit.pycuda import curandom, gpuarray
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda._md5 import compression
from pycudakit.pycuda.elementwise import get_elwise_kernel

KINDS = [curandom.XORWOWRandomNumberGenerator, curandom.MRG32k3aRandomNumberGenerator]
GENERATORS = 132 * 1024


def seeds(count):
    return gpuarray.to_gpu(np.arange(count, dtype=np.int32))


_made = {}


@pytest.fixture(params=[KINDS[0], *thorough(KINDS[1])], ids=["XORWOW", "MRG32k3a"])
def generator(request, engine):
    """Return a generator with its first states, which are made once."""
    key = engine, request.param
    if key not in _made:
        made = request.param(seeds)
        _made[key] = made, drv.from_device(made.state, GENERATORS * 48, np.uint8)
    made, states = _made[key]
    drv.memcpy_htod(made.state, states)
    return made


def test_layout(generator):
    assert (generator.block_count, generator.generators_per_block) == (132, 1024)
    assert int(generator.state) != 0


def digest(array):
    return hashlib.sha256(array.get().tobytes()).hexdigest()[:16]


def test_integers_are_those_of_the_other_engine(generator):
    """The digests are those of the engine `cpu`, whose cuRAND is tested against published numbers."""
    expected = {"XORWOWRandomNumberGenerator": XORWOW, "MRG32k3aRandomNumberGenerator": MRG}
    assert digest(generator.gen_uniform(100_000, np.uint32)) == expected[type(generator).__name__]


XORWOW, MRG = "63291911a255a913", "f645b026f00cdfbb"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [100_000, 100_001])
def test_distributions(generator, dtype, size):
    uniform = generator.gen_uniform(size, dtype).get()
    assert 0 < uniform.min() <= uniform.max() <= 1
    assert abs(uniform.mean() - 0.5) < 0.01
    normal = generator.gen_normal(size, dtype).get()
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    log_normal = generator.gen_log_normal(size, dtype, 1.0, 0.5).get()
    assert abs(np.log(log_normal).mean() - 1) < 0.02
    assert abs(np.log(log_normal).std() - 0.5) < 0.02


def test_a_view_that_begins_between_pairs(generator):
    whole = gpuarray.zeros(1002, np.float32)
    generator.fill_normal(whole[1:1001])
    values = whole.get()
    assert values[0] == values[-1] == 0
    assert (values[1:-1] != 0).all()


def test_poisson(generator):
    counts = generator.gen_poisson(100_000, np.uint32, 13.0).get()
    assert abs(counts.mean() - 13) < 0.1
    assert abs(counts.var() - 13) < 0.5
    means = gpuarray.to_gpu(np.full(100_000, 20, np.float32))
    generator.fill_poisson(means)
    assert abs(means.get().mean() - 20) < 0.2


def test_numbers_go_on(generator):
    first, second = (generator.gen_uniform(1000, np.uint32).get() for _ in range(2))
    assert (first != second).mean() > 0.99


def test_skipping(generator):
    """A generator that skips three numbers draws its fourth."""
    drawn = [generator.gen_uniform(GENERATORS, np.uint32).get() for _ in range(4)]
    again = type(generator)(seeds)
    again.call_skip_ahead(3)
    np.testing.assert_array_equal(again.gen_uniform(GENERATORS, np.uint32).get(), drawn[3])
    other = type(generator)(seeds)
    skips = np.zeros(GENERATORS, np.uint64)
    skips[::2] = 2
    other.call_skip_ahead_array(gpuarray.to_gpu(skips))
    mixed = other.gen_uniform(GENERATORS, np.uint32).get()
    np.testing.assert_array_equal(mixed[::2], drawn[2][::2])
    np.testing.assert_array_equal(mixed[1::2], drawn[0][1::2])
    first_block = type(generator)(seeds)
    first_block.call_skip_ahead_array(gpuarray.to_gpu(np.full(1024, 3, np.uint64)))
    mixed = first_block.gen_uniform(GENERATORS, np.uint32).get()
    np.testing.assert_array_equal(mixed, np.concatenate([drawn[3][:1024], drawn[0][1024:]]))
    other.call_skip_ahead_sequence(1)
    other.call_skip_ahead_sequence_array(gpuarray.to_gpu(skips))
    assert (other.gen_uniform(GENERATORS, np.uint32).get() != drawn[1]).mean() > 0.99


def test_global_seeds(engine):
    for dtype in (np.float32, np.float64, np.int32, np.uint32):
        np.random.seed(1)  # noqa: NPY002
        first = curandom.rand((100, 10), dtype).get()
        np.random.seed(1)  # noqa: NPY002
        np.testing.assert_array_equal(curandom.rand((100, 10), dtype).get(), first)
        assert first.dtype == dtype
    uniform = curandom.rand(100_000).get()
    assert 0 <= uniform.min() <= uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01


@pytest.mark.parametrize("message", [b"", b"abc", bytes(range(55))])
def test_md5(engine, message):
    """The compression of a message that is one block is its digest."""
    padded = message + b"\x80" + bytes(55 - len(message)) + (8 * len(message)).to_bytes(8, "little")
    words = [f"{word}u" for word in np.frombuffer(padded, np.uint32)]
    kernel = get_elwise_kernel(
        "unsigned int *x", compression(words) + "x[0] = a; x[1] = b; x[2] = c; x[3] = d"
    )
    digest = gpuarray.zeros(4, np.uint32)
    kernel.prepared_call((1, 1), (1, 1, 1), digest.gpudata, 1)
    assert digest.get().tobytes() == hashlib.md5(message).digest()


def test_md5_code(engine):
    """Programs make random numbers of the index and a seed."""
    kernel = get_elwise_kernel(
        "unsigned int *x, unsigned int seed", curandom.md5_code + "x[i] = a ^ b ^ c ^ d"
    )
    drawn = []
    for seed in (1, 2, 1):
        x = gpuarray.empty(10_000, np.uint32)
        kernel.prepared_call((10, 1), (128, 1, 1), x.gpudata, seed, x.size)
        drawn.append(x.get())
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert len(np.unique(np.concatenate(drawn[:2]))) > 19_950
    bits = np.unpackbits(drawn[0].view(np.uint8)).mean()
    assert abs(bits - 0.5) < 0.01


def test_errors(generator):
    with pytest.raises(TypeError, match="fill_uniform makes float32, float64, int32, uint32, not int8"):
        generator.gen_uniform(10, np.int8)
    with pytest.raises(TypeError, match="float16"):
        curandom.rand(10, np.float16)
    with pytest.raises(ValueError, match="gaps"):
        generator.fill_uniform(gpuarray.zeros((10, 10), np.float32)[:, ::2])
    with pytest.raises(TypeError, match="uint64"):
        generator.call_skip_ahead_array(gpuarray.zeros(10, np.uint64))
    with pytest.raises(TypeError, match="int32 GPUArray of 135168 seeds"):
        type(generator)(lambda count: np.zeros(count, np.int32))
    with pytest.raises(drv.LogicError, match="Sobol32RandomNumberGenerator does not exist"):
        curandom.Sobol32RandomNumberGenerator()


def test_seed_getters(engine):
    uniform = curandom.seed_getter_uniform(10).get()
    assert len(set(uniform)) == 1
    assert len(set(curandom.seed_getter_unique(10).get())) > 1
    assert curandom.get_curand_version() is None
