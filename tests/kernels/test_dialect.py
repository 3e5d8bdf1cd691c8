"""CUDA's dialect: short names of integers, more of cuRAND, inline PTX, and buffers seen as another type."""

import re

import numpy as np
import pytest
from helpers.user_kernels import RNG, module, run

import pycudakit as pk
from pycudakit import In, Out, SourceModule, errors

# ---- Names of integers ----


def test_short_names_of_integers(engine):
    body = "a[0] = ~(uint)0; b[0] = ~(ushort)0; c[0] = ~(ulong)0;"
    source = f"__global__ void k(uint *a, ushort *b, ulong *c) {{ {body} }}"
    a, b, c = np.zeros(1, np.uint32), np.zeros(1, np.uint16), np.zeros(1, np.uint64)
    module(source).get_function("k")(Out(a), Out(b), Out(c), block=(1, 1, 1))
    assert (a[0], b[0], c[0]) == (2**32 - 1, 2**16 - 1, 2**64 - 1)


@pytest.mark.parametrize("own", ["typedef unsigned long long ulong;", "using ulong = unsigned long long;"])
def test_short_names_of_the_source(engine, own):
    source = own + " typedef unsigned char ushort;"
    body = "out[0] = sizeof(ulong); out[1] = sizeof(ushort); out[2] = ulong(-1) > 0;"
    source += f"__global__ void k(int *out) {{ {body} }}"
    np.testing.assert_array_equal(run(source, "k", (3, np.int32), block=(1, 1, 1)), [8, 1, 1])


# ---- Random numbers ----

CURAND = r"""
#include <curand_kernel.h>
__global__ void draw(unsigned *bits, float *uniform, double *wide, int n) {
    curandStateMRG32k3a state, ahead;
    curand_init(1234, threadIdx.x, 0, &state);
    curand_init(1234, threadIdx.x, 5, &ahead);
    bits += threadIdx.x * n; uniform += threadIdx.x * n; wide += threadIdx.x * n;
    for (int i = 0; i < n; ++i) bits[i] = curand(&state);
    bits[0] = bits[5] == curand(&ahead);
    for (int i = 0; i < n; ++i) uniform[i] = curand_uniform(&state), wide[i] = curand_normal_double(&state);
}
template <class State> __device__ void counts_of(State *state, double mean, unsigned *out, int n) {
    curand_init(7, threadIdx.x, 0, state);
    for (int i = 0; i < n; ++i) out[threadIdx.x * n + i] = curand_poisson(state, mean);
}
template <class State> __device__ void pairs_of(State *state, float2 *f, double2 *d, int n) {
    curand_init(7, threadIdx.x, 0, state);
    for (int i = threadIdx.x * n; i < (threadIdx.x + 1) * n; ++i) {
        f[i] = curand_log_normal2(state, 1.0f, 0.5f);
        d[i] = curand_log_normal2_double(state, 1.0, 0.5);
    }
}
template <class State> __global__ void counts(double mean, unsigned *out, int n) {
    State state; counts_of(&state, mean, out, n);
}
template <class State> __global__ void pairs(float2 *f, double2 *d, int n) {
    State state; pairs_of(&state, f, d, n);
}
"""
STATES = ["curandState", "curandStatePhilox4_32_10_t", "curandStateMRG32k3a"]


def test_mrg32k3a(engine):
    draw = module(CURAND, no_extern_c=True).get_function("draw")
    n = 2000
    bits, uniform = np.zeros((4, n), np.uint32), np.zeros((4, n), np.float32)
    wide = np.zeros((4, n))
    draw(Out(bits), Out(uniform), Out(wide), n, block=(4, 1, 1))
    assert np.all(bits[:, 0] == 1)
    assert len({*bits[:, 1:].ravel()}) > 7900
    assert abs(bits[:, 1:].mean() / 2**32 - 0.5) < 0.02
    assert 0 < uniform.min() < 0.01
    assert 0.99 < uniform.max() <= 1
    assert abs(uniform.mean() - 0.5) < 0.02
    assert abs(wide.mean()) < 0.06
    assert abs(wide.std() - 1) < 0.05


