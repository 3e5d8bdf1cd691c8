"""Digests of results, computed by a test file in another process under other settings."""

import os
import subprocess
import sys
from pathlib import Path


def digest_in_process(file, **settings):
    """Call `digest` of a test file on the cpu engine in a new process; return it and the lines printed."""
    path = Path(file)
    code = f"import sys; sys.path[:0] = {[str(path.parent), *sys.path]!r}\n"
    code += f"import pycudakit as pk, {path.stem} as tests\n"
    code += "pk.set_engine('cpu'); print(pk.engines()['cpu'].reason); tests.digest()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    return first, lines
