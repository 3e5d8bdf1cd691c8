"""Sources that `pk.wrap` refuses: each message has the line, and says what to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit.kernels.wrapping import cuda_build, declarations, launches

# A source, and a part of its message.
REFUSED = {
    "nothing with C linkage": (
        "\nvoid scale(float *x, int n) {}",
        r'source\.cu:2: .*add extern "C" before \'void scale',
    ),
    "kernels alone": ("\n__global__ void scale(float *x) {}", r"use pk\.SourceModule"),
    "nothing": ("\nint x;", r'add extern "C" before those to wrap'),
    "overloads": (
        '\nextern "C" {\nvoid f(int a) {}\nvoid f(float a) {}\n}',
        r"source\.cu:4: 'f' is defined in line 3, too: C has no overloads",
    ),
    "template": ('\nextern "C" {\ntemplate <class T> void f(T *x) {}\n}', r"source\.cu:3: 'f' is a template"),
    "reference": ('\nextern "C" void f(int &x) {}', r"source\.cu:2: 'f': parameter 'x' .* is a reference"),
    "class": (
        '\nclass Box { int a; public: int b; };\nextern "C" void f(Box box) {}',
        r"source\.cu:3: 'f': parameter 'box' .* has a type that no dtype describes",
    ),
    "struct with functions": (
        '\nstruct Box { int a; int get() { return a; } };\nextern "C" void f(Box *box) {}',
        r"source\.cu:3: 'f': parameter 'box' .* has a type that no dtype describes",
    ),
    "struct with a pointer": (
        '\nstruct Box { int a; float *x; };\nextern "C" void f(Box *box) {}',
        r"struct Box: member 'x' is no number",
    ),
    "function pointer": ('\nextern "C" void f(int (*g)(int)) {}', r"parameter 'g' .* is a function pointer"),
    "stream": (
        '\nextern "C" void f(cudaStream_t s) {}',
        r"parameter 's' \(cudaStream_t s\) is a cudaStream_t",
    ),
    "pointer to pointers": (
        '\nextern "C" void f(float **x) {}',
        r"parameter 'x' .* is a pointer to pointers",
    ),
    "typedef of a pointer": (
        '\ntypedef float *Row;\nextern "C" void f(Row *rows) {}',
        r"parameter 'rows' .* is a pointer to pointers",
    ),
    "void pointer": ('\nextern "C" void f(void *x) {}', r"parameter 'x' .* is a pointer to void"),
    "variadic": (
        '\nextern "C" void f(int n, ...) {}',
        r"source\.cu:2: 'f' has a variable number of arguments",
    ),
    "result": ('\nextern "C" float *f(int n) { return nullptr; }', r"'f' returns a pointer, whose memory"),
    "struct as a result": (
        '\nstruct S { int a; };\nextern "C" S f(int n) { return {n}; }',
        r"source\.cu:3: 'f' returns S, which is no number",
    ),
    "launch in a macro": (
        '\n__global__ void k() {}\n#define GO(n) \\\n    k<<<n, 1>>>()\nextern "C" void f() { GO(1); }',
        r"source\.cu:4: a launch in a #define",
    ),
    "launch through a pointer": (
        '\n__global__ void k() {}\nextern "C" void f() {\n    void (*g)() = k;\n    g<<<1, 1>>>();\n}',
        r"source\.cu:5: 'g' is launched, and is no kernel .* through a function pointer",
    ),
    "not C++": ('\nextern "C" void f(int n) { n = ; }', r"source\.cu does not compile"),
    "tag of no parameter": (
        '\n// @out y[n]\nextern "C" void f(float *x, int n) {}',
        r"source\.cu:3: 'f' has a tag of 'y', which is no parameter",
    ),
    "tag of a const": (
        '\n// @out x[n]\nextern "C" void f(const float *x, int n) {}',
        r"parameter 'x' is tagged @out, and points to const",
    ),
    "size of no parameter": (
        '\n// @out x[m]\nextern "C" void f(float *x, int n) {}',
        r"the size 'm' names 'm', which is no integer parameter; these are: n",
    ),
    "size that is more": (
        '\n// @out x[g(n)]\nextern "C" void f(float *x, int n) {}',
        r"the size 'g\(n\)' is more than",
    ),
    "size that is none": (
        '\n// @out x[n +]\nextern "C" void f(float *x, int n) {}',
        r"'n \+' is no expression",
    ),
    "misspelt tag": (
        '\n// @outs x[n]\nextern "C" void f(float *x, int n) {}',
        r"source\.cu:2: @outs is no tag",
    ),
    "malformed tag": ('\n// @out [n]\nextern "C" void f(float *x, int n) {}', r"write '@out x\[n\]'"),
    "two outputs without a comma": (
        '\n// @out x[n] y[n]\nextern "C" void f(float *x, float *y, int n) {}',
        r"write '@out x\[n\]', with n elements, or '@out x\[n\], y\[m\]' for two",
    ),
    "malformed size": ('\n// @size x\nextern "C" void f(float *x, int n) {}', r"'@size n of a, b'"),
    "status with words": ('\n// @status int\nextern "C" int f() { return 0; }', r"@status has no arguments"),
    "tag at the end": (
        '\nextern "C" int f() { return 0; }\n// @status',
        r"source\.cu:3: @status is after the last",
    ),
    "name of an attribute": (
        '\nextern "C" int engine() { return 0; }',
        r"'engine' has the name of an attribute",
    ),
    "null character": ("\n\0", "null character"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sources_that_are_refused(engine, case):
    if "launch" in case and engine == "cuda":
        pytest.skip("nvcc compiles it")
    source, message = REFUSED[case]
    with pytest.raises(errors.CompileError, match=message):
        pk.wrap(source)


def test_files_that_are_refused(engine, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        pk.wrap(tmp_path / "none.cu")
    with pytest.raises(FileNotFoundError, match="a source has a newline"):
        pk.wrap("none.cu")
    with pytest.raises(IsADirectoryError, match=r"a folder, where a \.cu file is wanted"):
        pk.wrap(tmp_path)
    file = tmp_path / "x.cu"
    file.write_bytes(b"\xff\xfe\n")
    with pytest.raises(errors.CompileError, match=r"x\.cu is no text in UTF-8"):
        pk.wrap(file)
    file.write_text("// \n" * (1 << 20) + "//\n")
    with pytest.raises(errors.CompileError, match="more than 4 MiB"):
        pk.wrap(file)
    with pytest.raises(TypeError, match="takes a path or a source, not a int"):
        pk.wrap(3)


ONE = '\nextern "C" void scale(float *x, int n) { for (int i = 0; i < n; ++i) x[i] *= 2; }'


def test_arguments_that_are_refused(engine):
    with pytest.raises(errors.InvalidArgument, match=r"no function 'other' .* its functions: scale"):
        pk.wrap(ONE, functions=["other"])
    with pytest.raises(errors.InvalidArgument, match=r"out='other: x\[n\]' names no function of the source"):
        pk.wrap(ONE, out="other: x[n]")
    with pytest.raises(errors.CompileError, match="has a tag of 'y'"):
        pk.wrap(ONE, inout="scale: y[n]")
    with pytest.raises(TypeError, match="options is '-DN=3'; give a list"):
        pk.wrap(ONE, options="-DN=3")
    with pytest.raises(TypeError, match="out takes strings"):
        pk.wrap(ONE, out=[3])


def test_warnings(engine):
    with pytest.warns(RuntimeWarning, match=r"source\.cu:3: exit\(\) ends Python"):
        pk.wrap('\n#include <stdlib.h>\nextern "C" void f(int n) { if (n) exit(n); }').f(0)
    with pytest.warns(RuntimeWarning, match=r"source\.cu:3: 'main' is not wrapped"):
        library = pk.wrap('\nextern "C" int f() { return 1; }\nint main() { return f(); }')
    assert library.functions == ("f",)


def test_lines_of_messages(engine):
    """Lines are those of the source, after launches over several lines, too."""
    source = """
