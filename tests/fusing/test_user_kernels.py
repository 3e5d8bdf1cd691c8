"""User kernels in a fused function work on resident buffers."""

import types

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

N = 200_000
HALF = N // 2 // 256 * 256
NOTES = 16_384  # the most bytes that kernels transfer beside arrays
GRID = {"block": (256, 1, 1), "grid": (-(-N // 256), 1)}

SOURCE = """
__global__ void twice(const float *x, float *y, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void bump(float *x, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) x[i] += 1;
}
"""


@pytest.fixture(name="kernels", scope="module")
def _kernels():
    module = pk.SourceModule(SOURCE)
    program = pk.Program()
    x, y = program.input("x", N, np.float32), program.output("y", N, np.float32)
    program.launch(module.get_function("twice"), x, y, N, threads=N)
    return types.SimpleNamespace(
        module=module,
        program=program,
        scaled=pk.ElementwiseKernel("float *z, const float *x, float a", "z[i] = a * x[i]"),
        dotted=pk.ReductionKernel(np.float32, "0", "a+b", "x[i]*y[i]", "const float *x, const float *y"),
        summed=pk.InclusiveScanKernel(np.float32, "a+b"),
    )


def functions(kernels):
    """Return functions with kernels, their NumPy equivalents, and whether all data stays on the device."""
    module, program, scaled, summed = kernels.module, kernels.program, kernels.scaled, kernels.summed
    twice, bump = module.get_function("twice"), module.get_function("bump")

    def launched(x):
        a, b = x * 3, np.empty_like(x)
        twice(a, b, N, **GRID)
        return b + 1

    def in_place(x):
        a = x * 3
        bump(a, N, **GRID)
        bump.launch(N, pk.InOut(a), N)
        return a * 2

    def in_and_out(x):
        b = np.zeros_like(x)
        twice(pk.In(x), pk.Out(b), N, **GRID)
        return b + 1

    def each_element(x):
        z = np.zeros_like(x)
        scaled(z, x * 2, 3)
        return z + 1

    def scanned(x):
        return summed(x * 0 + 1, "new") * 2

    def in_a_program(x):
        return program(x=x * 2)["y"] + 1

    def in_an_argument(x):
        bump(x, N, **GRID)
        y = x * 2
        bump(x, N, **GRID)
        return y, x + 0

    def shifted(x):
        x += 2
        return 2 * x - 2, x + 0

    def in_halves(x):
        a = x * 2
        twice(a[:HALF], a[HALF : 2 * HALF], HALF, **GRID)
        return a + 1

    def halves(x):
        a = x * 2
        a[HALF : 2 * HALF] = a[:HALF] * 2
        return a + 1

    def over_itself(x):
        a = x * 2
        twice(a[:-1], a[1:], N - 1, **GRID)  # reads the old values
        return a + 1

    def over(x):
        a = x * 2
        a[1:] = a[:-1] * 2
        return a + 1

    def in_steps(x):
        a = x * 2
        twice.launch(N // 2, a[::2], a[1::2], N // 2)
        return a + 1

    def steps(x):
        a = x * 2
        a[1::2] = a[::2] * 2
        return a + 1

    def returned(x):
        a = x * 2
        return module.get_function("twice")(a, pk.Out(a), N, out_args=True, **GRID)[0] + 1

    def by_another(x):
        a = x * 2
        other.run(pk.InOut(a))
        return a + 1

    other = types.SimpleNamespace(run=lambda wrapped: bump(wrapped, N, **GRID))
    return {
        "launched": (launched, lambda x: x * 3 * 2 + 1, True),
        "in place": (in_place, lambda x: (x * 3 + 1 + 1) * 2, True),
        "in and out": (in_and_out, lambda x: x * 2 + 1, True),
        "elements": (each_element, lambda x: x * 2 * 3 + 1, True),
        "scanned": (scanned, lambda x: np.cumsum(x * 0 + 1, dtype="f4") * 2, True),
        "program": (in_a_program, lambda x: x * 2 * 2 + 1, True),
        "an argument": (in_an_argument, shifted, True),
        "halves": (in_halves, halves, True),
        "over itself": (over_itself, over, False),
        "steps": (in_steps, steps, False),
        "returned": (returned, lambda x: x * 4 + 1, False),
        "by another": (by_another, lambda x: x * 2 + 1 + 1, False),
    }


NAMES = list(
    functions(
        types.SimpleNamespace(module=types.SimpleNamespace(get_function=str), program=0, scaled=0, summed=0)
    )
)


def flat(result):
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.smoke
@pytest.mark.parametrize("name", NAMES)
def test_kernels(engine, kernels, name):
    function, numpys, stays = functions(kernels)[name]
    x = np.random.default_rng(1).integers(-99, 99, N).astype(np.float32)
    ours, theirs = x.copy(), x.copy()
    result = pk.fuse(function, strict=True)(ours)
    call = pk.last_call()
    for mine, wanted in zip([*flat(result), ours], [*flat(numpys(theirs)), theirs], strict=True):
        np.testing.assert_array_equal(mine, wanted)
    if engine == "cuda" and stays:
        down = sum(array.nbytes for array in flat(result)) + (x.nbytes if name == "an argument" else 0)
        assert x.nbytes <= call.bytes_up <= x.nbytes + NOTES
        assert down <= call.bytes_down <= down + NOTES


def test_keywords_of_a_global_dict_run_no_code(engine, kernels):
    body = functions(kernels)["an argument"][0]
    x = np.ones(N, np.float32)
    with pk.engine(engine):
        assert not pk.fuse(body).explain(x).risks


def test_reductions(engine, kernels):
    dotted = kernels.dotted
    x, y = np.random.default_rng(1).integers(-9, 9, (2, N)).astype(np.float32)
    found = pk.fuse(lambda x, y: dotted(x * 2, y), strict=True)(x, y)
    call = pk.last_call()
    assert found == np.dot((x * 2).astype("f8"), y)
    if engine == "cuda":
        assert call.bytes_up <= x.nbytes + y.nbytes + NOTES


def test_a_launch_that_is_refused(engine, kernels):
    """Nothing ran, so the newest values are where they were before."""
    bump = kernels.module.get_function("bump")

    @pk.fuse
    def refused(x):
        a = x * 2
        with pytest.raises(errors.Error):
            bump(a, N, block=(1 << 20, 1, 1), grid=(1, 1))
        return a + 1

    x = np.arange(N, dtype=np.float32)
    np.testing.assert_array_equal(refused(x), x * 2 + 1)


def test_in_a_helper(engine, kernels):
    bump = kernels.module.get_function("bump")

    @pk.fuse
    def isolated(x):
        a = x * 2
        bump(a, N, isolate=True, **GRID)
        return a + 1

    x = np.arange(N, dtype=np.float32)
    np.testing.assert_array_equal(isolated(x), x * 2 + 2)
