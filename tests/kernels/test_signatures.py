"""Parsing of kernel sources: signatures, variables, macros, templates."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycudakit import errors
from pycudakit.kernels.reading import preprocessor, signatures


def parsed(text, *options, include=lambda _: None):
    return signatures.parse(text, "my.cu", options, include)


def types(text, name="k", *options):
    return [p.type for p in parsed(text, *options).signature(name).parameters]


def one(declared, *options):
    """Parse a kernel with one parameter; return the parameter."""
    before, _, declared = declared.rpartition("@")
    text = f"{before} __global__ void k({declared}) {{}}"
    [parameter] = parsed(text, *options).signature("k").parameters
    return parameter


@pytest.mark.smoke
def test_the_issues_kernel():
    text = """
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
    signature = parsed(text).signature("add")
    assert (signature.name, signature.line) == ("add", 2)
    assert [p.name for p in signature.parameters] == ["a", "b", "out", "n"]
    assert [p.pointer for p in signature.parameters] == [True, True, True, False]
    assert [p.const for p in signature.parameters] == [True, True, False, False]
    assert [p.dtype for p in signature.parameters] == [np.dtype("float32")] * 3 + [np.dtype("int32")]


@pytest.mark.parametrize(
    ("declared", "dtype"),
    [
        ("bool x", "bool"),
        ("char x", "int8"),
        ("signed char x", "int8"),
        ("unsigned char x", "uint8"),
        ("short x", "int16"),
        ("unsigned short int x", "uint16"),
        ("short unsigned x", "uint16"),
        ("int x", "int32"),
        ("unsigned x", "uint32"),
        ("unsigned", "uint32"),
        ("signed x", "int32"),
        ("long x", "int64"),
        ("unsigned long int x", "uint64"),
        ("long long x", "int64"),
        ("long long int x", "int64"),
        ("unsigned long long x", "uint64"),
        ("long unsigned long x", "uint64"),
        ("float x", "float32"),
        ("double x", "float64"),
        ("half x", "float16"),
        ("__half x", "float16"),
        ("size_t x", "uint64"),
        ("std::size_t x", "uint64"),
        ("ptrdiff_t x", "int64"),
        ("uint8_t x", "uint8"),
        ("::int64_t x", "int64"),
        ("cuda::std::uint16_t x", "uint16"),
        ("uint x", "uint32"),
        ("cuFloatComplex x", "complex64"),
        ("thrust::complex<double> x", "complex128"),
        ("struct Body x", None),
        ("float4 x", None),
        ("Body", None),
    ],
)
def test_values(declared, dtype):
    parameter = one(declared)
    assert not parameter.pointer
    assert parameter.dtype == (None if dtype is None else np.dtype(dtype))


@pytest.mark.parametrize(
    ("declared", "const", "element"),
    [
        ("float *x", False, "float"),
        ("float* x", False, "float"),
        ("const float *x", True, "float"),
        ("float const *x", True, "float"),
        ("float const* __restrict__ const x", True, "float"),
        ("const float * __restrict__ x", True, "float"),
        ("float *const x", False, "float"),
        ("volatile float *x", False, "float"),
        ("float x[]", False, "float"),
        ("const float x[16]", True, "float"),
        ("float x[][N]", False, "float"),
        ("float (*x)[8]", False, "float"),
        ("float *", False, "float"),
        ("const void *x", True, "void"),
        ("float **x", False, "float *"),
        ("const Body *bodies", True, "Body"),
        ("const int *x = nullptr", True, "int"),
        ("typedef float *vec;@vec x", False, "float"),
        ("typedef const float *vec;@vec x", True, "float"),
        ("typedef float real;@const real *x", True, "float"),
        ("using real = float; using number = real;@number *x", False, "float"),
        ("#define REAL float\n@REAL *x", False, "float"),
        ("#define IN(T) const T * __restrict__\n@IN(float) x", True, "float"),
    ],
)
def test_pointers(declared, const, element):
    parameter = one(declared)
    assert (parameter.pointer, parameter.const, parameter.element) == (True, const, element)
    assert parameter.dtype == {"float": np.float32, "int": np.int32}.get(element)
    assert parameter.name in ("x", "bodies", "")


