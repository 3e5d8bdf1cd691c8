"""SourceModule and Function: compilation, calls, errors, reprs and pickles."""

import pickle

import numpy as np
import pytest
from helpers.user_kernels import ADD, module, operands, python

import pycudakit as pk
from pycudakit import In, Out, SourceModule, errors

WHERE = """
__global__ void where(int *out, int width) {
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
    int z = threadIdx.z + blockIdx.z * blockDim.z;
    out[x + width * (y + blockDim.y * gridDim.y * z)] = x + 100 * y + 10000 * z;
}
"""


@pytest.fixture
def add(engine):
    return module(ADD).get_function("add")


@pytest.mark.smoke
def test_the_issues_example(add):
    a, b, c = operands()
    n = len(a)
    add(In(a), In(b), Out(c), np.int32(n), block=(256, 1, 1), grid=((n + 255) // 256, 1))
    np.testing.assert_array_equal(c, a + b)


# ---- Shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "grid", "shape"),
    [
        (8, 1, (1, 1, 8)),
        ((8,), (3,), (1, 1, 24)),
        ((4, 2), (2, 3), (1, 6, 8)),
        ([4, 2, 3], [2, 1, 2], (6, 2, 8)),
        ((np.int64(1), np.uint8(1), 1), (np.int32(5), 1, 1), (1, 1, 5)),
        ((1, 1, 1), (1, 1, 40), (40, 1, 1)),
    ],
)
def test_blocks_and_grids(engine, block, grid, shape):
    out = np.zeros(shape, np.int32)
    where = module(WHERE).get_function("where")
    where(out, shape[2], block=block, grid=grid)
    z, y, x = np.indices(shape)
    np.testing.assert_array_equal(out, x + 100 * y + 10000 * z)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, ValueError, "add: give block"),
        ({"block": None}, ValueError, "add: give block"),
        ({"block": ()}, ValueError, r"block is \(\); give up to three integers"),
        ({"block": (1, 1, 1, 1)}, ValueError, "up to three integers"),
        ({"block": "256"}, ValueError, "block is '256'"),
        ({"block": 1.5}, ValueError, "block is 1.5"),
        ({"block": (32.0, 1)}, TypeError, "give integers: use // where there is /"),
        ({"block": (32, 0)}, ValueError, r"block is \(32, 0\)"),
        ({"block": (-1,)}, ValueError, r"block is \(-1,\)"),
        ({"block": 2**70}, ValueError, "block is"),
        ({"block": (1025, 1, 1)}, errors.InvalidArgument, "add.*1025.*1024|add.*1024.*1025"),
        ({"block": (32, 64, 1)}, errors.InvalidArgument, "add.*2048.*1024"),
        ({"block": (1, 1, 65)}, errors.InvalidArgument, "add.*64.*65"),
        ({"block": 32, "grid": (1, 65536)}, errors.InvalidArgument, "add.*65535.*65536"),
        ({"block": 32, "grid": (1, 1, 70000)}, errors.InvalidArgument, "add.*65535.*70000"),
        ({"block": 32, "grid": (1.5, 1)}, TypeError, "grid is"),
        ({"block": 32, "grid": (0, 1)}, ValueError, "grid is"),
        ({"block": 32, "shared": -1}, ValueError, "shared is -1"),
        ({"block": 32, "shared": 1e3}, TypeError, "shared is 1000.0"),
        ({"block": 32, "shared": 2**30}, errors.InvalidArgument, "add.*shared=1073741824 bytes"),
        ({"block": 32, "stream": 3}, ValueError, "there are no streams"),
        ({"block": 32, "timeout": 0}, ValueError, "timeout is 0"),
        ({"block": 32, "timeout": "1"}, TypeError, "timeout is '1'; give seconds"),
        ({"block": 32, "timeout": float("nan")}, ValueError, "timeout is nan"),
        ({"block": 32, "timeout": 1, "isolate": False}, ValueError, "isolate=False"),
    ],
)
def test_launches_that_are_refused(add, given, error, words):
    a, b, c = operands(32)
    c[:] = -1
    with pytest.raises(error, match=words):
        add(a, b, c, 32, **given)
    assert (c == -1).all()


