"""`pycudakit trace`: a script's calls as a trace and a table, and the advice about them."""

import json
import re
import sys

import pytest

import pycudakit as pk
from pycudakit.__main__ import main
from pycudakit._cli.advice import advice

needs_cpu = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
MIB = 1 << 20
SCRIPT = """
import sys
import numpy as np
import pycudakit as pk
import beside

x = np.linspace(0, 1, 3_000_000)
with pk.engine("cpu"):
    for _ in range(int(sys.argv[1])):
        y = pk.exp(pk.sqrt(pk.add(pk.multiply(x, x), 1.0)))
print(__name__, sys.argv[1:], beside.VALUE)
"""


@pytest.fixture
def trace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("VALUE = 7\n")

    def run(text, *arguments):
        (tmp_path / "script.py").write_text(text)
        status = main(["trace", "-o", "here.json", "script.py", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@needs_cpu
def test_a_script(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(
        sys.modules[advice.__module__], "MAX_GAP_SECONDS", 60.0
    )  # other processes may take a moment
    status, printed, _ = trace(SCRIPT, "2", "--own")
    assert status == 0
    lines = printed.splitlines()
    assert lines[0] == "__main__ ['2', '--own'] 7"
    rows = [line.split()[:2] for line in lines if line.split()[2:3] == ["cpu"]]
    assert rows == [["10", name] for name in ("multiply", "add", "sqrt", "exp")] * 2
    (finding,) = (line for line in lines if line.startswith("- "))
    assert "these 4 calls could be one `fuse`, 2 times over: multiply, add, sqrt, exp" in finding
    assert "passes over memory saved" in finding
    events = json.loads((tmp_path / "here.json").read_text())["traceEvents"]
    assert sum(event["name"] == "sqrt" for event in events) == 2


@needs_cpu
def test_many_calls_are_summed_up(trace):
    _, printed, _ = trace(SCRIPT.replace("3_000_000", "100_000"), "50")
    assert printed.count("  sqrt ") == 1
    assert any(line.split()[:4] == ["10", "exp", "cpu", "50"] for line in printed.splitlines())
    (together,) = (line for line in printed.splitlines() if line.startswith("The script took "))
    script, calls = (float(ms.replace(",", "")) for ms in re.findall(r"([\d,]+) ms", together))
    assert 0 < calls <= script


def test_a_script_that_fails_is_traced_so_far(trace, tmp_path):
    status, printed, said = trace("import pycudakit as pk\npk.add(1, 2)\n1 / 0\n")
    assert status == 1
    assert "ZeroDivisionError" in said
    assert [line for line in said.splitlines() if line.startswith("  File ")] == [
        f'  File "{tmp_path / "script.py"}", line 3, in <module>'  # as `python` has it
    ]
    assert "1 call" in printed
    assert (tmp_path / "here.json").exists()
    assert trace("raise SystemExit(5)")[0] == 5
    assert trace("raise SystemExit('why')")[2] == "why\n"
    assert "called no function of pycudakit in its main thread" in trace("")[1]


@pytest.mark.parametrize(
    ("raised", "status"),
    [("KeyboardInterrupt", 130), ("GeneratorExit", 1), ("asyncio.CancelledError", 1)],
)
def test_a_script_that_is_interrupted_is_traced_so_far(trace, tmp_path, raised, status):
    found, printed, said = trace(f"import asyncio, pycudakit as pk\npk.add(1, 2)\nraise {raised}\n")
    assert found == status
    assert said.splitlines()[-1] == raised.replace("asyncio", "asyncio.exceptions")
    assert "1 call" in printed
    assert (tmp_path / "here.json").exists()


def test_a_script_that_goes_elsewhere(trace, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    status, printed, _ = trace("import os\nos.chdir('other')\nprint(open(__file__).readline())")
    assert status == 0
    assert printed.startswith("import os\n")
    assert json.loads((tmp_path / "here.json").read_text())["displayTimeUnit"] == "ms"
    assert not list((tmp_path / "other").iterdir())


def test_unwritable_output_is_reported_before_the_script_runs(tmp_path, capsys):
    (tmp_path / "script.py").write_text("print('ran')")
    for output in (tmp_path, tmp_path / "no" / "t.json"):
        assert main(["trace", "-o", str(output), str(tmp_path / "script.py")]) == 2
        printed = capsys.readouterr()
        assert printed.err.startswith(f"pycudakit: {output} cannot be written (")
        assert printed.err.endswith("): name another file, with --output\n")
        assert not printed.out


@needs_cpu
def test_a_trace_is_written_where_it_is_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("import pycudakit as pk\npk.sqrt([1.0, 4.0])\n")
    assert main(["trace", "script.py"]) == 0
    assert "perfetto" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_no_script(capsys):
    assert main(["trace", "nowhere.py"]) == 2
    assert "nowhere.py does not exist or is not a file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["trace"])
    assert "arguments are required: script\n" in capsys.readouterr().err


def call(function, engine="cuda", reason="the requested engine", seconds=0.01, **more):
    return pk.Call(function, engine, reason, seconds, **more)


def following(*calls):
    """Return the calls with start times so that each begins at the end of the one before."""
    return [pk.Call(**{**vars(c), "began": 0.01 * n}) for n, c in enumerate(calls)]


def test_calls_that_could_be_fused():
    each = {"bytes_up": 8 * MIB, "bytes_down": 4 * MIB}
    calls = following(
        call("multiply", **each), call("add", **each), call("exp", **each), call("sum", bytes_up=4 * MIB)
    )
    assert list(advice(calls)) == [
        "these 4 calls could be one `fuse`: multiply, add, exp, sum: up to 6 transfers saved"
    ]
    assert not list(advice(calls[:2]))
    apart = [pk.Call(**{**vars(c), "began": n}) for n, c in enumerate(calls)]
    assert not list(advice(apart))
    broken = following(calls[0], calls[1], call("sort"), calls[2], calls[3])
    assert not list(advice(broken))


def fusable(names, seconds=0.01):
    """Return the advice about consecutive calls on the engine cpu."""
    calls = [call(name, "cpu", seconds=seconds, began=seconds * n) for n, name in enumerate(names.split())]
    return list(advice(calls))


def test_advice_names_the_body_of_a_loop():
    told = "these 4 calls could be one `fuse`, 5 times over: multiply, add, sqrt, exp"
    four = f"{told}: 3 passes over memory saved"
    assert fusable("multiply add sqrt exp " * 5) == [four]
    assert fusable("mean var " + "multiply add sqrt exp " * 5 + "multiply") == [four]
    assert fusable("multiply add add exp " * 2) == [
        "these 4 calls could be one `fuse`, 2 times over: multiply, add, add, exp: 3 passes over memory saved"
    ]
    assert fusable("multiply add " * 3) == [
        "these 2 calls could be one `fuse`, 3 times over: multiply, add: 1 pass over memory saved"
    ]
    assert fusable("multiply add " * 2) == []
    assert fusable("exp " * 6) == []  # probably calls on six independent arrays
    for names in ("add add add sqrt exp sin", "add sqrt exp sin cos tan"):  # no loop
        (line,) = fusable(names)
        assert line.startswith("these 6 calls could be one `fuse`: ")
    assert fusable("sqrt exp sin " * 2, seconds=1e-4) == []  # too short to matter
    assert len(fusable("sqrt exp sin " * 20, seconds=1e-4)) == 1


def test_one_piece_of_advice_for_a_loop_with_pauses():
    """A pause between two calls, by another process, must not split a loop into two findings."""
    body, gap = ["multiply", "add", "sqrt", "exp"], 0.1
    began, calls = 0.0, []
    for n, name in enumerate(body * 12):
        began += gap if n in (10, 22) else 0.01
        calls.append(call(name, "cpu", seconds=0.01, began=began))
    told = "these 4 calls could be one `fuse`, 12 times over: multiply, add, sqrt, exp: 3 passes over memory"
    assert list(advice(calls)) == [f"{told} saved"]
    other = [
        call(name, "cpu", seconds=0.01, began=10 + 0.01 * n) for n, name in enumerate(("sin", "add", "exp"))
    ]
    assert len(list(advice([*calls, *other]))) == 2


def test_large_results_take_time_to_give_back():
    calls = [call(name, "cpu", seconds=0.01, began=0.018 * n) for n, name in enumerate(("add", "exp", "sin"))]
    assert len(list(advice(calls))) == 1
    calls = [pk.Call(**{**vars(each), "began": 0.025 * n}) for n, each in enumerate(calls)]
    assert not list(advice(calls))


def test_memory_that_is_made_anew():
    (down,) = advice([call("exp", bytes_down=256 * MIB, stages={"unstage": 0.02})] * 5)
    assert down.startswith("pageable results of 256 MiB in each of 5 calls of exp: pass `out=`")
    (up,) = advice([call("exp", bytes_up=256 * MIB, stages={"stage": 0.02})] * 5)
    assert "pageable operands of 256 MiB in each of 5 calls of exp" in up
    assert not list(advice([call("exp", bytes_up=256 * MIB, bytes_down=256 * MIB, stages={})] * 5))


def test_calls_on_other_engines():
    (line,) = advice([call("add", "numpy", "auto: only NumPy takes this: it takes bool")] * 2)
    assert line == "NumPy computed 2 calls of add, 20 ms: it takes bool; convert the argument before"
    for reason in ("auto: pycudakit lacks it", "fallback from the cpu engine: pycudakit lacks it"):
        (line,) = advice([call("linalg.svd", "numpy", reason)])
        assert line == "NumPy computed 1 call of linalg.svd, 10 ms: pycudakit lacks it"
    (line,) = advice([call("add", "numpy", "fallback from the cpu engine: it takes bool")])
    assert line == "NumPy computed 1 call of add, 10 ms: it takes bool; convert the argument before"
    (line,) = advice([call("sort", "cpu", "auto: x; the CPU engine took over: cudaMalloc")])
    assert line.startswith("1 call of sort failed on the GPU")


def test_advice_names_calls_in_the_order_in_which_they_ran():
    """A pause in the first iteration hides its beginning, from which the loop is named all the same."""
    body, began, calls = ["multiply", "add", "sqrt", "exp"], 0.0, []
    for n, name in enumerate(body * 6):
        calls.append(call(name, "cpu", began=began))
        began += 5.0 if n == 1 else 0.01
    (line,) = advice(calls)
    assert "multiply, add, sqrt, exp" in line
