"""The reader of wrapped sources, against sources that are generated, and sources that are damaged."""

import ast
import operator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pycudakit import errors
from pycudakit.kernels.compiling import cuda_to_cpp, inline_ptx
from pycudakit.kernels.compiling.source import Signature, Source
from pycudakit.kernels.wrapping import declarations, launches, tags
from pycudakit.kernels.wrapping.headers import UserHeaders

# ---- Generated sources, with known declarations -------------------------------------------------------

TYPES = [
    "int",
    "float *",
    "const double *",
    "unsigned long long",
    "const char * const",
    "size_t",
    "T3",
    "U *",
]
NOISE = [
    "/* void hidden(int n) {} */",
    '// extern "C" void hidden(int n) {',
    'static const char *text = "extern \\"C\\" void hidden(int n) { k<<<1, 1>>>(); }";',
    'static const char *raw = R"(extern "C" void hidden() {})";',
    "#define HIDDEN(name) void name(int n) {}",
    '#if 0\nextern "C" void hidden(int n) {}\n#endif',
    "template <class V, int n = (3 > 2)> struct Box { V values[n]; void method(int m) { if (m) {} } };",
    "namespace inner { static int helper(int a) { return a << 2; } }",
    "enum Kind { FIRST = 1 << 3, SECOND };",
    "class Counter { public: Counter() : n(0) {} ~Counter() {} private: int n; };",
    "__device__ __forceinline__ int device_helper(int a) { return a; }",
    "static void with_lambda() { auto f = [](int a) { return a + 1; }; (void)f(1); }",
    "struct Pair { int first, second; } pair_of_numbers = {1, 2};",
    "int numbers[] = {1, 2, 3}, more[2][2] = {{1, 2}, {3, 4}};",
    "",
]
FRAMES = [
    'extern "C" {0}',
    'extern "C" {{\n{0}\n}}',
    'namespace deep {{ namespace deeper {{\nextern "C" {0}\n}} }}',
    '#ifdef __cplusplus\nextern "C" {{\n#endif\n{0}\n#ifdef __cplusplus\n}}\n#endif',
    '#define API extern "C" __attribute__((visibility("default")))\nAPI {0}\n#undef API',
]


@st.composite
def functions(draw, name):
    types = draw(st.lists(st.sampled_from(TYPES), max_size=5))
    parameters = [f"{kind} p{index}" for index, kind in enumerate(types)]
    tag = draw(st.sampled_from(["", "// @size none\n", "/** Computes something. */\n"]))
    body = draw(st.sampled_from(["{}", "{ if (1) { k<<<1, 2>>>(); } }", '{ const char *s = "}"; (void)s; }']))
    result = draw(st.sampled_from(["void", "int", "const char *", "cudaError_t"]))
    text = f"{result} {name}({', '.join(parameters)}) {body}"
    return tag + draw(st.sampled_from(FRAMES)).format(text), [one.split()[-1] for one in parameters]


@st.composite
def sources(draw):
    count = draw(st.integers(1, 4))
    drawn = [draw(functions(f"f{index}")) for index in range(count)]
    parts = ["typedef double T3; using U = float;\n__global__ void k() {}"]
    for text, _ in drawn:
        parts += [draw(st.sampled_from(NOISE)), text]
    parts.append(draw(st.sampled_from(NOISE)))
    return "\n".join(parts), {f"f{index}": names for index, (_, names) in enumerate(drawn)}


@given(sources())
def test_functions_of_generated_sources(drawn):
    text, expected = drawn
    source = declarations.read(text, "any.cu")
    found = {one.name: [parameter.name for parameter in one.parameters] for one in source.functions}
    assert found == expected
    assert source.declared.kernels == ("k",)
    for one in source.functions:
        line = text.split("\n")[one.line - 1]
        assert f" {one.name}(" in line
    translated = launches.translated(text, "any.cu", source.declared, set())
    assert translated.count("pk_launch<") == translated.count('("k", 1, 2)') == text.count("{ if (1) { k<<<")
    assert translated.count("\n") == text.count("\n")


# ---- Damaged sources: they are read, or refused by CompileError -----------------------------------------

