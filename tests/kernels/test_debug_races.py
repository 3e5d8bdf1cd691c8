"""Races in shared memory, which checked kernels name: the variable, the index and both threads."""

import os
import re

import numpy as np
import pytest
from helpers.user_kernels import module

import pycudakit as pk
from pycudakit import In, Out, errors

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _on_cpu():
    """Run on the CPU engine where there is a GPU, too: a GPU does not detect races."""
    with pk.engine("cpu"):
        yield


DECLARED = "__shared__ int s[64]; int t = threadIdx.x;"


def run(body, count=64, declared=DECLARED, **keywords):
    """Run a checked kernel of one block; return its output."""
    source = f"__global__ void racing(const int *x, int *out) {{ {declared} {body} }}"
    out = np.zeros(64, np.int32)
    function = module(source, debug=True).get_function("racing")
    function(In(np.arange(64, dtype=np.int32)), Out(out), block=(count, 1, 1), **keywords)
    return out


THREAD = r"thread \((\d+), 0, 0\)"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("s[t] = x[t]; out[t] = s[63 - t];", rf"{THREAD} reads 's\[31\]', which {THREAD} wrote"),
        ("s[t] = x[t]; if (t < 63) out[t] = s[t + 1];", rf"{THREAD} writes 's\[1\]', which {THREAD} read"),
        ("s[t / 2] = x[t];", rf"{THREAD} writes 's\[0\]', which {THREAD} wrote"),
        ("s[0] += x[t];", rf"{THREAD} reads 's\[0\]', which {THREAD} wrote"),
        (
            "s[t] = x[t]; __syncwarp(); out[t] = s[63 - t];",
            rf"{THREAD} reads 's\[\d+\]', which {THREAD} wrote",
        ),
        (
            "s[t] = x[t]; for (int by = 32; by > 0; by /= 2) { if (t < by) s[t] += s[t + by]; }",
            rf"{THREAD} (reads|writes) 's\[\d+\]', which {THREAD} (wrote|read)",
        ),
    ],
)
def test_races_are_named(body, words):
    expected = rf"kernel 'racing': in block \(0, 0, 0\), {words} since the last barrier"
    with pytest.raises(errors.DeviceError, match=expected) as caught:
        run(body)
    first, second = map(int, re.findall(THREAD, str(caught.value)))
    assert first != second


def test_races_in_dynamic_shared_memory():
    declared = "extern __shared__ short s[]; int t = threadIdx.x;"
    with pytest.raises(errors.DeviceError, match=r"reads 'the dynamic shared memory\[.*wrote since"):
        run("s[t] = x[t]; out[t] = s[63 - t];", declared=declared, shared=128)


X = np.arange(64)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s[t] = x[t]; __syncthreads(); out[t] = s[63 - t];", X[::-1]),
        ("s[t] = x[t]; __syncwarp(); out[t] = s[t ^ 31];", X ^ 31),
        ("s[t] = x[t]; __syncthreads(); out[t] = s[t] + s[t ^ 1]; __syncthreads(); s[t] = 0;", X + (X ^ 1)),
        ("s[0] = 7; out[t] = s[0];", 7),
        (
            "if (!t) s[0] = 0; __syncthreads(); atomicAdd(&s[0], x[t]); __syncthreads(); out[t] = s[0];",
            2016,
        ),
        (
            """s[t] = x[t]; __syncthreads();
            for (int by = 32; by > 0; by /= 2) { if (t < by) s[t] += s[t + by]; __syncthreads(); }
            out[t] = s[0];""",
            2016,
        ),
        ("((char *)s)[t] = (char)x[t]; __syncthreads(); out[t] = ((char *)s)[t ^ 3];", X ^ 3),
    ],
)
def test_ordered_accesses_are_no_races(body, expected):
    np.testing.assert_array_equal(run(body), np.broadcast_to(expected, 64))


def test_volatile_accesses_are_no_races():
    declared = "__shared__ volatile int s[64]; int t = threadIdx.x;"
    out = run("s[t] = x[t]; out[t] = s[t ^ 1];", declared=declared)
    np.testing.assert_array_equal(out, X ^ 1)


def test_blocks_do_not_race_with_each_other():
    source = (
        "__global__ void k(int *out) { __shared__ int s; if (threadIdx.x == blockIdx.x) s = 1; out[0] = 1; }"
    )
    out = np.zeros(1, np.int32)
    module(source, debug=True).get_function("k")(Out(out), block=(8, 1, 1), grid=(8, 1))
    assert out[0] == 1


@pytest.mark.skipif(os.name != "posix", reason="the compiler is a shell script")
def test_a_compiler_that_reports_no_accesses_is_refused(tmp_path, monkeypatch):
    script = tmp_path / "deaf-c++"
    script.write_text(
        '#!/bin/sh\nfor word; do shift; case $word in *-fsanitize=*) ;; *) set -- "$@" "$word";; esac; done\n'
        f'exec {os.environ.get("CXX") or "c++"} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    source = "__global__ void k(int *x) { x[threadIdx.x] = 1; }"
    with pytest.raises(
        errors.CompileError,
        match=r"debug=True checks each access.*deaf-c\+\+ does not report accesses.*set CXX",
    ):
        pk.SourceModule(source, debug=True)
    x = np.zeros(32, np.int32)
    pk.SourceModule(source).get_function("k")(pk.InOut(x), block=(32, 1, 1))
    np.testing.assert_array_equal(x, 1)
