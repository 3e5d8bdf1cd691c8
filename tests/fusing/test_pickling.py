"""Pickles of the fused functions of a script, or a notebook."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pycudakit as pk

SCRIPT = """
import copy, multiprocessing, pickle
import numpy as np
import pycudakit as pk

@pk.fuse
def powers(x, n=2):
    return x * x if n == 2 else x * powers(x, n - 1)

class Kept:
    @staticmethod
    @pk.fuse(strict=False)
    def cubes(x, *, n=3):
        return powers(x, n)

if __name__ == "__main__":
    x = np.arange(3.0)
    for one in (powers, Kept.cubes):
        assert pickle.loads(pickle.dumps(one)) is one
        assert copy.deepcopy(one) is one
        for method in ("spawn", "fork"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                print(pool.map(one, [x])[0].tolist())
    try:
        import cloudpickle
    except ImportError:
        pass
    else:
        with open("pickled", "wb") as file:
            file.write(cloudpickle.dumps((powers, Kept.cubes)))
"""
ELSEWHERE = """
import pickle
import numpy as np

with open("pickled", "rb") as file:
    powers, cubes = pickle.load(file)
print(powers(np.arange(3.0)).tolist(), cubes(np.arange(3.0)).tolist(), powers.__wrapped__.__qualname__)
"""


@pytest.mark.thorough
def test_pickles_of_a_scripts_own(tmp_path):
    """`pickle` uses the name, in the processes of a script; cloudpickle stores the code, for any process."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)

    def run(name):
        root = str(Path(pk.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", name],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env=environment,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert run("script.py") == "[0.0, 1.0, 4.0]\n" * 2 + "[0.0, 1.0, 8.0]\n" * 2
    pytest.importorskip("cloudpickle")
    assert run("elsewhere.py") == "[0.0, 1.0, 4.0] [0.0, 1.0, 8.0] powers\n"
