"""Device functions of CUDA: mathematics, bits, conversions, vectors, half."""

import math

import numpy as np
import pytest
from helpers.user_kernels import RNG, run, run_each
from scipy import special

from pycudakit.kernels import In, Out, SourceModule

NUMPYS = ["sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"]
NUMPYS += ["sinh", "cosh", "tanh", "ceil", "floor", "trunc", "rint", "fabs"]
FLOATS = RNG.uniform(0.05, 0.95, 100)


@pytest.mark.parametrize(
    ("kind", "dtype", "bound"), [("float", np.float32, 4e-6), ("double", np.float64, 1e-13)]
)
def test_mathematics(engine, kind, dtype, bound):
    """Call each function by its overloaded name and, for floats, by its name with the suffix f."""
    erf = np.vectorize(math.erf)
    oracles = {
        **{name: getattr(np, name) for name in NUMPYS},
        **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "atanh")},
        "erf": erf,
        "erfc": lambda x: 1 - erf(x),
        "tgamma": np.vectorize(math.gamma),
        "lgamma": np.vectorize(math.lgamma),
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "exp10": lambda x: 10**x,
        "sinpi": lambda x: np.sin(np.pi * x),
        "cospi": lambda x: np.cos(np.pi * x),
        "normcdf": lambda x: 0.5 * (1 + erf(x / math.sqrt(2))),
    }
    x = FLOATS.astype(dtype)
    suffix = "f" if kind == "float" else ""
    out = run_each(kind, dtype, [f"{n}(x) + 0 * {n}{suffix}(y)" for n in oracles], x, x)
    wide = x.astype(np.float64)
    for row, (name, oracle) in zip(out, oracles.items(), strict=True):
        np.testing.assert_allclose(row, oracle(wide), rtol=bound, atol=bound, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "dtype", "bound"), [("float", np.float32, 4e-6), ("double", np.float64, 1e-13)]
)
def test_special_functions(engine, kind, dtype, bound):
    """Inverse error functions, the scaled one and Bessel functions, from tiny to large arguments."""
    oracles = {
        "erfinv": (special.erfinv, [0, 1e-10, -1e-3, 0.3, -0.5, 0.7, 0.99, -0.999, 1, -1, 2]),
        "erfcinv": (special.erfcinv, [0, 1e-30, 1e-5, 0.1, 0.5, 1, 1.5, 1.9, 2, -1]),
        "normcdfinv": (special.ndtri, [0, 1e-30, 1e-5, 0.02, 0.3, 0.5, 0.8, 0.99, 1, 2]),
        "erfcx": (special.erfcx, [-2, 0, 0.5, 3, 9, 24, 26, 100, 1e10, np.inf]),
        "cyl_bessel_i0": (special.i0, [0, 1e-3, 1, -2, 10, 50, -80]),
        "cyl_bessel_i1": (special.i1, [0, 1e-3, 1, -2, 10, 50, -80]),
    }
    suffix = "f" if kind == "float" else ""
    for name, (oracle, arguments) in oracles.items():
        x = np.array(arguments, dtype)
        out = run_each(kind, dtype, [f"{name}(x)", f"{name}{suffix}(y)"], x, x)
        for row in out:
            np.testing.assert_allclose(row, oracle(x.astype(np.float64)), bound, 1e-16, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "dtype", "bound"), [("float", np.float32, 4e-6), ("double", np.float64, 1e-13)]
)
def test_norms(engine, kind, dtype, bound):
    x, y = FLOATS.astype(dtype), (FLOATS[::-1] * 3).astype(dtype)
    f = "f" if kind == "float" else ""
    calls = [f"norm3d{f}(x, y, 1)", f"norm4d{f}(x, y, x, 1)", f"1 / rnorm4d{f}(x, y, x, 1)"]
    expected = [np.sqrt(x**2 + y**2 + 1), *[np.sqrt(2 * x**2 + y**2 + 1)] * 2]
    np.testing.assert_allclose(run_each(kind, dtype, calls, x, y), expected, rtol=bound)