@pytest.mark.parametrize("size", [0, 48 << 10, 100 << 10])
def test_shared_memory(engine, size):
    text = """
__global__ void reverse(int *x, int n) {
    extern __shared__ int whole[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) whole[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = whole[n - 1 - i];
}"""
    x = np.arange(size // 4, dtype=np.int32)
    module(text).get_function("reverse")(x, len(x), block=128, shared=size)
    np.testing.assert_array_equal(x, np.arange(size // 4)[::-1])


def test_grid_for():
    assert pk.grid_for(1000, 256) == pk.grid_for((1000,), (256, 1, 1)) == (4, 1, 1)
    assert pk.grid_for((480, 640), (16, 8)) == (40, 60, 1)
    assert pk.grid_for((3, 480, 641), [16, 8, 2]) == (41, 60, 2)
    assert pk.grid_for(0, 256) == pk.grid_for((0, 5), 8) == pk.grid_for((), 8) == (1, 1, 1)
    assert pk.grid_for(np.int64(5), np.int32(2)) == (3, 1, 1)
    for shape, block in [((1, 2, 3, 4), 8), (-1, 8), (8, 0), (8, (1, 1, 1, 1))]:
        with pytest.raises(ValueError, match=r"shape is|block is"):
            pk.grid_for(shape, block)
    for shape, block in [(1.5, 8), ((1.5,), 8), (8, "8")]:
        with pytest.raises((TypeError, ValueError)):
            pk.grid_for(shape, block)


@pytest.mark.parametrize("n", [1, 31, 1000, 100_000])
def test_launch(engine, add, n):
    a, b, c = operands(n)
    add.launch(n, a, b, Out(c), n)
    np.testing.assert_array_equal(c, a + b)
    assert pk.last_call().engine == engine


def test_an_index_of_threads_that_wraps(engine):
    source = """
    __global__ void last(unsigned *out) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= 0x7ffffffe || i < -0x7ffffffe) out[unsigned(i) - 0x7ffffffeu] = threadIdx.x;
    }
    """
    out = np.zeros(4, np.uint32)
    module(source).get_function("last")(pk.InOut(out), block=1024, grid=2**21 + 1)
    np.testing.assert_array_equal(out, [1022, 1023, 0, 1])


def test_launch_of_nothing(add):
    a, b, c = operands(4)
    c[:] = 3
    assert add.launch(0, a, b, Out(c), 0) is None
    assert c.tolist() == [0] * 4, "an Out begins as zeros"
    with pytest.raises(ValueError, match="n is -1"):
        add.launch(-1, a, b, Out(c), 0)
    with pytest.raises(TypeError):
        add.launch(1.5, a, b, Out(c), 0)


# ---- Modules ----------------------------------------------------------------------------------------


def test_attributes_of_a_module(engine):
    text = ADD + WHERE + "__constant__ float weights[3];"
    found = module(text, name="two.cu")
    assert found.functions == ("add", "where")
    assert found.source == text
    assert repr(found) == "<SourceModule 'two.cu': add, where>"
    assert list(found.variables) == ["weights"]
    function = found.get_function("add")
    assert found.get_function("add") is function
    assert function.name == "add"
    assert function.module is found
    assert repr(function) == "<Function add(const float *a, const float *b, float *out, int n)>"
    assert [p.name for p in function.parameters] == ["a", "b", "out", "n"]
    assert function.max_threads_per_block == 1024
    assert function.shared_size_bytes == 0
    assert (function.num_regs > 0) == (engine == "cuda")


def test_unknown_kernel(engine):
    with pytest.raises(errors.InvalidArgument, match="has no kernel 'sub'; its kernels are 'add'"):
        module(ADD).get_function("sub")
    with pytest.raises(errors.InvalidArgument, match="'add'; none of its functions is __global__"):
        module("void add(float *x) {}").get_function("add")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"source": 3}, TypeError, "source must be a string, and is a int"),
        ({"source": b"text"}, TypeError, "source must be a string"),
        ({"source": "a\0b"}, ValueError, "null character"),
        ({"source": "\ud800"}, ValueError, "source cannot be encoded as UTF-8"),
        (
            {"source": ADD, "options": "-O3"},
            TypeError,
            r"options is '-O3'; give a list of strings: \['-O3'\]",
        ),
        ({"source": ADD, "options": [3]}, TypeError, "str"),
        ({"source": ADD, "include_dirs": "/usr"}, TypeError, "include_dirs is '/usr'"),
        ({"source": "__global__ void f(int &x) {}"}, errors.CompileError, "kernel.cu:1: .*reference"),
    ],
)
def test_other_objects_than_modules(engine, given, error, words):
    with pytest.raises(error, match=words):
        SourceModule(**given)


