"""Binaries of the disk cache are loaded only if no other user can have written them."""

import json
import os
import stat
import subprocess
import sys
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.kernels.compiling import cache, disk_cache, path_security

KERNEL = "__global__ void k(int *x) { x[0] = 1; }"

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners")


@pytest.fixture
def images(monkeypatch, tmp_path):
    """Return the folder of a cache with one kernel."""
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path / "over" / "cache"))
    disk_cache._warn.cache_clear()
    run()
    return tmp_path / "over" / "cache" / "images"


def run():
    """Run a kernel that is not in the memory cache."""
    cache._memory_cache.clear()
    out = np.zeros(1, np.int32)
    pk.SourceModule(KERNEL).get_function("k")(pk.Out(out), block=1)
    assert out[0] == 1


def compiles_anew(monkeypatch, engine, told=None):
    """Return True if a kernel was compiled again; check its result, and that `told` is warned of once."""
    compiler = cache.importlib.import_module(cache._COMPILERS[engine])
    made = []
    real = compiler.compile
    monkeypatch.setattr(compiler, "compile", lambda source: made.append(source) or real(source))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
        run()
    texts = [str(warning.message) for warning in found if warning.category is RuntimeWarning]
    assert [told in text for text in texts] == ([] if told is None else [True])
    return bool(made)


def test_own_files_are_used(images, engine, monkeypatch):
    assert not compiles_anew(monkeypatch, engine)


@pytest.mark.parametrize("place", [".", "..", "../.."])
def test_a_folder_on_the_way_that_others_may_write_to(images, engine, monkeypatch, place):
    (images / place).resolve().chmod(0o777)
    assert compiles_anew(monkeypatch, engine, "others may write to")


@pytest.mark.parametrize("ending", ["image", "json"])
def test_a_file_that_others_may_write_to(images, engine, monkeypatch, ending):
    for path in images.glob(f"*.{ending}"):
        path.chmod(0o666)
    assert compiles_anew(monkeypatch, engine, "others may write to")
    assert {stat.S_IMODE(path.stat().st_mode) for path in images.iterdir()} == {0o600}, "and is replaced"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("place", ["", "image", "json"])
def test_files_of_another_user(images, engine, monkeypatch, place):
    for path in images.glob(f"*.{place}") if place else [images]:
        os.chown(path, 12345, -1)
    assert compiles_anew(monkeypatch, engine, "belongs to user 12345")


def test_a_link_in_place_of_the_folder(images, engine, monkeypatch, tmp_path):
    images.rename(tmp_path / "elsewhere")
    images.symlink_to(tmp_path / "elsewhere")
    assert compiles_anew(monkeypatch, engine, "is a symbolic link")


def test_links_on_the_path_are_checked(images, engine, monkeypatch, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "over").rename(tmp_path / "far" / "over")
    (tmp_path / "over").symlink_to("far/../far/over")
    assert not compiles_anew(monkeypatch, engine)
    (tmp_path / "far").chmod(0o777)
    assert compiles_anew(monkeypatch, engine, "others may write to")


def test_links_without_end(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "too many" in path_security.why_untrusted_folder(tmp_path / "a" / "c")


@pytest.mark.parametrize("ending", ["image", "json"])
@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "nested"])
def test_other_than_plain_files(images, engine, monkeypatch, tmp_path, ending, kind):
    [path] = images.glob(f"*.{ending}")
    path.rename(tmp_path / "before")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "before")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("[" * 200_000)
        path.chmod(0o600)
    assert compiles_anew(monkeypatch, engine)


def test_a_folder_whose_code_does_not_run(images, engine, monkeypatch):
    """On a noexec file system, the cache stores binaries, but they are loaded from another folder."""
    real = path_security.runs_code
    monkeypatch.setattr(path_security, "runs_code", lambda folder: folder != images and real(folder))
    assert not compiles_anew(monkeypatch, engine)
    if engine == "cpu":
        plan = cache._memory_cache._binaries
        [kept] = plan.values()
        assert os.path.dirname(os.fsdecode(kept.loaded.binary.data)) == str(disk_cache.private_folder())


def test_a_killed_writers_file_goes(images, engine):
    [old, new] = [images / ".old.new", images / ".other.new"]
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (0, 0))
    for path in images.glob("*.json"):
        path.write_text(json.dumps({}))
    run()
    assert not old.exists()
    assert new.exists(), "its writer may be at work"


@pytest.mark.thorough
def test_many_processes_at_once(engine, tmp_path):
    code = f"""
import numpy as np, pycudakit as pk
pk.set_engine({engine!r})
out = np.zeros(1, np.int32)
pk.SourceModule({KERNEL!r}).get_function("k")(pk.Out(out), block=1)
assert out[0] == 1
"""
    environment = {**os.environ, "PYCUDAKIT_CACHE_DIR": str(tmp_path / "cache")}
    running = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(8)]
    running[0].kill()
    assert [one.wait(120) for one in running][1:] == [0] * 7
    assert len(list((tmp_path / "cache" / "images").glob("*.json"))) == 1
