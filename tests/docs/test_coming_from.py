"""Every row of docs/coming-from-gpuarray.md is right, and docs/coming-from-pytorch.md quotes its example."""

import doctest
import importlib.util
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pycudakit as pk

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "coming-from-gpuarray.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="docs/ is not beside the tests")


def code_of(cell):
    return cell.strip().removeprefix("`").removesuffix("`")


def rows():
    """Return for each row its section, the line with pycudakit, its value, and the line with CuPy."""
    found, section = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith(("| gpuarray |", "| --- |")):
            _, _, here, gives, cupy, _ = line.split("|")
            same = cupy.strip() == "the same"
            found.append((section, *map(code_of, (here, gives, here if same else cupy))))
    return found


@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "c++")), reason="needs a C++ compiler")
def test_the_lines_give_the_stated_results(engine):
    text = "".join(f">>> {here}\n{gives}\n" for _, here, gives, _ in rows())
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    printed = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=printed.append)
    assert result.attempted > 50
    assert not result.failed, "".join(printed)


def value_of(line, names):
    """Run a line; return its value if it is an expression."""
    try:
        return eval(line, names)
    except SyntaxError:
        exec(line, names)
        return None


def same(got, want, bring):
    if isinstance(want, (tuple, list)):
        return len(got) == len(want) and all(same(*pair, bring) for pair in zip(got, want, strict=True))
    if want is None or not isinstance(want, (np.ndarray, np.generic)):
        return True
    return np.allclose(bring(got), want, rtol=1e-12)


def test_the_lines_with_cupy_give_the_same(engine):
    """Without CuPy, NumPy replaces its functions, but not its kernels."""
    has_cupy = engine == "cuda" and importlib.util.find_spec("cupy") is not None
    if has_cupy:
        import cupy
    else:
        cupy = SimpleNamespace(**vars(np), asnumpy=np.asarray)
    numpys, cupys = {}, {"cp": cupy, "np": np, "pk": pk}
    compared = 0
    for section, here, _, line in rows():
        if section == "Kernels" and not has_cupy:
            continue
        if not line.startswith("import "):
            got = value_of(line, cupys)
            want = value_of(here, numpys)
            assert same(got, want, cupy.asnumpy), f"{line}: {got!r} is not {want!r}"
            compared += want is not None
        else:
            exec(here, numpys)
    assert compared > 35


@pytest.mark.parametrize(
    ("name", "sign", "count"), [("torch_operator", "custom_op", 2), ("custom_tensor", "__array_ufunc__", 1)]
)
def test_shown_code_is_of_the_examples(name, sign, count):
    """Quotations are in the order of the file, without docstrings and linters' comments."""
    example = DOCS.parent / "examples" / f"{name}.py"
    if not example.is_file():
        pytest.skip("examples/ is not beside the tests")
    page = (DOCS / "coming-from-pytorch.md").read_text(encoding="utf-8")
    shown = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if sign in block]
    assert len(shown) == count
    lines = iter(line.split("  # noqa")[0] for line in example.read_text(encoding="utf-8").splitlines())
    missing = [line for block in shown for line in block.splitlines() if line and line not in lines]
    assert not missing
