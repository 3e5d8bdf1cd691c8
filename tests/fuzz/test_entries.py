"""Every entry of the C ABI with invalid arguments: they are refused, and the process survives."""

import json
import os
from pathlib import Path

import pytest
from helpers.processes import python

import pycudakit as pk
from pycudakit._native import abi

SCRIPT = Path(__file__).with_name("entries.py")
CALLS = int(os.environ.get("PYCUDAKIT_FUZZ_CALLS", "20000"))  # 1000000 by hand
SEED = int(os.environ.get("PYCUDAKIT_FUZZ_SEED", "1"))


@pytest.mark.cpu
@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
def test_entries():
    code = f"""
import runpy
sys.path.insert(0, {str(SCRIPT.parent)!r})
sys.argv[1:] = [{CALLS}, {SEED}]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
    told = python(code, timeout=300 + CALLS // 100).splitlines()[-1]
    valid, spoilt, refused = json.loads(told)
    assert set(valid) == set(abi.SIGNATURES)
    assert set(spoilt) == {name for name, arguments in abi.SIGNATURES.items() if arguments}
    assert sum(spoilt.values()) >= CALLS
    assert sum(refused.values()) > CALLS / 4