def test_no_parameters():
    assert types("__global__ void k() {}") == types("__global__ void k(void) {}") == []


def test_comments_strings_and_lines():
    text = r"""
// __global__ void no1(int a) {}
/* __global__ void no2(int a) {} */
const char *s = "__global__ void no3(int a) {} // \" ";
const char *r = R"x(
__global__ void no4(int a) {} ")x";
char c = '"'; int big = 1'000'000;
__global__ void k(int a, /* int b, */ int c // , int d
) { printf("%d) } {", a); }
__global__ void \
later(int a) {}
"""
    found = parsed(text)
    assert found.kernels == ("k", "later")
    assert [found.signature(name).line for name in found.kernels] == [8, 11]
    assert types(text) == ["int", "int"]


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void k",
        "void __global__ k",
        'extern "C" __global__ void k',
        "static __global__ void k",
        "__global__ __launch_bounds__(256) void k",
        "__global__ void __launch_bounds__(N * 2, 4) k",
        "__attribute__((used)) __global__ void k",
        "[[maybe_unused]] __global__ void k",
        "__global__ void __cluster_dims__(2, 1, 1) k",
    ],
)
def test_attributes(head):
    assert types(f"{head}(float *x, int n) {{ }}") == ["float *", "int"]


def test_text_around_a_kernel():
    text = """
namespace a { namespace { struct S { int m; __device__ S(int i) : m(i) {} __device__ int f() { return m; } };
} __global__ void inner(S s) { } }
namespace b::c { __global__ void inner(double d) { } }
extern "C" { __global__ void k(int n); }
__device__ float helper(float x = 1) { if (x) { return x; } return 0; }
__global__ void k(int n) { for (;;) { } }
static int table[2] = { 1, 2 };
template <class T> struct G { T t; };
__global__ void g(G<int> a, G<float> *b) {}
"""
    found = parsed(text)
    assert found.kernels == ("a::inner", "b::c::inner", "k", "g")
    assert found.signature("k").line == 5
    assert types(text, "g") == ["G<int>", "G<float> *"]
    assert types(text, "b::c::inner") == ["double"]
    with pytest.raises(KeyError):
        found.signature("inner")


def test_templates():
    text = """
template <typename T, int N = 4, class U = T> __global__ void scale(T *x, const U *y, T a, int n) {}
template <> __global__ void scale<int>(int *x, const int *y, int a, int n) {}
template __global__ void scale<double>(double *, const double *, double, int);
namespace ns { template <unsigned B> __global__ void f(int *x) {} }
"""
    found = parsed(text)
    assert found.kernels == ("scale<T, N, U>", "ns::f<B>")
    assert found.plain == ()
    assert types(text, "scale<float>") == ["float *", "const float *", "float", "int"]
    assert types(text, "scale<unsigned int, 8, double>") == [
        *("unsigned int *", "const double *", "unsigned int", "int")
    ]
    assert found.signature("f<3>").name == "ns::f<3>"
    assert found.is_template("scale")
    for name in ("scale", "nothing", "nothing<int>"):
        with pytest.raises(KeyError):
            found.signature(name)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("#ifdef A", True),
        ("#ifndef A", False),
        ("#if defined(A) && !defined(B)", True),
        ("#if defined B || A > 4", False),
        ("#if A == 3 && (A + 1) * 2 >= 8UL", True),
        ("#if 0", False),
        ("#if 1 // always", True),
        ("#if 0x1FuL == 31 && 017 == 15 && 1'000 == 1000", True),
        ("#if UNKNOWN", False),
        ("#if !UNKNOWN", True),
        ("#ifdef __CUDACC__", True),
        ("#if __CUDA_ARCH__ >= 600", True),
        ("#ifdef _WIN32", False),
    ],
)
def test_conditions(condition, holds):
    branches = "typedef double real;\n#else\ntypedef float real;\n#endif"
    text = f"{condition}\n{branches}\n__global__ void k(real *x) {{}}"
    assert types(text, "k", "-DA=3") == ["double *" if holds else "float *"]


def test_conditions_in_conditions():
    text = """
#if 0
#if 1
__global__ void no1() {}
#else
__global__ void no2() {}
#endif
#elif A == 2
__global__ void yes() {}
#elif 1
__global__ void no3() {}
#else
__global__ void no4() {}
#endif
"""
    assert parsed(text, "-D", "A=2").kernels == ("yes",)


