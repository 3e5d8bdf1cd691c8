"""Both engines give the same bits, with every instruction set and any number of threads."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from elementwise.test_functions import BINARY, FREE_ZERO, UNARY
from helpers.digests import digest_in_process
from helpers.strategies import DTYPES, assert_values, build, lay_out, outcome, special_values

import pycudakit as pk

SIZE = 3001


def inputs_of(name, dtype, layout=None):
    """Return arguments: special values, random bits and ordinary values, in the given layout."""
    special = special_values(dtype)
    pairs = special.size**2
    a = np.concatenate(
        [np.repeat(special, special.size), build(dtype, (SIZE,), "bits", 1), build(dtype, (SIZE,))]
    )
    b = np.concatenate(
        [np.resize(special, pairs), build(dtype, (SIZE,), "bits", 2), build(dtype, (SIZE,), seed=3)]
    )
    if name == "power" and a.dtype.kind == "i":
        b = np.where(b < 0, ~b, b)
    arrays = (a, b)[: getattr(np, name).nin]
    return tuple(lay_out(x, layout) for x in arrays) if layout else arrays


def results():
    """Yield the name and results of every operation, dtype and cast, on the engine in force."""
    for dtype in DTYPES:
        for name in UNARY + BINARY:
            status, value, warned = outcome(getattr(pk, name), *inputs_of(name, dtype))
            if status == "ok":
                yield f"{name} {dtype}", value if isinstance(value, tuple) else (value,), warned
        for to in DTYPES:
            source = inputs_of("absolute", dtype)[0]
            status, value, warned = outcome(pk.astype, source, to)
            yield f"astype {dtype} {to}", (value,), warned


def canonical(array, free_zero):
    """Replace NaNs by one NaN, and zeros by +0.0 where their sign is free."""
    if array.dtype.kind != "f":
        return array
    array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return np.where(array == 0, array.dtype.type(0), array) if free_zero else array


def digest():
    """Print a hash for each result."""
    for name, arrays, warned in results():
        whole = hashlib.sha256(repr(sorted(warned)).encode())
        for array in arrays:
            whole.update(canonical(array, name.split()[0] in FREE_ZERO).tobytes())
        print(name, whole.hexdigest()[:16])  # noqa: T201


def isas():
    code = "import pycudakit as pk; pk.set_engine('cpu'); pk.add([1.0], 1)"
    known = pk.build_info()["cpu"]["instruction sets"].split()
    env = {k: v for k, v in os.environ.items() if k != "PYCUDAKIT_ISA"}
    runs = [
        isa
        for isa in known
        if subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, env={**env, "PYCUDAKIT_ISA": isa}
        ).returncode == 0
    ]  # fmt: skip
    assert runs[0] == "baseline"
    return runs


@pytest.fixture(scope="module")
def baseline():
    return digest_in_process(__file__, PYCUDAKIT_ISA="baseline", PYCUDAKIT_THREADS="1")


def test_hashes_cover_everything(baseline):
    reason, lines = baseline
    assert reason == "1 thread, baseline"
    names = [line.split()[0] for line in lines]
    assert set(names) == {*UNARY, *BINARY, "astype"}
    assert len(lines) > 800
    assert len({line.split()[-1] for line in lines}) > 300


@pytest.mark.parametrize("isa", isas()[1:])
def test_every_instruction_set(baseline, isa):
    reason, lines = digest_in_process(__file__, PYCUDAKIT_ISA=isa, PYCUDAKIT_THREADS="1")
    assert reason.endswith(isa)
    assert lines == baseline[1]


@pytest.mark.parametrize("threads", [2, 7])
def test_any_number_of_threads(threads):
    """The arrays are large enough for all threads to take part."""
    code = """if True:
        import hashlib, numpy as np, pycudakit as pk
        pk.set_engine("cpu")
        a = np.random.default_rng(1).standard_normal(3_000_000).astype("f4")
        b = a[::-1]
        for name in ("exp", "sin", "tanh", "power", "divide", "remainder", "arctan2"):
            for _ in range(TRIES):  # where the machine is busy, the others may come too late
                with np.errstate(all="ignore"):
                    value = getattr(pk, name)(*(a, b)[: getattr(np, name).nin])
                shared = pk.last_call().threads > 1
                if shared:
                    break
            value[np.isnan(value)] = np.nan
            print(name, hashlib.sha256(value.tobytes()).hexdigest(), shared)
    """

    def run(count):
        env = {**os.environ, "PYCUDAKIT_THREADS": str(count)}
        tries = code.replace("TRIES", "1" if count == 1 else "20")
        done = subprocess.run(
            [sys.executable, "-c", tries], check=True, capture_output=True, text=True, env=env
        )
        rows = [line.split() for line in done.stdout.splitlines()]
        return [row[:2] for row in rows], [row[2] for row in rows]

    alone, many = run(1), run(threads)
    assert alone[0] == many[0]
    assert set(alone[1]) == {"False"}
    assert "True" in many[1]


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_both_engines(both_engines, name):
    for dtype in DTYPES:
        for layout in (None, "step", "swapped"):
            arguments = inputs_of(name, dtype, layout)
            answers = []
            for engine in ("cpu", "cuda"):
                with pk.engine(engine):
                    answers.append(outcome(getattr(pk, name), *arguments))
            (status, ours, warned), (other_status, theirs, other_warned) = answers
            assert status == other_status
            if status == "ok":
                assert warned == other_warned
                for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (ours, theirs)), strict=True):
                    assert_values(x, y, 0, name in FREE_ZERO, f"{name} {dtype} {layout}")


@pytest.mark.parametrize("of", DTYPES)
def test_casts_on_both_engines(both_engines, of):
    for to in DTYPES:
        source = inputs_of("absolute", of)[0]
        answers = []
        for engine in ("cpu", "cuda"):
            with pk.engine(engine):
                answers.append(outcome(pk.astype, source, to))
        assert answers[0][2] == answers[1][2]
        assert_values(answers[0][1], answers[1][1], context=f"{of} to {to}")
