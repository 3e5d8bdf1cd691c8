"""Each mechanism of the package exists once: caches, dispatch, arrays on a GPU, logs."""

import ast
import functools
from pathlib import Path

import pytest

import pycudakit as pk


@functools.cache
def sources():
    """Return the syntax tree of each source file of the package, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in map(Path, pk.__path__)
        for path in sorted(folder.rglob("*.py"))
    }


@functools.cache
def nodes_by_kind():
    """Return the path and the node of each node, by its kind."""
    found = {}
    for path, tree in sources().items():
        for node in ast.walk(tree):
            found.setdefault(type(node), []).append((path, node))
    return found


def nodes(*kinds):
    """Return the path and the node of each node of some kinds."""
    return [each for kind in kinds for each in nodes_by_kind()[kind]]


@functools.cache
def definitions():
    """Return the files that define each function, method and class, by name."""
    found = {}
    for path, node in nodes(ast.FunctionDef, ast.ClassDef):
        if not path.startswith("pycuda/"):
            found.setdefault(node.name, []).append(path)
    return found


def called_in(name):
    """Return the files that call a function, by its name or as an attribute."""
    found = set()
    for path, node in nodes(ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == name:
            found.add(path)
    return found


def classes_that(predicate):
    """Return the names of the classes for which a function of their nodes returns True."""
    classes = [node for path, node in nodes(ast.ClassDef) if not path.startswith("pycuda/")]
    return {node.name for node in classes if predicate(node)}


def bases(node):
    return {ast.unparse(base) for base in node.bases}


# ---- Signature and executable -------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.ci
def test_full_caches_drop_what_was_not_used():
    """`LRUCache` is the bounded dictionary; nothing drops all entries where a cache is full."""
    found = set()
    for path, node in nodes(ast.If):
        sizes = [
            ast.unparse(call.args[0])
            for call in ast.walk(node.test)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "len"
        ]
        cleared = {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
        found |= {(path, size) for size in sizes if f"{size}.clear" in cleared}
    assert found == {
        ("fusing/memory/double_buffer.py", "self._views"),  # views of a buffer that is swapped
        ("kernels/running/worker_pool.py", "self._binaries"),  # the worker drops its own at the same time
        ("pycuda/_function.py", "self._headers"),
    }


def test_least_recently_used():
    assert definitions()["LRUCache"] == ["_runtime/lru_cache.py"]
    assert called_in("LRUCache") == {
        "_element_programs/device_launch.py",
        "_runtime/dispatch_cache.py",
        "fusing/autotuning.py",
        "fusing/device_impls/random_distributions.py",  # a generator's own, for a call
        "fusing/device_replay.py",
        "fusing/host_replay.py",
        "random/generator_base.py",
        "random/prefetch.py",
    }
    # Compiled kernels have files.
    assert called_in("popitem") == {"kernels/compiling/cache.py", "kernels/wrapping/library.py"}


@pytest.mark.parametrize(
    ("entry", "files"),
    [
        ("pk_evaluate", ["_element_programs/prepared_program.py"]),
        ("pk_scan", ["_families/scan/device_fast_path.py", "_families/scan/prepared.py"]),
    ],
)
def test_prepared_calls_of_an_entry(entry, files):
    found = [
        path
        for path, node in nodes(ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign) and ast.unparse(line) == f"entry = {entry!r}"
    ]
    assert found == files


# ---- Arrays on a GPU ----------------------------------------------------------------------------------


def test_one_description_of_arrays_of_other_libraries():
    def describes(node):
        fields = {ast.unparse(line.target) for line in node.body if isinstance(line, ast.AnnAssign)}
        return {"shape", "strides"} <= fields and not fields.isdisjoint({"address", "pointer", "ptr"})

    assert classes_that(describes) == {"DeviceView"}
    readers = {path for path, node in nodes(ast.Attribute) if node.attr == "__cuda_array_interface__"}
    assert readers == {"_interop/cuda_libraries.py", "_interop/device_view.py"}


@pytest.mark.parametrize("name", ["overlap", "contiguous_strides"])
def test_one_function_of_memory_layouts(name):
    assert definitions()[name] == ["_interop/memory_layout.py"]


def test_one_extent():
    """The method of `DeviceView` calls the function; `histogram_counts` has extents of values."""
    others = {"_interop/device_view.py", "fusing/device_impls/histogram_counts.py"}
    assert {*definitions()["extent"]} - others == {"_interop/memory_layout.py"}
    assert {*definitions()["_extent"]} == {"_element_programs/device_launch.py"}  # of a signature
    assert {*definitions()["overlaps"]} == {
        "_element_programs/device_launch.py",
        "_interop/device_view.py",
        "fusing/memory/buffer.py",
    }


# ---- Dispatch -----------------------------------------------------------------------------------------


def test_one_dispatcher():
    """One order: device fast path, replay, Dask, device, NumPy's overrides, for fused functions, too. The
    `signature=` of a ufunc is NumPy's.
    """
    assert called_in("try_replay") == {"_interop/dispatch.py"}
    assert called_in("overriding_argument") - {"_interop/foreign_arrays.py"} == {
        "_interop/dispatch.py",
        "_families/elementwise/general_path.py",
    }
    assert called_in("check_device_arguments") == {
        "_interop/dispatch.py",
        "fusing/api.py",  # `explain`
        "random/generator.py",  # `shuffle` has no result
    }


def test_one_decorator_registers_public_functions():
    """It sets the attributes that the dispatcher reads. `accept_foreign_arrays` is applied at first use."""
    marks = {"numpy_for_small", "device_fast_path"}
    setters = {
        path for path, node in nodes(ast.Attribute) if node.attr in marks and type(node.ctx) is ast.Store
    }
    assert setters == {"_runtime/public_function.py"}
    assert called_in("logged_as_one_call") == {"_runtime/public_function.py"}


def test_the_executor_knows_no_tracers():
    """A trace records, and an executor runs: neither is a base class of the other."""
    assert not any(
        "Tracer" in ast.unparse(node)
        for path, node in nodes(ast.ImportFrom)
        if path in ("fusing/schedule/executor.py", "fusing/schedule/tile_rows.py")
    )
    assert classes_that(lambda node: bases(node) & {"Executor", "RowTiler", "Deferred"}) == set()


# ---- State --------------------------------------------------------------------------------------------


def test_one_context_and_one_log():
    """There are, too, hooks of residency, the trace that is running, and the callback that is."""
    assert classes_that(lambda node: "threading.local" in bases(node)) == {"CallLog", "_ResidencyHooks"}
    assert {path for path in called_in("local") if not path.startswith("pycuda/")} == set()
    variables = {
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
        for _, node in nodes(ast.AnnAssign, ast.Assign)
        if node.value is not None and ast.unparse(node.value).startswith(("ContextVar(", "contextvars."))
    }
    assert variables == {"current_context", "_current_trace", "_in_callback"}


def test_one_reader_of_bytecode():
    readers = {
        path
        for path, node in nodes(ast.Import, ast.ImportFrom)
        if "dis" in {alias.name for alias in node.names} or getattr(node, "module", "") == "dis"
    }
    assert readers == {"fusing/bytecode/opcodes.py"}


def test_public_names_are_listed_once():
    listing = ast.unparse(sources()["__init__.py"])
    assert "TYPE_CHECKING" not in listing
    assert listing.count("searchsorted") == 1


# ---- Composites ---------------------------------------------------------------------------------------


def public_functions(*folders):
    return {
        node.name
        for path, tree in sources().items()
        if path.startswith(folders)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def test_composites_have_one_body():
    """Those with a body in `fusing/composites/` have no other one for arrays on a GPU or in `_families/`."""
    composites = {
        node.name
        for path, tree in sources().items()
        if path.startswith("fusing/composites/")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each).startswith("composite(") for each in node.decorator_list)
    }
    assert len(composites) > 10
    assert composites & public_functions("fusing/device_impls/") == set()
    assert composites & public_functions("_families/") == set()


@pytest.mark.parametrize(
    ("body", "family", "callers"),
    [
        ("sorted_candidates", "sort/set_operations", "set_operations"),
        ("is_among", "sort/set_operations", "set_operations"),
        ("intersection", "sort/set_operations", "set_operations"),
        ("difference", "sort/set_operations", "set_operations"),
        ("symmetric_difference", "sort/set_operations", "set_operations"),
        ("lexsort_order", "sort/sorting", "sorting"),
        ("contract_axes", "matmul/contraction", "matmul"),
        ("kronecker", "matmul/contraction", "matmul"),
        ("contract_pair", "matmul/contraction", "einsum"),
        ("sum_unshared", "matmul/contraction", "einsum"),
        ("flat_bins", "histogram/histogramdd", "histogram"),
        ("as_density", "histogram/histogram", "histogram"),
    ],
)
def test_bodies_serve_host_and_device(body, family, callers):
    assert definitions()[body] == [f"_families/{family}.py"]
    assert body in ast.unparse(sources()[f"fusing/device_impls/{callers}.py"])


def test_public_functions_have_one_definition():
    """Apart from those that have a device fast path of the same name, or are a part of another module."""
    found = {}
    for path, tree in sources().items():
        if path.startswith("_families/") and not path.endswith("device_fast_path.py"):
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and node.name in pk.__all__:
                    found.setdefault(node.name, []).append(path)
    assert len(found) > 50
    twice = {name for name, paths in found.items() if len(paths) > 1}
    assert twice == {"outer", "sum"}  # the ufuncs' method, and the sum of a contraction


@pytest.mark.parametrize("body", ["differences", "kronecker", "power_by_squaring"])
def test_bodies_serve_dask(body):
    assert "_dask/composites.py" in called_in(body)
