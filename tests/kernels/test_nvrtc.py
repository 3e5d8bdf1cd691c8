"""Compilation by NVRTC, which needs no GPU."""

import re

import pytest
from helpers.threads import run_in_threads

from pycudakit import errors
from pycudakit.kernels.compiling import nvrtc
from pycudakit.kernels.compiling.extern_c import blanked, wrapped
from pycudakit.kernels.compiling.source import Signature, Source

ADD = """
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""


def source(text, *kernels, **given):
    usual = {"name": "kernels.cu", "options": (), "include_dirs": (), "no_extern_c": False, "debug": False}
    signatures = tuple(Signature(name, (), 1) for name in kernels)
    return Source(text=text, kernels=signatures, **{**usual, "arch": "sm_90", **given})


# ---- Without NVRTC ----------------------------------------------------------------------------------


def test_blanked_keeps_the_places_of_all_else():
    text = 'a /* { " */ b // { }\nc "}/*" d \'{\' R"(}\n{)" e'
    plain = blanked(text)
    assert len(plain) == len(text)
    assert plain.split() == ["a", "b", "c", "d", "e"]
    assert plain.count("\n") == text.count("\n")


def test_includes_are_outside_of_extern_c():
    text = '#include <a.h>\n#ifdef X\n  # include "b.h" /* a\nb */\n#endif\nvoid f() {\n#include "c.h"\n}\n//'
    text += " #include <d.h>\n"
    depth, depths, lines = 0, {}, {}
    line = None
    for row in wrapped(text, "k.cu").splitlines():
        number = re.match(r'#line (\d+) "k.cu"', row)
        if number:
            line = int(number[1])
            continue
        name = re.search(r"include\W+(\w)", row)
        if name:
            depths[name[1]], lines[name[1]] = depth, line
        else:
            depth += row.count("{") - row.count("}")
        line = None if line is None else line + 1
    assert depth == 0
    assert depths == {"a": 0, "b": 0, "c": 2, "d": 1}
    assert lines == {"a": 1, "b": 3, "c": 7, "d": 9}


def test_file_names_are_escaped():
    assert '#line 1 "a\\"b\\\\c"' in wrapped("", 'a"b\\c')


@pytest.mark.parametrize(
    ("options", "kept", "arch", "dropped"),
    [
        ((), [], None, []),
        (("-DN=3", "-lineinfo", "-use_fast_math"), ["-DN=3", "-lineinfo", "-use_fast_math"], None, []),
        (("-arch=sm_90",), [], "sm_90", []),
        (("--gpu-architecture", "compute_80"), [], "compute_80", []),
        (("-O3", "-O", "2", "--optimize=3"), [], None, ["-O3", "-O", "2", "--optimize=3"]),
        (("-Xcompiler", "-Wall", "-m64"), [], None, ["-Xcompiler", "-Wall", "-m64"]),
        (("--compiler-options=-Wall", "-DA"), ["-DA"], None, ["--compiler-options=-Wall"]),
        (("-gencode", "arch=compute_90,code=sm_90"), [], None, ["-gencode", "arch=compute_90,code=sm_90"]),
        (("--expt-relaxed-constexpr", "-std=c++11"), [], None, ["--expt-relaxed-constexpr", "-std=c++11"]),
        (("-std=c++20", "-std", "c++14"), ["-std=c++20", "-std=c++14"], None, []),
        (("-Xptxas", "-v", "--ptxas-options=-O1"), ["-Xptxas", "-v", "--ptxas-options=-O1"], None, []),
        (("-I", "here", "-Ithere"), ["-I", "here", "-Ithere"], None, []),
        (("-res-usage",), ["--ptxas-options=-v"], None, []),
        (("-arch",), [], "", []),
    ],
)
def test_options_as_nvcc_has_them(options, kept, arch, dropped):
    assert nvrtc.split_options(options) == (kept, arch, dropped)


def test_without_nvrtc_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["libnvrtc.so.nowhere"]))
    monkeypatch.setattr(nvrtc, "_opened", nvrtc._opened.__wrapped__)
    with pytest.raises(errors.CompileError, match=r'pip install "pycudakit\[cuda13\]"'):
        nvrtc.compile(source(ADD, "add"))


# ---- With it ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compile():
    try:
        nvrtc.version()
    except errors.CompileError as error:
        pytest.skip(str(error))
    return nvrtc.compile


@pytest.fixture
def ptx(compile):
    """Return a function that compiles to PTX, as text."""

    def make(text, *kernels, options=(), **given):
        compiled = compile(source(text, *kernels, options=(*options, "-arch=compute_90"), **given))
        assert compiled.data.endswith(b"\0")
        return compiled.data.decode(errors="replace")

    return make


@pytest.mark.smoke
def test_a_kernel_becomes_a_cubin(compile):
    compiled = compile(source(ADD, "add"))
    assert compiled.data[:4] == b"\x7fELF"
    assert compiled.symbols == {"add": "add"}
    assert b"\0add\0" in compiled.data
    assert compiled.log == ""


def test_names_in_cpp(compile):
    text = """
    template <class T, int N> __global__ void scale(T *x) { x[threadIdx.x] *= N; }
    namespace inner { __global__ void set(int *x) { *x = 1; } }
    __global__ void plain(int *x) { *x = 2; }
    extern "C" __global__ void c_name(int *x) { *x = 3; }
    """
    names = ["scale<float, 2>", "scale<double, 3>", "inner::set", "plain", "c_name"]
    compiled = compile(source(text, *names, no_extern_c=True))
    assert list(compiled.symbols) == names
    assert compiled.symbols["c_name"] == "c_name"
    assert "plain" in compiled.symbols["plain"] != "plain"
    assert len(set(compiled.symbols.values())) == len(names)
    for symbol in compiled.symbols.values():
        assert symbol.encode() in compiled.data


@pytest.mark.parametrize("no_extern_c", [False, True])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("__global__ void f(int *x) { *x = missing; }", 1),
        ("// one\n#include <stdio.h>\n#include <math.h>\n__global__ void f(int *x) {\n  *x = missing;\n}", 5),
        ("#if 0\n#include <nowhere.h>\n#endif\n__global__ void f(int *x) { *x = missing; }", 4),
        (
            "#if 0\n#if 1\n#include <a>\n#endif\n#else\n__global__ void f(int *x) { *x = missing; }\n#endif",
            6,
        ),
        ("#include <math.h> /* a\nb */\n__global__ void f(int *x) { *x = missing; }", 3),
        ("/* two\nlines */ __global__ void f(int *x) {\n\n *x = missing; }", 4),
    ],
)
def test_errors_have_the_users_lines(compile, text, line, no_extern_c):
    with pytest.raises(errors.CompileError) as caught:
        compile(source(text, "f", name="mine.cu", no_extern_c=no_extern_c))
    message = str(caught.value)
    assert message.startswith("mine.cu does not compile:\n")
    assert f'mine.cu({line}): error: identifier "missing" is undefined' in message


def test_unknown_template(compile):
    with pytest.raises(errors.CompileError, match="nothing"):
        compile(source(ADD, "nothing<float>", no_extern_c=True))


def test_warnings_are_in_the_log(compile):
    assert "unused" in compile(source("__global__ void f() { int unused = 3; }", "f")).log


def test_macros_do_not_change_our_headers(compile):
    text = '__global__ void f(T *x) { x[N] = min(N, 3); printf("%d", N); }'
    options = ("-DN=3", "-D", "T=float", "-DA", "--define-macro=i=1", "-Dx=y")
    compile(source(text, "f", options=options))


def test_macros_for_the_hosts_compiler_are_not_the_kernels(compile):
    text = "#ifdef A\n#error defined\n#endif\n__global__ void f() { }"
    compile(source(text, "f", options=("-Xcompiler", "-DA")))


def test_options(compile, ptx):
    text = "__global__ void f(int *x) { *x = N; }"
    assert ", 12345;" in ptx(text, "f", options=("-DN=12345",))
    compiled = compile(source(text, "f", options=("-DN=1", "-O3", "-Xcompiler", "-Wall")))
    assert compiled.log == "without effect on a GPU's code: -O3 -Xcompiler -Wall\n"
    with pytest.raises(errors.CompileError, match="-nonsense"):
        compile(source(text, "f", options=("-nonsense",)))


def test_products_and_sums_are_not_contracted(ptx):
    text = "__global__ void f(float *x) { x[0] = x[1] * x[2] + x[3]; }"
    assert "fma." not in ptx(text, "f")
    assert "fma." in ptx(text, "f", options=("-fmad=true",))
    assert "fma." in ptx(text, "f", options=("-use_fast_math",))


def test_debug_has_lines(ptx):
    assert ".loc" in ptx(ADD, "add", debug=True)
    assert ".loc" not in ptx(ADD, "add")


def test_functions_without_device(compile):
    compile(
        source("float half_of(float x) { return x / 2; }\n__global__ void f(float *x) { *x = half_of(*x); }")
    )


def test_directories_of_headers(compile, tmp_path):
    (tmp_path / "own.h").write_text("#define OWN 3\ntemplate <class T> __device__ T own(T x) { return x; }\n")
    text = '#include "own.h"\n__global__ void f(int *x) { *x = own(OWN); }'
    compile(source(text, "f", include_dirs=(str(tmp_path),)))
    compile(source(text, "f", options=("-I", str(tmp_path))))
    with pytest.raises(errors.CompileError, match=r'cannot open source file "own\.h"(?s:.*)include_dirs'):
        compile(source(text, "f"))


def test_short_names_of_types(compile):
    """Short type names, such as uint, are defined, as with nvcc; a source may define them again."""
    names = (
        "uint a = *x; ushort b = a; ulong c = b; u_char d = c; *x = d + u_int(c) + u_short(b) + u_long(a);"
    )
    compile(source(f"typedef unsigned int uint;\n__global__ void f(int *x) {{ {names} }}", "f"))


def test_a_header_of_cudas_that_is_missing(compile):
    with pytest.raises(errors.CompileError, match="pip install nvidia-curand"):
        compile(source("#include <curand_nowhere.h>\n"))


@pytest.mark.parametrize("arch", ["sm_90", "sm_80", "sm_90a"])
def test_architectures(compile, arch):
    assert compile(source(ADD, "add", arch=arch)).data[:4] == b"\x7fELF"


def test_newer_gpus_have_ptx(compile):
    newest = nvrtc.architectures()[-1]
    data = compile(source(ADD, "add", arch="sm_999")).data
    assert f".target sm_{newest}".encode() in data


@pytest.mark.parametrize(
    ("arch", "words"),
    [("sm_35", "does not compile for sm_35: it knows sm_"), ("native", "'native'"), ("", "arch is ''")],
)
def test_unknown_architectures(compile, arch, words):
    with pytest.raises(errors.CompileError, match=words):
        compile(source(ADD, "add", arch=arch))


# ---- The host's headers -----------------------------------------------------------------------------

HEADERS = {
    "stdio.h": 'printf("%d %s\\n", 1, "two")',
    "cstdio": 'std::printf("%f\\n", 1.0f)',
    "math.h": "x[0] = sin(M_PI) + INFINITY + (isnan(NAN) ? 1 : 0)",
    "cmath": "x[0] = sqrtf(2.0f)",
    "stdint.h": "x[0] = sizeof(uint8_t) + sizeof(int64_t) + UINT16_MAX + INT16_MAX",
    "cstdint": "x[0] = (uint32_t)-1",
    "stdlib.h": "free(malloc(8))",
    "string.h": "memset(x, 0, 4)",
    "limits.h": "x[0] = INT_MAX + LONG_MIN + CHAR_BIT",
    "float.h": "x[0] = FLT_MAX + DBL_EPSILON",
    "stddef.h": "size_t n = 1; x[n] = 0",
    "stdbool.h": "bool yes = true; x[0] = yes",
    "assert.h": "assert(x[0] == 1)",
    "cuda_fp16.h": "__half h = __float2half(x[0]); x[1] = __half2float(__hadd(h, h))",
    "cuda_runtime.h": "float4 v = make_float4(1, 2, 3, 4); x[0] = v.w",
    "cooperative_groups.h": "auto b = cooperative_groups::this_thread_block(); b.sync()",
    "curand_kernel.h": "curandState s; curand_init(1, 2, 3, &s); x[0] = curand_uniform(&s)",
    "cub/cub.cuh": "typedef cub::BlockReduce<float, 64> R; __shared__ R::TempStorage t; *x = R(t).Sum(x[1])",
}


@pytest.mark.parametrize("header", HEADERS)
def test_headers(compile, header):
    text = f"#include <{header}>\n__global__ void f(float *x) {{ {HEADERS[header]}; }}"
    try:
        compiled = compile(source(text, "f"))
    except errors.CompileError as error:
        if re.search(rf'cannot open source file "{header}"|CUB is not installed', str(error)):
            pytest.skip(f"{header} is not installed here")
        raise
    assert not re.search("error|warning", compiled.log)


def test_cudas_own_headers_may_be_missing(compile, monkeypatch):
    monkeypatch.setattr(nvrtc, "include_dirs", lambda: ())
    text = "#include <cuda_runtime.h>\n#include <cuda.h>\n#include <device_launch_parameters.h>\n"
    compile(source(text + "__global__ void f(float4 *x) { x[threadIdx.x] = make_float4(1, 2, 3, 4); }", "f"))
    with pytest.raises(errors.CompileError, match=r"CUDA's headers are in: nowhere.*nvidia-cuda-runtime"):
        compile(source("#include <cuda_fp16.h>\n"))


def test_the_hosts_numbers(compile):
    """The compiler checks the values by static assertions."""
    facts = [
        *("sizeof(int8_t) == 1", "sizeof(uint16_t) == 2", "sizeof(int32_t) == 4", "sizeof(uint64_t) == 8"),
        *(
            "INT8_MIN == -128",
            "UINT16_MAX == 65535",
            "INT32_MAX == 2147483647",
            "INT_MIN < 0",
            "INT64_MIN < 0",
        ),
        *("UINT64_MAX == 18446744073709551615ull", "LONG_MAX == INT64_MAX", "CHAR_BIT == 8", "SIZE_MAX > 0"),
        *("FLT_EPSILON == 1.0f / 8388608", "DBL_EPSILON == 1.0 / 4503599627370496", "M_PI > 3.14159265"),
        *("INFINITY > FLT_MAX", "NAN != NAN", "M_SQRT2 * M_SQRT2 > 1.999999", "int64_t(-1) < 0"),
    ]
    text = "".join(f'static_assert({fact}, "{fact}");\n' for fact in facts)
    assert compile(source(text)).log == ""
    with pytest.raises(errors.CompileError, match="INT_MAX == 3"):
        compile(source('static_assert(INT_MAX == 3, "INT_MAX == 3");'))


@pytest.mark.parametrize("standard", ["c++14", "c++17", "c++20"])
def test_only_modules_that_print_carry_it(compile, standard):
    symbol = b"_ZN9pycudakit7printedIvEE"  # the name in csrc/cuda/kernels/device_printf.h
    options = (f"-std={standard}",)
    assert symbol not in compile(source(ADD, "add", options=options)).data
    text = '__global__ void f(char *c, long n, bool b) { printf("%s %p %ld %d %c", c, c, n, b, c[0]); }'
    assert symbol in compile(source(text, "f", options=options)).data


def test_the_fingerprint_names_the_compiler(compile):
    assert nvrtc.fingerprint() == nvrtc.fingerprint()
    assert nvrtc.fingerprint().startswith("nvrtc {}.{} ".format(*nvrtc.version()))


def test_many_threads_compile_at_once(compile):
    made = {}

    def work(i):
        made[i] = compile(source(f"__global__ void f{i}(int *x) {{ *x = {i}; }}", f"f{i}"))

    run_in_threads(work, range(8))
    assert {i: compiled.symbols for i, compiled in made.items()} == {i: {f"f{i}": f"f{i}"} for i in range(8)}