def test_declarations_that_only_the_compiler_knows():
    text = "#if __MINE__ > 700\n__global__ void a() {}\n#else\n__global__ void b() {}\n#endif"
    assert parsed(text).kernels == ("a", "b")


def test_macros():
    text = """
#define KERNEL(name, T) __global__ void name##_##T(T *x, \\
    int n)
#define real REAL
KERNEL(scale, float) {}
__global__ void k(real *x, SIZE n) {}
#undef real
__global__ void l(real *x) {}
#define loop loop *
__global__ void m(loop x) {}
"""
    options = ["-DREAL=double", "-DSIZE=unsigned long long"]
    assert types(text, "scale_float", *options) == ["float *", "int"]
    assert types(text, "k", *options) == ["double *", "unsigned long long"]
    assert types(text, "l", *options) == ["real *"]
    assert types(text, "m", *options) == ["loop *"]


def test_variables():
    text = """
__constant__ float coeffs[16] = {1, 2};
static __device__ int counter, other = 3, list[] = {1, 2}, grid[2 * (3 + 1)], *last;
__device__ __align__(16) double big;
__constant__ Body bodies[3];
__device__ float f(int a);
int host;
__global__ void k() { __shared__ float tile[3]; }
"""
    found = parsed(text).variables
    assert {name: v.element for name, v in found.items()} == {
        "coeffs": "float",
        "counter": "int",
        "other": "int",
        "list": "int",
        "grid": "int",
        "last": "int",
        "big": "double",
        "bodies": "Body",
    }


def test_headers():
    files = {"a.h": '#include "b.h"\n#include "a.h"\ntypedef real2 real;', "b.h": "typedef double real2;"}
    text = '#include <stdio.h>\n#include "a.h"\n\n__global__ void k(real *x) {}'
    found = parsed(text, include=files.get)
    assert [p.type for p in found.signature("k").parameters] == ["double *"]
    assert found.signature("k").line == 4


@pytest.mark.parametrize("declared", ["float &x", "const Body &b", "int &&x"])
def test_references_are_refused(declared):
    with pytest.raises(errors.CompileError, match=r"my.cu:1: kernel 'k': parameter '\w' is a reference"):
        one(declared)


@pytest.mark.parametrize(
    "text", ["__global__", "__global__ void k(", "__global__ void k(int", "{{{", "}", "#if", ")("]
)
def test_invalid_sources_are_left_to_the_compiler(text):
    found = parsed(text)
    assert set(found.kernels) <= {"k"}


def test_splitting_keeps_template_arguments_together():
    given = [token for _, token in preprocessor.tokens("a, b<c, d>, e(f, g)")]
    assert ["".join(t.text for t in part) for part in preprocessor.split(given)] == ["a", "b<c,d>", "e(f,g)"]


def test_too_deeply_nested_sources_are_refused():
    for text in ("namespace a {" * 3000, "\n".join(f"#define A{i} A{i + 1}" for i in range(3000)) + "\nA0"):
        with pytest.raises(errors.CompileError, match="nested too deep"):
            parsed(text)


def test_macros_that_grow_without_end():
    text = "\n".join(f"#define A{i} A{i + 1} A{i + 1}" for i in range(40)) + "\n__global__ void k() {}\nA0;"
    assert parsed(text).kernels == ("k",)


WORDS = r"""__global__ void k ( ) { } ; , < > [ ] * & = template typename T const float int struct namespace
extern "C" ## ... :: ' " /* */ // \ typedef using enum class __device__ __constant__ __launch_bounds__ 3 0x1
1'0 0x operator R"( )" """.split()  # noqa: SIM905
WORDS += ["\n", "\n#define F(x) x ## T\n", "\n#if ", "\n#else\n", "\n#endif\n", "\n#define k F(k)\n"]


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_any_text_is_read(words):
    text = "__global__ void f(int a) { } " + " ".join(words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = parsed(text)
    assert found.kernels[0] == "f"
    for name in found.kernels:
        try:
            assert found.signature(name).name
        except (KeyError, errors.CompileError):
            assert name != "f"