WHOLE = """\
#include <cuda_runtime.h>
#include "other.h"
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) return e; } while (0)
#define SCALE(name, T)                                   \\
    extern "C" void name(T *x, T by, int n) { scaled<T>(x, by, n); }
template <class T> __global__ void scale(T *x, T by, int n) {
    extern __shared__ int part[];
    __shared__ T tile[16][17], *rows;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(part[0]) : "r"(n) : "memory");
    if (threadIdx.x < n) x[threadIdx.x] *= by; /* at last */
}
template <class T> static void scaled(T *x, T by, int n) {
    scale<T><<<dim3(1, 2), 256, n * sizeof(T), 0>>>(x, by, n); // "one"
}
SCALE(scale_floats, float)
namespace a { struct Line { float slope, offset[3]; double4 more; }; }
using Line = a::Line;
extern "C" {
// @out y[rows * (cols + 1)], z[2]
// @size rows of x
// @status
cudaError_t evaluated(const float *__restrict__ x, float *y, double z[2], Line line, int rows,
                      unsigned cols) {
    CHECK(cudaGetLastError());
    return cudaSuccess;
}
const char *title(void) { return R"x(a" )x" "b\\"c"; }
}
"""
PIECES = [
    *(
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "<<<",
        ">>>",
        ",",
        ";",
        "*",
        "&",
        "#",
        "\\\n",
        '"',
        "'",
        "/*",
        "*/",
        "//",
    ),
    *(
        'extern "C"',
        "template <",
        "struct",
        "__shared__ int",
        "asm(",
        "@out",
        "@size 9 of",
        "\n#if 1 +\n",
        "\n#endif\n",
    ),
    *(
        "\n#else\n",
        "operator()",
        'R"(',
        "\0",
        "é",
        "\ufeff",
        "...",
        "[",
        "]",
        "=",
        "::",
        "\n#define A(x) x##x\n",
        "0x",
    ),
]
EDITS = st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(["", *PIECES]))


def damaged(text, edits):
    """Replace pieces of a text."""
    for place, length, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    return text


@given(st.lists(EDITS, min_size=1, max_size=6))
def test_damaged_sources(edits):
    text = damaged(WHOLE, edits)
    try:
        source = declarations.read(text, "any.cu")
        translated = launches.translated(text, "any.cu", source.declared, {"scale"})
    except errors.CompileError:
        return
    assert translated.count("\n") == text.count("\n")
    for translate in (lambda text: cuda_to_cpp.translated(text, checked=False), inline_ptx.translated):
        assert translate(text).count("\n") == text.count("\n")
    one = Source(
        text=text, name="any.cu", options=(), include_dirs=(), no_extern_c=True, debug=False, arch="",
        kernels=tuple(Signature(name, (), 0) for name in source.declared.kernels),
    )  # fmt: skip
    assert cuda_to_cpp.kernels_with_barriers(one) <= set(source.declared.kernels)


@given(st.lists(EDITS, min_size=1, max_size=6), st.lists(EDITS, max_size=3))
def test_damaged_headers(tmp_path_factory, edits, others):
    """The source and the copies include existing headers; each line is where it was."""
    folder = tmp_path_factory.mktemp("headers")
    main = damaged('#include "a.cuh"\n#include <b.cuh>\n' + WHOLE, others)
    texts = {
        "a.cuh": damaged('#pragma once\n#include "b.cuh"\n#include "a.cuh"\n' + WHOLE, edits),
        "b.cuh": damaged('#include "sub/c.cuh"\n', others),
        "sub/c.cuh": '#include "../a.cuh"\n#include "none.cuh"\n',
    }
    (folder / "sub").mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    headers = UserHeaders(main, [folder])
    copies = headers.copies(lambda text, _: text.replace("<<<", "((("))
    assert copies.source(main).count("\n") == main.count("\n")
    written = dict(copies.written())
    assert len(written) == len(copies.files)
    for path, file in copies.files.items():
        assert written[file].count("\n") == headers.headers[path].text.count("\n") + 1
        assert "<<<" not in written[file]


# ---- Sizes -----------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.sampled_from(["n", "m"]), st.integers(0, 99).map(str))
SIZES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=6,
)
C = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def in_c(node, values):
    """Evaluate an expression as C does; a quotient of negative numbers is left out, which a size has not."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        return -in_c(node.operand, values)
    left, right = in_c(node.left, values), in_c(node.right, values)
    if isinstance(node.op, ast.Div):
        assume(left >= 0 and right >= 0)
        return left // right
    return C[type(node.op)](left, right)


@given(SIZES, st.integers(-50, 50), st.integers(-50, 50))
def test_sizes(size, n, m):
    expression = tags.size_in_python(size, ["n", "m"], "any.cu:1")
    count = tags.size_function(expression, ["n", "m"])
    try:
        expected = in_c(ast.parse(size, mode="eval").body, {"n": n, "m": m})
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="divides by zero"):
            count({"n": n, "m": m})
        return
    assert count({"n": n, "m": m}) == expected


@given(st.text("nm 0129+-*/()[],.'\"{}:<>=&|!~%^\\\n\0xe_", max_size=30))
def test_texts_as_sizes(text):
    try:
        expression = tags.size_in_python(text, ["n", "m"], "any.cu:1")
    except errors.CompileError:
        return
    tags.size_function(expression, ["n", "m"])
