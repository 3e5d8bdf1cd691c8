"""Every module, file and folder that a string names exists.

If a module moves, Python, mypy and import-linter find the `import` statements that refer to it. They do not
see its name in strings: a table of lazy imports, a comparison with `__module__`, a list in CMakeLists.txt, in
pyproject.toml or in .ci/run. Some of these fail in a rare call only, and some comparisons are just false from
then on. Files that do not exist beside the tests, such as .ci/run in an sdist, are skipped.
"""

import ast
import functools
import importlib
import itertools
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import pycudakit as pk

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"pycudakit", *(each.name for each in pkgutil.walk_packages(pk.__path__, "pycudakit."))}
PACKAGES = {name.rpartition(".")[0] for name in MODULES} - {""}
# A dotted name in lower case, which may be the name of a module or a part of one.
DOTTED = re.compile(r"(_?[a-z]\w*|)(\._?[a-z]\w*)*\.?")
# The first parts of the dotted names of other projects.
OTHERS = {
    *sys.stdlib_module_names,
    *("numpy", "scipy", "dask", "torch", "numba", "pycuda", "cuda", "cupy", "nvidia", "tqdm"),
}
FILES = re.compile(
    r"[\w.-]*\.(cpp|cuh?|d|dylib|h|in|json|new|py|s|so|toml|txt|typed|vect)(\.\d+|\.in)?|(kernels|wrapped|np)\.|result\.value|\.cuda_device"
)  # names and extensions of files, and the code that pycudakit wrap writes


# ---- Strings in the sources of the package -------------------------------------------------------------