@pytest.mark.parametrize(
    ("kind", "dtype", "bound"), [("float", np.float32, 4e-6), ("double", np.float64, 1e-13)]
)
def test_mathematics_of_two(engine, kind, dtype, bound):
    x, y = FLOATS.astype(dtype), (FLOATS[::-1] * 3).astype(dtype)
    oracles = {
        "pow(x, y)": lambda x, y: x**y,
        "pow(x, 2)": lambda x, _: x**2,
        "atan2(x, y)": np.arctan2,
        "fmod(y, x)": lambda x, y: np.fmod(y, x),
        "hypot(x, y)": np.hypot,
        "fmin(x, y)": np.fmin,
        "fmax(x, y)": np.fmax,
        "copysign(x, -y)": lambda x, _: -x,
        "fdim(x, y)": lambda x, y: np.maximum(x - y, 0),
        "min(x, y)": np.minimum,
        "max(x, y)": np.maximum,
        "abs(x - y)": lambda x, y: np.abs(x - y),
        "fma(x, y, x)": lambda x, y: x * y + x,
        "isnan(0 * x / (y - y)) && !isnan(x)": lambda x, _: np.ones_like(x),
        "isinf(x / (y - y)) + 2 * isfinite(x)": lambda x, _: np.full_like(x, 3),
        "sqrt(4) + x": lambda x, _: 2 + x,
    }
    out = run_each(kind, dtype, list(oracles), x, y)
    for row, (name, oracle) in zip(out, oracles.items(), strict=True):
        expected = oracle(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_allclose(row, expected, rtol=bound, atol=bound, err_msg=name)


def test_arithmetic_has_the_same_bits(engine):
    """+ - * / and sqrt have IEEE results, without contraction to fma."""
    x, y = RNG.normal(size=(2, 1000)).astype(np.float32)
    out = run_each("float", np.float32, ["x * y + x", "x / y", "sqrtf(fabsf(x))", "x - y * y"], x, y)
    np.testing.assert_array_equal(out, [x * y + x, x / y, np.sqrt(np.abs(x)), x - y * y])


@pytest.mark.smoke
def test_fast_intrinsics(engine):
    names = {
        "__fdividef(x, y)": lambda x, y: x / y,
        "__expf(x)": lambda x, _: np.exp(x),
        "__logf(x)": lambda x, _: np.log(x),
        "__sinf(x)": lambda x, _: np.sin(x),
        "__powf(x, y)": lambda x, y: x**y,
        "__saturatef(3 * x - 1)": lambda x, _: np.clip(3 * x - 1, 0, 1),
        "__fmaf_rn(x, y, x)": lambda x, y: x * y + x,
        "__frcp_rn(x)": lambda x, _: 1 / x,
        "__ldg(x_ + i_)": lambda x, _: x,
    }
    x, y = FLOATS.astype(np.float32), FLOATS[::-1].astype(np.float32)
    out = run_each("float", np.float32, list(names), x, y)
    for row, (name, oracle) in zip(out, names.items(), strict=True):
        expected = oracle(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6, err_msg=name)


# ---- Integers ----


def reversed_bits(x, bits):
    return int(f"{x:0{bits}b}"[::-1], 2)


def byte_perm(x, y, selector):
    both = (y << 32 | x).to_bytes(8, "little")
    made = 0
    for i in range(4):
        made |= both[selector >> 4 * i & 7] << 8 * i
    return made


def test_bits(engine):
    names = {
        "__popc(x)": lambda x, _: x.bit_count(),
        "__clz(x)": lambda x, _: 32 - x.bit_length(),
        "__ffs(x)": lambda x, _: (x & -x).bit_length(),
        "__brev(x)": lambda x, _: reversed_bits(x, 32),
        "__umulhi(x, y)": lambda x, y: x * y >> 32,
        "__byte_perm(x, y, y & 0xffff)": lambda x, y: byte_perm(x, y, y & 0xFFFF),
        "__funnelshift_l(x, y, 7)": lambda x, y: ((y << 32 | x) << 7 >> 32) % 2**32,
        "__funnelshift_r(x, y, 7)": lambda x, y: ((y << 32 | x) >> 7) % 2**32,
        "__usad(x, y, 3)": lambda x, y: abs(x - y) + 3,
        "__umul24(x, y)": lambda x, y: (x % 2**24) * (y % 2**24) % 2**32,
        "__uhadd(x, y)": lambda x, y: (x + y) >> 1,
        "min(x, y) + max(x, 5)": lambda x, y: (min(x, y) + max(x, 5)) % 2**32,
        "__float_as_uint(__uint_as_float(x & 0x7f7fffff))": lambda x, _: x & 0x7F7FFFFF,
    }
    x, y = RNG.integers(0, 2**32, (2, 64), np.uint32)
    x[:3] = 0, 1, 2**32 - 1
    out = run_each("unsigned", np.uint32, list(names), x, y)
    for row, (name, oracle) in zip(out, names.items(), strict=True):
        assert row.tolist() == [oracle(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], name


def test_wide_bits(engine):
    names = {
        "__popcll(x)": lambda x, _: x.bit_count(),
        "__clzll(x)": lambda x, _: 64 - x.bit_length(),
        "__ffsll(x)": lambda x, _: (x & -x).bit_length(),
        "__brevll(x)": lambda x, _: reversed_bits(x, 64),
        "__umul64hi(x, y)": lambda x, y: x * y >> 64,
        "__double_as_longlong(__longlong_as_double(x >> 2))": lambda x, _: x >> 2,
    }
    x, y = RNG.integers(0, 2**64, (2, 64), np.uint64)
    x[:3] = 0, 1, 2**64 - 1
    out = run_each("unsigned long long", np.uint64, list(names), x, y)
    for row, (name, oracle) in zip(out, names.items(), strict=True):
        assert row.tolist() == [oracle(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], name


def test_conversions_saturate(engine):
    x = np.array([0.5, 1.5, -2.5, 2.7, -2.7, 3e9, -3e9, 1e30, -1e30, np.inf, np.nan], np.float32)
    out = run_each(
        "float",
        np.float32,
        [*(f"__float2int_r{mode}(x)" for mode in "nzdu"), "(int)__float2uint_rn(x)"],
        x,
        x,
        "int",
        np.int32,
    )
    for row, rounded in zip(out, (np.rint, np.trunc, np.floor, np.ceil), strict=False):
        wide = np.nan_to_num(np.clip(rounded(x.astype(np.float64)), -(2**31), 2**31 - 1))
        np.testing.assert_array_equal(row, wide.astype(np.int32))
    unsigned = np.nan_to_num(np.clip(np.rint(x.astype(np.float64)), 0, 2**32 - 1)).astype(np.uint32)
    np.testing.assert_array_equal(out[4].view(np.uint32), unsigned)


# ---- Vectors, half, text ----


def test_vectors(engine):
    source = r"""
    __global__ void vectors(const float4 *x, float2 *out, int *sizes) {
        float4 v = x[threadIdx.x];
        uchar3 c = make_uchar3(1, 2, 3);
        out[threadIdx.x] = make_float2(v.x + v.y * c.z, v.w - v.z);
        int4 s = make_int4(sizeof(float3), sizeof(float4), sizeof(short4), sizeof(double2));
        int2 a = {(int)alignof(float2), (int)alignof(float4)};
        sizes[0] = s.x; sizes[1] = s.y; sizes[2] = s.z; sizes[3] = s.w; sizes[4] = a.x; sizes[5] = a.y;
    }
    """
    x = RNG.integers(-9, 9, (8, 4)).astype(np.float32)
    for given in (
        x,
        np.concatenate([[0], x.ravel()]).astype(np.float32)[1:].reshape(8, 4),
    ):  # the second is not aligned
        out, sizes = run(
            source,
            "vectors",
            In(given),
            Out(np.zeros((8, 2), np.float32)),
            (6, np.int32),
            block=(8, 1, 1),
        )
        np.testing.assert_array_equal(out, np.stack([x[:, 0] + 3 * x[:, 1], x[:, 3] - x[:, 2]], 1))
        assert sizes.tolist() == [12, 16, 8, 16, 8, 16]


def test_half(engine):
    source = r"""
    #include <cuda_fp16.h>
    __global__ void halves(const half *x, const __half *y, half *out, int n) {
        int i = threadIdx.x;
        half a = x[i], b = y[i];
        out[i] = __hadd(a, b);
        out[n + i] = a - b;
        out[2 * n + i] = a * b;
        out[3 * n + i] = __hdiv(a, b);
        out[4 * n + i] = __float2half(__half2float(a) + 0.5f);
        out[5 * n + i] = __hlt(a, b) ? a : b;
        out[6 * n + i] = __hfma(a, b, a);
        half2 both = __halves2half2(a, b);
        out[7 * n + i] = __high2half(__hmul2(both, both));
    }
    """
    x, y = RNG.normal(size=(2, 256)).astype(np.float16)
    y[:4] = np.float16([6e-8, 65504, np.inf, 1e-5])
    out = run(source, "halves", In(x), In(y), ((8, 256), np.float16), 256, block=(256, 1, 1))
    wide = x.astype(np.float64) * y.astype(np.float64) + x.astype(np.float64)
    with np.errstate(all="ignore"):
        half = np.float32(0.5)
        expected = [x + y, x - y, x * y, x / y, (x.astype(np.float32) + half).astype(np.float16)]
        expected += [np.where(x < y, x, y), wide.astype(np.float16), y * y]
    np.testing.assert_array_equal(out, expected)


def test_output_of_kernels(engine, capsys):
    source = r"""
    #include <stdio.h>
    __global__ void say(const char *unused, int n, double x) {
        printf("%d|%5.2f|%s|%c|%llu|%%\n", n, x, "text", 'c', 1ull << 40);
        printf("plain\n");
    }
    """
    SourceModule(source).get_function("say")(None, -3, 2.5, block=(2, 1, 1))
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == ["-3| 2.50|text|c|1099511627776|%"] * 2 + ["plain"] * 2


def test_clocks_go_on(engine):
    source = """
    __global__ void ticks(long long *out) {
        long long first = clock64();
        volatile int sum = 0;
        for (int i = 0; i < 10000; ++i) sum = sum + i;
        out[0] = clock64() - first;
    }
    """
    assert run(source, "ticks", (1, np.int64), block=(1, 1, 1))[0] > 0
