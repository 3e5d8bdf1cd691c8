"""The display of IPython and Jupyter: tables, `%%cuda`, and tracebacks without internal frames."""

import pickle
import re

import numpy as np
import pytest

import pycudakit as pk

CELL = """
__global__ void twice(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}
__global__ void add(const float *x, const float *y, float *sum) {
    sum[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x];
}
"""


def cells(page):
    return [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]


def test_a_profile(engine):
    with pk.profile() as profile:
        pk.sqrt(np.ones(100_000))
        pk.cumsum(np.ones(100_000))
    head, *rows, total = cells(profile._repr_html_())
    assert head[:3] == ["function", "engine", "time"]
    assert [row[:2] for row in rows] == [["sqrt", engine], ["cumsum", engine]]
    assert all(re.fullmatch(r"[0-9.]+ (ns|us|ms|s)", row[2]) for row in [*rows, total])
    assert total[0] == "2 calls"
    assert [line.split()[0] for line in str(profile).splitlines()] == ["function", "sqrt", "cumsum", "2"]


def test_the_last_call(engine):
    pk.sqrt(np.ones(100_000))
    shown = dict(cells(pk.last_call()._repr_html_()))
    assert (shown["function"], shown["engine"]) == ("sqrt", engine)
    assert re.fullmatch(r"[0-9.]+ (ns|us|ms|s)", shown["time"])
    assert "<svg" not in pk.last_call()._repr_html_()


def test_passes_of_a_fused_function(engine):
    pk.fuse(lambda x: np.sqrt(x) / np.sum(x))(np.ones(100_000))
    shown = dict(cells(pk.last_call()._repr_html_()))
    assert {"pass 1", "pass 2"} <= shown.keys()


def test_the_engines():
    found = pk.engines()
    rows = cells(found._repr_html_())
    assert [row[0] for row in rows] == ["engine", "cuda", "cpu", "numpy"]
    assert rows[-1] == ["numpy", "yes", f"NumPy {np.__version__}"]
    assert found == dict(found)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.fixture
def shell():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "pycudakit")
    return shell


class Shell:
    """The part of IPython's shell that the extension uses."""

    def __init__(self):
        self.names, self.magics = {}, {}

    def push(self, names):
        self.names.update(names)

    def register_magic_function(self, function, magic_kind, magic_name):
        self.magics[magic_kind, magic_name] = function


def test_cells_of_cuda(engine):
    notebook = Shell()
    pk.load_ipython_extension(notebook)
    run = notebook.magics["cell", "cuda"]
    run("-DFACTOR=3", CELL)
    assert notebook.names.keys() == {"twice", "add"}
    x = np.arange(5, dtype=np.float32)
    notebook.names["twice"](x, 5, block=32)
    assert x.tolist() == [0, 3, 6, 9, 12]
    with pytest.raises(pk.errors.InvalidArgument, match="no __global__ function, or only templates"):
        run("", "template <class T> __global__ void fill(T *x) { x[0] = 1; }")
    assert notebook.names.keys() == {"twice", "add"}


def test_cells_of_cuda_in_ipython(engine, shell):
    done = shell.run_cell("%%cuda -DFACTOR=2\n" + CELL)
    assert done.success
    shell.run_cell("import numpy as np\nx = np.ones(4, np.float32)\ntwice(x, 4, block=4)")
    assert shell.user_ns["x"].tolist() == [2.0] * 4


def test_errors_of_cells_have_the_cells_lines(engine, shell, capsys):
    broken = "%%cuda\n__global__ void broken(float *x) {\n    x[0] = nonsense;\n}\n"
    assert not shell.run_cell(broken).success
    printed = "".join(capsys.readouterr())
    assert printed.lstrip().startswith("pycudakit.errors.CompileError: cell.cu does not compile")
    assert re.search(r"cell\.cu[:(]3\b.*nonsense", printed)
    assert "run_cell_magic" not in printed


def test_ipython_prints_plans_and_profiles_as_text(engine, shell):
    x = np.ones(100_000)
    with pk.profile() as profile:
        pk.sqrt(x)
    for value in profile, pk.fuse(lambda x: np.sqrt(x) + 1).explain(x):
        assert shell.display_formatter.format(value)[0]["text/plain"] == str(value)


def raise_compile_error():
    pk.SourceModule("__global__ void broken(float *x) { x[0] = nonsense; }").get_function("broken")


def test_a_compile_error_in_ipython_shows_no_internal_frames(engine):
    with pytest.raises(pk.errors.CompileError) as caught:
        raise_compile_error()
    shown = "\n".join(caught.value._render_traceback_())
    assert "in raise_compile_error" in shown
    assert "SourceModule(" in shown
    assert "nonsense" in shown
    assert f"pycudakit.errors.CompileError: {str(caught.value).splitlines()[0]}" in shown
    assert "host_compiler.py" not in shown
    assert "module.py" not in shown