@functools.cache
def sources():
    """Return the path and the syntax tree of each source file of the package."""
    return [
        (path.relative_to(folder.parent).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for folder in map(Path, pk.__path__)
        for path in sorted(folder.rglob("*.py"))
    ]


def strings(tree):
    """Yield each string except docstrings: its line, its text, whether an f-string has a value before it."""
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    if isinstance(tree, ast.JoinedStr):
        for before, part in itertools.pairwise([None, *tree.values]):
            if isinstance(part, ast.Constant):
                yield part.lineno, part.value, before is not None
            else:
                yield from strings(part.value)  # without the format specification
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.lineno, tree.value, False
    for child in ast.iter_child_nodes(tree):
        yield from strings(child)


def looked_up(name):
    """Return the module, or the attribute of a module, that a dotted name refers to."""
    known, rest = name, []
    while known not in MODULES:
        known, _, last = known.rpartition(".")
        rest.insert(0, last)
        if not known:
            raise AttributeError(name)
    found = importlib.import_module(known)
    for part in rest:
        found = getattr(found, part)
    return found


@functools.cache
def exists(name):
    try:
        looked_up(name)
    except AttributeError:
        return False
    return True


def is_part_of_a_module(text):
    """Return True if a dotted name is a part of a module's name, or a public name of the package."""
    part = f".{text.strip('.')}."
    return any(part in f".{name}." for name in MODULES) or exists(f"pycudakit{part}".rstrip("."))


@pytest.mark.thorough
def test_dotted_names_in_strings_are_of_modules():
    wrong = []
    for path, tree in sources():
        for line, text, is_behind in strings(tree):
            if "." not in text or not text.strip(".") or not DOTTED.fullmatch(text) or FILES.fullmatch(text):
                continue
            if text.partition(".")[0] in OTHERS and not is_behind:
                continue
            if text.startswith("pycudakit."):
                is_right = exists(text.rstrip("."))
            else:
                is_right = is_part_of_a_module(text)
            if not is_right:
                wrong.append(f"{path}:{line}: {text!r}")
    assert not wrong, "no module has these names, nor has one such an attribute"


def test_the_package_is_searched():
    found = {text for _, tree in sources() for _, text, _ in strings(tree)}
    assert {"pycudakit.linalg", ".image"} <= found  # the code distinguishes functions by these
    assert not is_part_of_a_module("_no_such_family.scan")
    assert not is_part_of_a_module(".no_such_module")
    assert not exists("pycudakit.linalg.no_such_function")


# ---- Tables at run time ------------------------------------------------------------------------------------


@functools.cache
def imported():
    """Return the modules of the package, without those whose dependencies are not installed."""
    found = []
    for name in sorted(MODULES):
        try:
            found.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            if str(error.name).startswith("pycudakit"):
                raise
    return found


def texts_in(value, depth=3):
    """Yield the strings in a nested value."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict):
        yield from texts_in([*value.items()], depth)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from texts_in(part, depth - 1)


def own_values(module):
    return [(name, value) for name, value in vars(module).items() if not name.startswith("__")]


def test_every_module_is_imported():
    assert len(imported()) > 150


def test_modules_in_values_exist():
    wrong = set()
    for module in imported():
        for name, value in own_values(module):
            for text in texts_in(value):
                if re.fullmatch(r"pycudakit(\.\w+)+\.?", text) and not exists(text.rstrip(".")):
                    wrong.add(f"{module.__name__}.{name}: {text!r}")
    assert not wrong


def pairs_of(table):
    """Return the (module, names) pairs of a table: {module: "name name"} or {key: (module, name)}."""
    if not isinstance(table, dict) or len(table) < 2:
        return []
    if not all(re.fullmatch(r"[\w. ]*", text) for text in texts_in(table)):
        return []
    if all(isinstance(each, str) for pair in table.items() for each in pair):
        return [(module, names.split()) for module, names in table.items()]
    if all(isinstance(each, tuple) and len(each) == 2 for each in table.values()):
        return [(module, [name]) for module, name in table.values() if isinstance(name, str)]
    return []


def tables_of(module):
    """Yield the rows of a module's tables; all tables whose rows are pairs are merged."""
    pairs = []
    for name, value in own_values(module):
        rows = pairs_of(value)
        if rows and isinstance(next(iter(value.values())), tuple):
            pairs += rows
        elif rows:
            yield name, rows
    yield "pairs", pairs


def test_tables_of_modules_and_names():
    """If half of a table's rows name modules of the package, all of them must."""
    wrong, tables = [], set()
    for module in imported():
        for title, rows in tables_of(module):
            for package in sorted(PACKAGES) if rows else ():
                known = [f"{package}.{each}" in MODULES for each, _ in rows]
                if 2 * sum(known) < len(known):
                    continue
                tables.add(title)
                wrong += [
                    f"{module.__name__}.{title}: {package}.{each}: {name}"
                    for each, names in rows
                    for name in names
                    if not exists(f"{package}.{each}.{name}")
                ]
    assert not wrong
    assert len(tables) >= 4


def test_names_that_are_imported_when_they_are_needed():
    """Lazy names (PEP 562): each name of a table of `attach`, and each name in a package's `__dir__`."""
    for package in sorted(PACKAGES):
        shown = importlib.import_module(package)
        for name in {*dir(shown), *getattr(shown, "__all__", ())}:
            getattr(shown, name)


# ---- Calls with the names of a module and a function, and calls that return modules ---------------------


def _first_strings(call):
    """Return a call's first two arguments if they are strings; for an f-string, its end."""
    if len(call.args) < 2 or not isinstance(call.args[1], ast.Constant):
        return None
    given, name = call.args[0], call.args[1].value
    parts = given.values if isinstance(given, ast.JoinedStr) else [given]
    text = parts[-1].value if isinstance(parts[-1], ast.Constant) else None
    if isinstance(text, str) and isinstance(name, str) and name.isidentifier() and DOTTED.fullmatch(text):
        return text, name
    return None


def test_calls_with_a_module_and_a_name():
    """Such as `lazy_function("pycudakit.fusing.single_call", "call")`."""
    wrong, count = [], 0
    for path, tree in sources():
        for node in ast.walk(tree):
            given = _first_strings(node) if isinstance(node, ast.Call) else None
            if given is None or not given[0].strip("."):
                continue
            text, name = given
            fitting = [each for each in MODULES if f".{each}".endswith(f".{text.strip('.')}")]
            if "." in text and fitting:
                count += 1
                if not any(exists(f"{module}.{name}") for module in fitting):
                    wrong.append(f"{path}:{node.lineno}: {text}, {name}")
    assert not wrong
    assert count > 5


def _importers(tree):
    """Yield functions that import a module named by their argument: name, package, default."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or not function.args.args:
            continue
        for node in ast.walk(function):
            if not (isinstance(node, ast.JoinedStr) and len(node.values) == 2):
                continue
            first, second = node.values
            if not (isinstance(first, ast.Constant) and isinstance(second, ast.FormattedValue)):
                continue
            is_argument = getattr(second.value, "id", "") == function.args.args[0].arg
            if is_argument and first.value.rstrip(".") in MODULES:
                default = getattr(next(iter(function.args.defaults), None), "value", None)
                yield function.name, first.value, default


def _module_of(node, importers):
    """Return the name of the module that a call returns, or None if unknown."""
    if not isinstance(node, ast.Call):
        return None
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    if name == "import_module":
        return given if isinstance(given, str) and given.startswith("pycudakit.") else None
    package, default = importers.get(name, (None, None))
    last = given or (None if node.args else default)
    return None if package is None or last is None else f"{package}{last}"


@pytest.mark.thorough
def test_attributes_of_modules_that_are_imported_by_name():
    """Such as `import_module("pycudakit.random.choice").ends`, at once or by a variable."""
    wrong, count = [], 0
    own = {path: {name: rest for name, *rest in _importers(tree)} for path, tree in sources()}
    for path, tree in sources():
        importers = dict(own[path])
        for node in ast.walk(tree):  # functions of other modules, by their names or as attributes
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                for place in (f"{node.module}.{alias.name}", node.module):
                    importers |= own.get(f"{str(place).replace('.', '/')}.py", {})
        for scope in ast.walk(tree):
            if not isinstance(scope, (ast.FunctionDef, ast.Module)):
                continue
            modules = {}
            for node in ast.walk(scope):
                if isinstance(node, (ast.Assign, ast.AnnAssign)):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    module = _module_of(node.value, importers)
                    if module is not None and isinstance(target, ast.Name) and scope is not tree:
                        modules[target.id] = module
            for node in ast.walk(scope):
                if isinstance(node, ast.Attribute):
                    module = _module_of(node.value, importers) or modules.get(getattr(node.value, "id", None))
                    count += module is not None
                    if module is not None and not exists(f"{module}.{node.attr}"):
                        wrong.append(f"{path}:{node.lineno}: {module}.{node.attr}")
    assert not wrong
    assert count > 20


# ---- Paths in the files of the build, packaging and CI --------------------------------------------------


def text_of(name):
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the tests")
    return path.read_text(encoding="utf-8")


def path_exists(path):
    """Return True if a file or folder matches this path or pattern; the package may be an installed one."""
    is_of_package = path.split("/")[0] == "pycudakit"
    roots = [Path(each).parent for each in pk.__path__] if is_of_package else [ROOT]
    return any((root / path).exists() or next(root.glob(path), None) for root in roots)


def expanded(text):
    """Expand braces like a shell: `a{b,c}` is `ab` and `ac`."""
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        return [text]
    before, behind = text[: found.start()], text[found.end() :]
    return [each for part in found[1].split(",") for each in expanded(before + part + behind)]


PATHS = re.compile(r"(?<![\w/.}$-])(?:csrc|cmake|pycudakit|tests|tools|docs|benchmarks|examples)/[\w./*-]+")


def paths_in(text):
    return sorted({found.rstrip(".") for found in PATHS.findall(text)})


CMAKE = ["CMakeLists.txt", *sorted(f"cmake/{path.name}" for path in (ROOT / "cmake").glob("*.cmake"))]


@pytest.mark.parametrize("name", CMAKE)
def test_paths_in_cmake(name):
    text = text_of(name).replace("${PROJECT_SOURCE_DIR}/", "")
    text = re.sub(r"(^|\s)#.*", "", text)
    text = re.sub(r"DESTINATION \S+", "", text)  # destinations of the installation
    loops = re.compile(r"foreach\((\w+) IN ITEMS ([^)]*)\)(.*?)endforeach", re.DOTALL)
    for variable, items, body in loops.findall(text):
        text += "".join(body.replace(f"${{{variable}}}", item) for item in items.split())
    paths = [path for path in paths_in(text) if not path.endswith("/")]  # such as `csrc/${name}.cu`
    assert [path for path in paths if not path_exists(path)] == []
    if name in ("CMakeLists.txt", "cmake/jit_headers.cmake"):
        assert len(paths) > 10


def test_headers_of_compiled_kernels():
    """NVRTC compiles a list of headers as one text, so each header that one of them includes is listed."""
    lists = [text_of(name) for name in CMAKE if "file(READ" in text_of(name)]
    if not lists or not (ROOT / "csrc/cuda").is_dir():
        pytest.skip("the CUDA engine's sources are not beside the tests")
    (text,) = lists
    loops = re.compile(r"foreach\((\w+) IN ITEMS ([^)]*)\)(.*?)endforeach", re.DOTALL)
    text += "".join(
        body.replace(f"${{{variable}}}", item)
        for variable, items, body in loops.findall(text)
        for item in items.split()
    )
    listed = {
        file
        for path in paths_in(text)
        if path.startswith("csrc/")
        for file in ROOT.glob(path)
        if file.is_file()
    }
    code = "".join(
        re.sub(r"(?m)^\s*#include.*", "", path.read_text(encoding="utf-8"))
        for path in ROOT.glob("csrc/cuda/*/*.cpp")
    )
    wanted, seen = re.findall(r'"([\w/]+\.(?:cuh|h))"', code), set()  # the first headers of the text
    assert len(wanted) >= 2
    while wanted:
        name = wanted.pop()
        found = [path for path in listed if f"/{path.relative_to(ROOT).as_posix()}".endswith(f"/{name}")]
        assert len(found) == 1, f"{name}: {found}"
        if name not in seen:
            seen.add(name)
            wanted += re.findall(r'(?m)^#include "([^"]+)"', found[0].read_text(encoding="utf-8"))
    assert len(seen) > 10


def test_cmake_reads_the_version():
    (path,) = re.findall(r'file\(STRINGS (\S+) version REGEX "\^__version__ = "\)', text_of("CMakeLists.txt"))
    assert path_exists(path)
    (module,) = [each for each in MODULES if f"{each.replace('.', '/')}.py" == path]
    assert looked_up(f"{module}.__version__") == pk.__version__


def project():
    return pytest.importorskip("tomllib").loads(text_of("pyproject.toml"))


def test_paths_in_pyproject():
    paths = paths_in(text_of("pyproject.toml"))
    assert [path for path in paths if not path_exists(path)] == []
    tools = project()["tool"]
    ignores = [each for key in tools["ruff"]["lint"]["per-file-ignores"] for each in expanded(key)]
    for path in [
        *ignores,
        *tools["pytest"]["ini_options"]["testpaths"],
        tools["dynamic-metadata"][0]["input"],
    ]:
        assert path_exists(path.removesuffix("/**")), path


def test_modules_in_pyproject():
    whole = project()
    for script in whole["project"]["scripts"].values():
        assert exists(script.replace(":", "."))
    for contract in whole["tool"]["importlinter"]["contracts"]:
        names = [*contract.get("source_modules", ()), *contract.get("forbidden_modules", ())]
        names += [*contract.get("containers", ()), *contract.get("ancestors", ())]
        for container in contract.get("containers", ()):
            layers = {part.strip() for layer in contract["layers"] for part in layer.split("|")}
            names += [f"{container}.{layer}" for layer in layers]
            if contract.get("exhaustive"):
                below = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == container}
                assert below <= layers
        assert [name for name in names if name.removesuffix(".**") not in MODULES] == []


@pytest.mark.parametrize(
    "name", [".ci/run", ".ci/gpu", ".github/workflows/tests.yml", ".github/workflows/wheels.yml"]
)
def test_paths_in_the_files_of_ci(name):
    text = re.sub(r"\S*\$\S*/", " ", text_of(name))  # paths below a folder that a variable names
    text = text.replace("venv/tests/bin", "").replace("NAME.py", "*.py")
    assert [path for path in paths_in(text) if not path_exists(path.rstrip("/"))] == []


def test_tests_that_a_sanitizer_leaves_out():
    listed = re.search(r"^of_python=\((.*?)^\)", text_of(".ci/run"), re.DOTALL | re.MULTILINE)[1]
    names = [each for word in listed.split() for each in expanded(word)]
    assert len(names) > 50
    for name in names:
        path, _, function = name.partition("::")
        assert (ROOT / "tests" / path).exists(), path
        if function:
            tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
            assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
