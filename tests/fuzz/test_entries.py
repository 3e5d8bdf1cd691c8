"""Every entry of the C ABI with spoilt arguments: refused, and the process lives."""

import json
from pathlib import Path

import pytest
from helpers.processes import python

import pycudakit as pk
from pycudakit._library import abi

SCRIPT = Path(__file__).with_name("entries.py")
# What only a GPU, or nobody, calls; what is called before the script can look; and what it must not call.
NOT_CALLED = {
    *("pk_abi_version", "pk_fail", "pk_last_error", "pk_open_cublas", "pk_shutdown", "pk_unwatch"),
    *("pk_device_count", "pk_device_info", "pk_link_speed", "pk_plan_lend", "pk_run_plan"),
    *("pk_pinned_return", "pk_pinned_take", "pk_result_allocator"),
    *("pk_release", "pk_tune", "pk_tuning_count", "pk_tuning_info"),
    *(f"pk_matmul_{t}" for t in abi.MULTIPLIED if t not in ("f32", "f64")),
}


@pytest.mark.cpu
@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
def test_entries():
    called = json.loads(python(SCRIPT.read_text(), timeout=300).splitlines()[-1])
    assert {name for name in abi.SIGNATURES if name not in called} == NOT_CALLED
    assert sum(called.values()) > 2500