def test_mrg32k3a_is_lecuyers_recurrence(engine):
    if engine != "cpu":
        pytest.skip("the members of the state are those of the CPU engine's header")
    source = """
    #include <curand_kernel.h>
    __global__ void k(unsigned *out, double *u) {
        curandStateMRG32k3a s; curand_init(0, 1, 0, &s);
        for (int i = 0; i < 3; ++i) { out[i] = s.s1[i]; out[3 + i] = s.s2[i]; }
        for (int i = 0; i < 64; ++i) u[i] = curand_uniform_double(&s);
    }"""
    state, drawn = run(source, "k", (6, np.uint32), (64, np.float64), block=(1, 1, 1))
    m1, m2 = 4294967087, 4294944443
    # Substreams are 2^76 apart.
    a1 = np.array([[0, 1, 0], [0, 0, 1], [-810728, 1403580, 0]], object)
    a2 = np.array([[0, 1, 0], [0, 0, 1], [-1370589, 0, 527612]], object)
    for _ in range(76):
        a1, a2 = a1 @ a1 % m1, a2 @ a2 % m2
    assert state[:3].tolist() == (a1.sum(axis=1) * 12345 % m1).tolist()
    assert state[3:].tolist() == (a2.sum(axis=1) * 12345 % m2).tolist()
    x, y = list(map(int, state[:3])), list(map(int, state[3:]))
    for value in drawn:
        x = [*x[1:], (1403580 * x[1] - 810728 * x[0]) % m1]
        y = [*y[1:], (527612 * y[2] - 1370589 * y[0]) % m2]
        expected = x[2] - y[2] if x[2] > y[2] else x[2] - y[2] + m1
        assert value == expected * 2.328306549295728e-10


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mean", [0.5, 20.0, 300.0, 10000.0])
def test_poisson(engine, state, mean):
    counts = module(CURAND, no_extern_c=True).get_function(f"counts<{state}>")
    out = np.zeros((32, 500), np.uint32)
    counts(mean, Out(out), 500, block=(32, 1, 1))
    assert abs(out.mean() - mean) < 6 * np.sqrt(mean / out.size)
    assert abs(out.var() / mean - 1) < 0.1


@pytest.mark.parametrize("state", STATES)
def test_pairs_of_log_normal(engine, state):
    pairs = module(CURAND, no_extern_c=True).get_function(f"pairs<{state}>")
    f, d = np.zeros((32 * 500, 2), np.float32), np.zeros((32 * 500, 2))
    pairs(Out(f), Out(d), 500, block=(32, 1, 1))
    for x in (f, d):
        logs = np.log(x.astype(np.float64))
        assert np.all(np.abs(logs.mean(axis=0) - 1) < 0.025)
        assert np.all(np.abs(logs.std(axis=0) - 0.5) < 0.02)
        assert abs(np.corrcoef(logs.T)[0, 1]) < 0.05


# ---- Inline PTX ----

PTX = r"""
__device__ __forceinline__ unsigned lane() { unsigned r; asm("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }
__global__ void where(unsigned *out, unsigned long long *times) {
    unsigned warp, first, t = threadIdx.x + blockDim.x * threadIdx.y;
    asm volatile ("mov.u32 %0, %%warpid;"
                  : "=r"(warp));
    asm volatile("mov.u32 %0, %%clock;" : "=r"(first) :: "memory");
    unsigned long long before, after, now;
    asm volatile("mov.u64 %0, %clock64;" : "=l"(before));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(after));
    out[2 * t] = lane(); out[2 * t + 1] = warp;
    if (t == 0) { times[0] = after >= before; times[1] = now; }
}
__global__ void pack(const unsigned *x, unsigned long long *packed, unsigned *swapped, double *number) {
    int t = threadIdx.x;
    unsigned low, high;
    asm("mov.b64 %0, {%1, %2};" : "=l"(packed[t]) : "r"(x[2 * t]), "r"(x[2 * t + 1]));
    if (t >= 0) asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(packed[t]));
    else low = high = 0;
    swapped[2 * t] = high; swapped[2 * t + 1] = low;
    asm("mov.b64 %0, {%1, %2};\n\t" : "=d"(number[t]) : "r"(x[2 * t]), "r"(x[2 * t + 1]));
    asm volatile("" ::: "memory");
}
"""