def test_a_compilers_log_has_the_users_lines(engine):
    text = "// one\n\n__global__ void f(int *x) {\n    x[0] = 1;\n    x[1] = nonsense;\n}\n"
    with pytest.raises(errors.CompileError) as caught:
        SourceModule(text, name="mine.cu")
    assert "nonsense" in str(caught.value)
    assert "mine.cu:5" in str(caught.value) or "mine.cu(5)" in str(caught.value)


def test_options_and_headers(engine, tmp_path):
    (tmp_path / "mine.h").write_text("typedef NUMBER number;\n#define PLUS 1\n")
    text = '#include "mine.h"\n__global__ void f(number *x) { x[0] = N + PLUS; }'
    for number, dtype in (("int", np.int32), ("double", np.float64)):
        made = SourceModule(text, [f"-DNUMBER={number}", "-DN=3"], [tmp_path])
        x = np.zeros(1, dtype)
        made.get_function("f")(x, block=1)
        assert x[0] == 4
    with pytest.raises(TypeError, match="parameter 'x'"):
        made.get_function("f")(np.zeros(1, np.int32), block=1)
    (tmp_path / "mine.h").write_text("typedef NUMBER number;\n#define PLUS 2\n")
    SourceModule(text, [f"-DNUMBER={number}", "-DN=3"], [tmp_path]).get_function("f")(x, block=1)
    assert x[0] == 5


def test_pycudas_keywords(engine, tmp_path):
    made = SourceModule(
        f"{ADD}// {tmp_path}", None, nvcc="nvcc", keep=True, code=None, cache_dir=str(tmp_path / "own")
    )
    assert made.functions == ("add",)
    assert len(list((tmp_path / "own" / "images").iterdir())) == 2
    with pytest.raises(errors.Unsupported, match=r"symbols=\{'weights': array\}"):
        made.get_global("weights")
    a, b, c = operands(64)
    function = made.get_function("add").prepare("PPPi")
    function.prepared_call((2, 1), (32, 1, 1), a, b, c, 64)
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(errors.Unsupported, match="texture"):
        function.prepare("P", texrefs=[1])


def test_templates(engine):
    text = """
template <typename T, int N> __global__ void scale(T *x, T a) { x[threadIdx.x] = x[threadIdx.x] * a + N; }
"""
    made = module(text, no_extern_c=True)
    assert made.functions == ("scale<T, N>",)
    for name, dtype in (("float", np.float32), ("unsigned char", np.uint8), ("double", np.float64)):
        x = np.arange(4, dtype=dtype)
        made.get_function(f"scale<{name}, 3>")(x, dtype(2), block=4)
        np.testing.assert_array_equal(x, np.arange(4) * 2 + 3)
    with pytest.raises(errors.InvalidArgument, match="'scale<T, N>': give a template its arguments"):
        made.get_function("scale")
    with pytest.raises(errors.CompileError):
        made.get_function("scale<nonsense, 3>")


def test_pickling(engine):
    found = module(ADD)
    again, function = pickle.loads(pickle.dumps((found, found.get_function("add"))))
    assert again.source == found.source
    assert function.module is again
    a, b, c = operands(64)
    function(a, b, Out(c), 64, block=64)
    np.testing.assert_array_equal(c, a + b)


def test_a_module_is_compiled_for_the_engine_of_each_call(both_engines):
    a, b, c = operands(64)
    for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
        with pk.engine(first):
            function = SourceModule(ADD).get_function("add")
        with pk.engine(second):
            function(a, b, Out(c), 64, block=64)
            assert pk.last_call().engine == second
        np.testing.assert_array_equal(c, a + b)


# ---- Without a compiler or an engine ----------------------------------------------------------------


def test_importing_does_not_import_kernels():
    done = python("import sys, pycudakit; print([m for m in sys.modules if 'kernels' in m])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    "name",
    [
        "function",
        "module",
        "running.argument_binding",
        "compiling.cache",
        "running.execute",
        "program",
        "kernel_templates",
    ],
)
def test_each_part_can_be_imported_first(name):
    done = python(f"import pycudakit.kernels.{name}, pycudakit as pk; print(pk.SourceModule.__name__)")
    assert (done.stdout, done.stderr) == ("SourceModule\n", "")


def test_without_a_compiler(tmp_path):
    code = f"""
import pycudakit as pk
with pk.engine("cpu"):
    try:
        pk.SourceModule({ADD!r})
    except pk.errors.CompileError as error:
        print(error)
"""
    done = python(code, CXX=str(tmp_path / "no-such-compiler"), PYCUDAKIT_CACHE_DIR=str(tmp_path))
    assert "no-such-compiler" in done.stdout
    assert done.stderr == ""