__global__ void k(float *x) { x[0] = 1; }
extern "C" void f(float *x) {
    k<<<1,
        1>>>
        (x);
    undeclared();
}
"""
    with pytest.raises(errors.CompileError, match=r"source\.cu[:(]7.*undeclared"):
        pk.wrap(source)


def test_no_compiler_for_the_cpu(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pk.engine("cpu"), pytest.raises(errors.CompileError, match=r"install g\+\+"):
        pk.wrap(ONE + "// of another compiler")


def test_no_nvcc(monkeypatch):
    monkeypatch.setenv("CUDACXX", "no-such-nvcc")
    with pytest.raises(errors.CompileError, match="CUDACXX is 'no-such-nvcc', which is no program"):
        cuda_build.nvcc()
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(cuda_build, "_SYSTEM", cuda_build.Path("/nowhere"))
    monkeypatch.setattr(cuda_build, "_places", lambda: iter(()))
    assert 'pip install "pycudakit[wrap]"' in cuda_build.why_not()


PIECES = [
    *(
        'extern "C"',
        "extern",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        "<<<",
        ">>>",
        ";",
        ",",
        "*",
        "&",
        "...",
    ),
    *(
        "void f",
        "void",
        "int n",
        "float *x",
        "struct S",
        "typedef",
        "template <class T>",
        "namespace a",
        "static",
    ),
    *(
        "__global__ void k",
        "const",
        "k<<<1, 2>>>(x)",
        "// @out x[n]\n",
        "// @size n of x\n",
        "\n#define A {\n",
    ),
    *(
        "\n#if 0\n",
        "\n#endif\n",
        '"text',
        "'",
        "/*",
        "*/",
        "operator",
        "using A = int",
        "enum E",
        "=",
        ":",
        "x",
        "\n",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_the_reader_ends_for_every_text(pieces):
    """A text is read, or refused by CompileError."""
    text = " ".join(pieces)
    try:
        source = declarations.read(text, "any.cu")
    except errors.CompileError:
        return
    for function in source.functions:
        assert function.name
        assert all(parameter.name for parameter in function.parameters)
    try:
        translated = launches.translated(text, "any.cu", source.declared, set())
    except errors.CompileError:
        return
    assert translated.count("\n") == text.count("\n")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["const float *", "double*", "int ", "unsigned long long ", "const char  * const "]
            )
        ),
        max_size=6,
    )
)
def test_parameters_that_are_read(kinds):
    parameters = [f"{kind}p{index}" for index, (kind,) in enumerate(kinds)]
    for opening, closing in (('extern "C" ', ""), ('extern "C" {\n', "\n}")):
        text = (
            f"{opening}__attribute__((noinline)) void f({', '.join(parameters)}) {{ if (1) {{}} }}{closing}"
        )
        (function,) = declarations.read(text, "any.cu").functions
        assert [one.name for one in function.parameters] == [f"p{index}" for index in range(len(kinds))]