def test_special_registers(engine):
    where = module(PTX).get_function("where")
    out, times = np.zeros((96, 2), np.uint32), np.zeros(2, np.uint64)
    where(Out(out), Out(times), block=(16, 6, 1))
    np.testing.assert_array_equal(out[:, 0], np.arange(96) % 32)
    if engine == "cpu":  # a GPU numbers the warps of a multiprocessor as it likes
        np.testing.assert_array_equal(out[:, 1], np.arange(96) // 32)
    assert times[0] == 1
    assert times[1] > 0


def test_registers_of_lanes_and_indices(engine):
    """The masks of lanes, and CUDA's built-in variables."""
    masks = ["eq", "lt", "le", "ge", "gt"]
    names = [f"lanemask_{mask}" for mask in masks] + ["tid.y", "ntid.x", "ctaid.z", "nctaid.x"]
    reads = "".join(
        f'asm("mov.u32 %0, %%{name};" : "=r"(r)); out[{len(names)} * i + {at}] = r;'
        for at, name in enumerate(names)
    )
    source = f"""__global__ void k(unsigned *out) {{
        unsigned r, b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        unsigned i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * b); {reads}
    }}"""
    out = np.zeros((12, 2, 32, len(names)), np.uint32)
    module(source).get_function("k")(Out(out), block=(32, 2, 1), grid=(3, 2, 2))
    block, y, lane = np.indices(out.shape[:3])
    compared = [np.equal, np.less, np.less_equal, np.greater_equal, np.greater]
    bits = np.arange(32)
    for at, function in enumerate(compared):
        mask = (function(bits, lane[..., None]) * (np.uint64(1) << bits.astype(np.uint64))).sum(axis=-1)
        np.testing.assert_array_equal(out[..., at], mask, err_msg=names[at])
    for at, expected in enumerate([y, 32, block // 6, 3], len(masks)):
        np.testing.assert_array_equal(out[..., at], expected, err_msg=names[at])


def test_packing(engine):
    x = RNG.integers(0, 2**32, (32, 2), dtype=np.uint32)
    packed, swapped, number = np.zeros(32, np.uint64), np.zeros((32, 2), np.uint32), np.zeros(32)
    module(PTX).get_function("pack")(In(x), Out(packed), Out(swapped), Out(number), block=(32, 1, 1))
    np.testing.assert_array_equal(packed, x.view(np.uint64)[:, 0])
    np.testing.assert_array_equal(swapped, x[:, ::-1])
    np.testing.assert_array_equal(number.view(np.uint64), packed)


# Instructions, and NumPy's function of their operands, which are read as the type.
ARITHMETIC = {
    "add.s32": np.add,
    "sub.s32": np.subtract,
    "mul.lo.s32": np.multiply,
    "mul.hi.s32": lambda a, b: (a.astype(np.int64) * b) >> 32,
    "mul.hi.u32": lambda a, b: (a.astype(np.uint64) * b) >> np.uint64(32),
    "div.u32": np.floor_divide,
    "rem.u32": np.remainder,
    "min.s32": np.minimum,
    "max.u32": np.maximum,
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
    "shl.b32": lambda a, b: np.where(b < 32, a << (b & 31), 0),
    "shr.u32": lambda a, b: np.where(b < 32, a >> (b & 31), 0),
    "add.s64": np.add,
    "mul.lo.u64": np.multiply,
    "add.f32": np.add,
    "mul.rn.f32": np.multiply,
    "div.rn.f64": np.divide,
    "min.f64": np.minimum,
}
REGISTERS = {"s32": "r", "u32": "r", "b32": "r", "s64": "l", "u64": "l", "f32": "f", "f64": "d"}
C_TYPES = {
    "s32": "int",
    "u32": "unsigned",
    "b32": "unsigned",
    "s64": "long long",
    "u64": "unsigned long long",
}
C_TYPES |= {"f32": "float", "f64": "double"}


@pytest.mark.parametrize("instruction", ARITHMETIC)
def test_arithmetic(engine, instruction):
    kind = instruction.rpartition(".")[2]
    register, c_type = REGISTERS[kind], C_TYPES[kind]
    dtype = np.dtype(kind.replace("s", "i").replace("b", "u")[0] + str(int(kind[1:]) // 8))
    source = f"""
    __global__ void compute({c_type} *out, const {c_type} *a, const {c_type} *b) {{
        int i = threadIdx.x;
        asm volatile ("{instruction} %0, %1, %2;"
                      : "={register}"(out[i]) : "{register}"(a[i]), "{register}"(b[i]));
    }}"""
    a = RNG.integers(0, 256, (64, dtype.itemsize), np.uint8).view(dtype)[:, 0]
    b = RNG.integers(1, 40, 64).astype(dtype)
    if dtype.kind == "f":
        a = RNG.standard_normal(64).astype(dtype)
    elif instruction.startswith(("m", "a", "o", "x")):
        b = RNG.permutation(a)
    out = np.zeros(64, dtype)
    module(source).get_function("compute")(Out(out), In(a), In(b), block=(64, 1, 1))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, ARITHMETIC[instruction](a, b).astype(dtype))


MORE_ARITHMETIC = r"""
__global__ void compute(int *x, long long *wide, float *f) {
    int a = -7, b = 3;
    asm("mad.lo.s32 %0, %1, %2, %1;" : "=r"(x[0]) : "r"(a), "r"(b));
    asm("add.s32 %0, %0, -2;\n\tneg.s32 %1, %0;" : "+r"(a), "=r"(x[1]));
    asm("abs.s32 %0, %1;" : "=r"(x[2]) : "r"(a));
    asm("not.b32 %0, %1;" : "=r"(x[3]) : "r"(b));
    asm("shr.s32 %0, %1, 40;" : "=r"(x[4]) : "r"(a));
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(wide[0]) : "r"(a), "r"(b));
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(wide[1]) : "r"(a), "r"(b));
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(f[0]) : "f"(1.5f), "f"(2.25f), "f"(-1.f));
    asm("sqrt.rn.f32 %0, %1;" : "=f"(f[1]) : "f"(2.f));
    asm("neg.f32 %0, %1;" : "=f"(f[2]) : "f"(0.f));
}
"""


def test_instructions_of_one_and_three_operands(engine):
    x, wide, f = np.zeros(5, np.int32), np.zeros(2, np.int64), np.zeros(3, np.float32)
    module(MORE_ARITHMETIC).get_function("compute")(Out(x), Out(wide), Out(f), block=(1, 1, 1))
    np.testing.assert_array_equal(x, [-28, 9, 9, ~3, -1])
    np.testing.assert_array_equal(wide, [-27, (2**32 - 9) * 3])
    np.testing.assert_array_equal(f, np.array([2.375, np.sqrt(np.float32(2)), -0.0], np.float32))
    assert np.signbit(f[2])


@pytest.mark.parametrize(
    "instruction",
    [
        "bfe.u32 %0, %1, 4, 4;",
        "mov.u32 %0, %%smid;",
        "mov.u32 %0, %1; add.cc.u32 %0, %0, 1;",
        "mul.b32 %0, %1;",
    ],
)
def test_other_instructions_name_their_line(engine, instruction):
    if engine != "cpu":
        pytest.skip("a GPU runs this")
    source = f"""
    __global__ void k(unsigned *x) {{
        unsigned r;
        asm("{instruction}" : "=r"(r) : "r"(x[0]));
        x[0] = r;
    }}"""
    with pytest.raises(errors.CompileError, match=r"kernel\.cu:4[^\n]*a GPU runs this"):
        SourceModule(source)


def test_instructions_that_the_preprocessor_drops(engine):
    source = """
    __global__ void k(unsigned *x) {
    #if defined(PYCUDAKIT_CPU) || 1
        x[0] = 3;
    #else
        asm("bfe.u32 %0, %1, 4, 4;" : "=r"(x[0]) : "r"(x[1]));
    #endif
    }"""
    assert run(source, "k", (2, np.uint32), block=(1, 1, 1))[0] == 3


# ---- Buffers of programs, seen as another type ----

COUNT = "__global__ void count(unsigned *x, int n) { int i = threadIdx.x; if (i < n) x[i] += 0x80000000u; }"


def test_a_buffer_seen_as_another_type(engine):
    count = module(COUNT).get_function("count")
    program = pk.Program()
    x = program.inout("x", 8, np.int32)
    program.launch(count, x.view(np.uint32), 8, block=(32, 1, 1))
    program.launch(count, x[4:].view("uint32"), 4, block=(32, 1, 1))
    out = program(x=np.arange(8, dtype=np.int32))["x"]
    expected = np.arange(8, dtype=np.int32)
    expected.view(np.uint32)[:4] += 0x80000000
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, expected)
    assert x.view(np.uint32).shape == (8,)


def test_a_buffer_is_not_seen_as_a_type_of_another_size(engine):
    x = pk.Program().output("x", 8, np.int32)
    with pytest.raises(TypeError, match=r"'x' of int32 cannot be viewed as float64.*4 bytes.*have 8"):
        x.view(np.float64)


def test_a_launch_advises_the_view(engine):
    program = pk.Program()
    x, y = program.output("x", 8, np.float32), program.output("y", 8, np.float64)
    count = module(COUNT).get_function("count")
    with pytest.raises(TypeError, match=re.escape("as with .view(np.uint32)")):
        program.launch(count, x, 8, block=(32, 1, 1))
    with pytest.raises(TypeError, match="declare it as uint32"):
        program.launch(count, y, 8, block=(32, 1, 1))
