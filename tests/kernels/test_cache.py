"""The cache of compiled kernels, in memory and on disk: when an entry is reused, and when not."""

import dataclasses
import os
import stat
import sys
import threading
import time
import types

import numpy as np
import pytest
from helpers.user_kernels import python

import pycudakit as pk
from pycudakit import errors
from pycudakit.kernels.compiling import cache, disk_cache
from pycudakit.kernels.compiling.source import Compiled, Source

TEXT = "__global__ void k(int *x) { x[0] = 1; }"


class Compiler:
    """A fake compiler that counts compilations."""

    def __init__(self):
        self.made = []
        self.version = "1.0"
        self.folders, self.read = (), ()

    def fingerprint(self):
        return self.version

    def compile(self, source):
        if "error" in source.text:
            raise errors.CompileError("kernel.cu(1): no")
        self.made.append(source)
        return Compiled(f"image {len(self.made)}".encode(), {"k": "k_"}, "a warning", self.read)


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    made = Compiler()
    module = types.SimpleNamespace(
        fingerprint=made.fingerprint, compile=made.compile, folders=lambda: made.folders
    )
    monkeypatch.setitem(sys.modules, "a_compiler", module)
    monkeypatch.setattr(cache, "_COMPILERS", {"cuda": "a_compiler", "cpu": "a_compiler"})
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "cache"))
    cache._memory_cache.clear()
    yield made
    cache._memory_cache.clear()


def source(text=TEXT, **changes):
    usual = Source(text, "kernel.cu", (), (), no_extern_c=False, debug=False, arch="sm_90", kernels=())
    return dataclasses.replace(usual, **changes)


def get(changed=None, engine="cuda", cache_dir=None):
    return cache.get(changed or source(), engine, cache_dir)


def test_memory(compiler):
    first = get()
    assert first.binary.data == b"image 1"
    assert (first.symbols, first.log) == ({"k": "k_"}, "a warning")
    assert get() is first
    assert len(compiler.made) == 1


def test_disk(compiler, tmp_path):
    first = get()
    cache._memory_cache.clear()
    again = get()
    assert again == first
    assert again is not first
    assert len(compiler.made) == 1
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache" / "images").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "cache" / "images").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "changes",
    [
        {"text": TEXT + " "},
        {"name": "other.cu"},
        {"options": ("-DN=1",)},
        {"options": ("-DN", "=1")},
        {"include_dirs": ("/nowhere",)},
        {"no_extern_c": True},
        {"debug": True},
        {"arch": "sm_100"},
    ],
)
def test_another_source_is_another_image(compiler, changes):
    assert get().binary.key != get(source(**changes)).binary.key
    assert len(compiler.made) == 2


def test_another_compiler_or_engine_is_another_image(compiler):
    keys = [get().binary.key, get(engine="cpu").binary.key]
    compiler.version = "1.1"
    keys.append(get().binary.key)
    assert len(set(keys)) == len(compiler.made) == 3


def test_headers_count(compiler, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.h").write_text("typedef int one;")
    (tmp_path / "a.h").write_text('#include "b.h"\n#include <stdio.h>\n#include "a/b.h"')
    text = '#include "a.h"\n' + TEXT
    for folders in ({"include_dirs": (str(tmp_path),)}, {"options": (f"-I{tmp_path}",)}):
        before = len(compiler.made)
        for content in ("typedef int one;", "typedef long one;"):
            (tmp_path / "a" / "b.h").write_text(content)
            get(source(text, **folders))
            get(source(text, **folders))
        assert len(compiler.made) == before + 2


def test_the_cpus_library_gets_a_path(compiler, tmp_path):
    found = get(engine="cpu")
    path = os.fsdecode(found.binary.data)
    assert os.path.dirname(path) == str(tmp_path / "cache" / "images")
    with open(path, "rb") as file:
        assert file.read() == b"image 1"


def test_a_cache_that_was_emptied(compiler):
    path = os.fsdecode(get(engine="cpu").binary.data)
    os.unlink(path)
    assert os.path.exists(os.fsdecode(get(engine="cpu").binary.data))
    assert len(compiler.made) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"k", b"j").replace(b"i", b"j")),
        lambda path: path.write_bytes(os.urandom(300)),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"[1, 2]"),
        lambda path: path.write_bytes(b"{}"),
    ],
)
@pytest.mark.parametrize("ending", [".image", ".json"])
def test_damaged_files_are_replaced(compiler, tmp_path, damage, ending):
    get()
    [path] = (tmp_path / "cache" / "images").glob(f"*{ending}")
    damage(path)
    cache._memory_cache.clear()
    assert get().binary.data == b"image 2"
    cache._memory_cache.clear()
    assert get().binary.data == b"image 2", "and mended"
    assert len(compiler.made) == 2


