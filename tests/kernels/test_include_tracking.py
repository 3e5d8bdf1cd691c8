"""A changed or new header causes a recompilation, however it is included."""

import os

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.kernels.compiling import cache

pytestmark = pytest.mark.usefixtures("own_cache")

KERNEL = "\n__global__ void k(int *x) { x[0] = VALUE; }"
FILLED = "//" + "x" * 80 + "\n"


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "cache"))


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def value(text, folder, options=()):
    """Return a kernel's result, which must be the same from the memory cache and from the disk cache."""
    found = []
    for _ in range(2):
        out = np.zeros(1, np.int32)
        places = [folder / "first", folder / "second"]
        module = pk.SourceModule(text + KERNEL, include_dirs=places, options=list(options))
        module.get_function("k")(pk.Out(out), block=1)
        found.append(int(out[0]))
        cache._memory_cache.clear()
    assert found[0] == found[1]
    return found[0]


# The digit of the text that is ONE or TWO.
INCBIN = r"""
asm(".pushsection .rodata\n.global own\n.hidden own\nown: .incbin \"{}\"\n.popsection");
extern "C" const char own[];
#define VALUE (own[14] - '0')
"""
ONE, TWO = "#define VALUE 1\n", "#define VALUE 2\n"
CASES = {
    "plain": ('#include "c.h"', {"first/c.h": ONE}, {"first/c.h": TWO}),
    "nested": (
        '#include "in/b.h"',
        {"first/in/b.h": '#include "../c.h"', "first/c.h": ONE},
        {"first/c.h": TWO},
    ),
    "two of a name": (
        '#include "a/x.h"\n#include "b/y.h"',
        {
            **dict.fromkeys(("first/a/x.h", "first/b/y.h"), '#include "c.h"'),
            "first/a/c.h": "", "first/b/c.h": ONE,
        },
        {"first/b/c.h": TWO},
    ),
    "large": ("#include <c.h>", {"first/c.h": FILLED * 20_000 + ONE}, {"first/c.h": FILLED * 20_000 + TWO}),
    "macro": ('#define H "c.h"\n#include H', {"first/c.h": ONE}, {"first/c.h": TWO}),
    "comment": ('/* and */ # /**/ include "c.h"', {"first/c.h": ONE}, {"first/c.h": TWO}),
    "spliced": ('#inc\\\nlude "c.h"', {"first/c.h": ONE}, {"first/c.h": TWO}),
    "in front": ("#include <c.h>", {"second/c.h": ONE}, {"first/c.h": TWO}),
    "next": (
        "#include <c.h>",
        {"first/c.h": "#include_next <c.h>", "second/c.h": ONE},
        {"second/c.h": TWO},
    ),
    "appears": (
        f'#if __has_include("c.h")\n{TWO}#else\n{ONE}#endif',
        {"first/b.h": ""},
        {"first/c.h": ""},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_edited_header(engine, case, tmp_path):
    text, before, after = CASES[case]
    write(tmp_path, before)
    assert value(text, tmp_path) == 1
    write(tmp_path, after)
    assert value(text, tmp_path) == 2


def test_an_edit_within_one_tick_of_the_clock_and_of_the_same_size(engine, tmp_path):
    write(tmp_path, {"first/c.h": ONE})
    path = tmp_path / "first" / "c.h"
    times = path.stat().st_mtime_ns
    assert value('#include "c.h"', tmp_path) == 1
    path.write_text(TWO)
    os.utime(path, ns=(times, times))
    assert value('#include "c.h"', tmp_path) == 2


def test_a_name_in_the_options(engine, tmp_path):
    for number, text in enumerate((ONE, TWO), start=1):
        write(tmp_path, {"first/c.h": text})
        assert value("#include H", tmp_path, ['-DH="c.h"']) == number


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('#import "c.h"', "c.h"),
        ("#define TEXT(x) #x\n#define H TEXT(c.h)\n#include H", "c.h"),
        (INCBIN, "c.h"),
    ],
)
def test_includes_that_only_the_compiler_knows(text, name, tmp_path):
    with pk.engine("cpu"):
        for number, content in enumerate((ONE, TWO), start=1):
            write(tmp_path, {f"first/{name}": content})
            assert value(text.replace("{}", str(tmp_path / "first" / name)), tmp_path) == number


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_folders_of_the_environment(variable, monkeypatch, tmp_path):
    monkeypatch.setenv(variable, f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    with pk.engine("cpu"):
        write(tmp_path, {"b/c.h": ONE, "a/d.h": ""})
        assert value("#include <c.h>", tmp_path) == 1
        write(tmp_path, {"b/c.h": TWO})
        assert value("#include <c.h>", tmp_path) == 2
        write(tmp_path, {"a/c.h": "#define VALUE 3"})
        assert value("#include <c.h>", tmp_path) == 3
        monkeypatch.setenv(variable, str(tmp_path / "b"))
        assert value("#include <c.h>", tmp_path) == 2


def test_unchanged_sources_are_not_compiled_again(engine, monkeypatch, tmp_path):
    text, files, _ = CASES["two of a name"]
    write(tmp_path, files)
    assert value(text, tmp_path) == 1
    (tmp_path / "first" / "a" / "c.h").touch()
    from pycudakit.kernels.compiling import host_compiler, nvrtc

    for compiler in (host_compiler, nvrtc):
        monkeypatch.setattr(compiler, "compile", lambda _: pytest.fail("it is compiled again"))
    assert value(text, tmp_path) == 1