@pytest.mark.parametrize("engine", ["cuda", "cpu"])
def test_where_nothing_can_be_written(compiler, monkeypatch, tmp_path, engine):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/none", "\0"):
        if folder != "\0":
            monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(folder))
        cache._memory_cache.clear()
        found = get(engine=engine, cache_dir="\0" if folder == "\0" else None)
        assert get(engine=engine, cache_dir="\0" if folder == "\0" else None) is found
        if engine == "cpu":
            path = os.fsdecode(found.binary.data)
            assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_a_folder_that_others_may_write_to_is_not_trusted(compiler, tmp_path):
    (tmp_path / "cache" / "images").mkdir(parents=True)
    (tmp_path / "cache" / "images").chmod(0o777)
    disk_cache._warn.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"not kept in .*images: others may write to .*chmod go-w"):
        get()
    assert not list((tmp_path / "cache" / "images").iterdir())


def test_beside_it_they_may_write(compiler, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o1777)  # sticky: others may not rename existing files
    get()
    assert len(list((tmp_path / "cache" / "images").iterdir())) == 2


def test_no_cache(compiler, tmp_path):
    get(cache_dir=False)
    assert not (tmp_path / "cache").exists()
    own = tmp_path / "own"
    cache._memory_cache.clear()
    get(cache_dir=own)
    assert len(list((own / "images").iterdir())) == 2


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.delenv("PYCUDAKIT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.cache_folder() == tmp_path / "pycudakit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.cache_folder() == tmp_path / ".cache" / "pycudakit"


def test_the_least_recently_used_goes_first(compiler, monkeypatch, tmp_path):
    monkeypatch.setattr(disk_cache, "_MAX_CACHE_BYTES", 3 * len(b"image 1"))
    monkeypatch.setattr(cache, "_MAX_ENTRIES", 2)
    for index in range(3):
        before = set((tmp_path / "cache").glob("images/*"))
        get(source(name=str(index)))
        now = time.time() - 100 + index
        for path in set((tmp_path / "cache").glob("images/*")) - before:
            os.utime(path, (now, now))
    cache._memory_cache.clear()
    get(source(name="0"))  # marks the entry as used
    get(source(name="3"))
    assert len(compiler.made) == 4
    for name in "023":
        get(source(name=name))
    assert len(compiler.made) == 4
    get(source(name="1"))
    assert len(compiler.made) == 5
    assert len(cache._memory_cache._binaries) == 2
    assert len(list((tmp_path / "cache" / "images").iterdir())) == 6


def test_many_threads_compile_once(compiler):
    slow = compiler.compile

    def compile_slowly(given):
        time.sleep(0.05)
        return slow(given)

    sys.modules["a_compiler"].compile = compile_slowly
    found = []
    threads = [threading.Thread(target=lambda: found.append(get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiler.made) == 1
    assert len({id(one) for one in found}) == 1
    assert not cache._locks


def test_sources_that_do_not_compile_are_not_kept(compiler, tmp_path):
    for _ in range(2):
        with pytest.raises(errors.CompileError, match="no"):
            get(source("error"))
    assert not list((tmp_path / "cache" / "images").iterdir())
    assert not cache._locks


# ---- With real compilers ----------------------------------------------------------------------------

ADD_ONE = "__global__ void add_one(int *x) { x[threadIdx.x] += 1; }"


def _runs(module):
    x = np.arange(4, dtype=np.int32)
    module.get_function("add_one")(pk.InOut(x), block=4)
    return x.tolist() == [1, 2, 3, 4]


def test_a_module_is_compiled_once(engine, monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "cache"))
    text = ADD_ONE + f"// {tmp_path}"
    assert _runs(pk.SourceModule(text))
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "images").glob("*.json")}
    assert len(files) == 1
    cache._memory_cache.clear()
    assert _runs(pk.SourceModule(text))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "images").glob("*.json")} == files


def test_another_process_uses_the_cache(engine, monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "cache"))
    text = ADD_ONE + f"// of {tmp_path}"
    pk.SourceModule(text)
    code = f"""
import pycudakit as pk
from pycudakit.kernels.compiling import nvrtc, host_compiler
def fail(source): raise SystemExit("compiled again")
nvrtc.compile = host_compiler.compile = fail
import numpy as np
with pk.engine({engine!r}):
    x = np.zeros(3, np.int32)
    pk.SourceModule({text!r}).get_function("add_one")(x, block=3)
print(x.sum())
"""
    done = python(code)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_file_that_is_gone_is_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "cache"))
    with pk.engine("cpu"):
        module = pk.SourceModule(ADD_ONE + f"// again {tmp_path}")
        for path in (tmp_path / "cache" / "images").iterdir():
            path.unlink()
        pk.release()
        assert _runs(module)


def test_a_private_folder_goes_with_the_process(tmp_path):
    (tmp_path / "file").write_text("")
    code = f"""
import os, warnings, numpy as np, pycudakit as pk
from pycudakit.kernels.compiling import disk_cache
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork among threads
with pk.engine("cpu"):
    x = np.zeros(3, np.int32)
    pk.SourceModule({ADD_ONE!r}).get_function("add_one")(x, block=3)
folder = disk_cache.private_folder()
assert x.sum() == 3 and len(os.listdir(folder)) == 2
if os.fork() == 0:
    raise SystemExit  # the parent's stays
os.wait()
assert len(os.listdir(folder)) == 2
print(folder)
"""
    done = python(code, PYCUDAKIT_CACHE_DIR=str(tmp_path / "file"))
    assert done.stderr == ""
    assert not os.path.exists(done.stdout.strip())
