"""`last_call`, profiles, traces and progress."""

import asyncio
import io
import json
import pickle
import sys
import threading

import numpy as np
import pytest
from helpers.long_calls import long_call
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi
from pycudakit._runtime import call_log, cost_model, native_call, progress

LARGE = np.linspace(1, 2, 3_000_000)
CUDA_STAGES = ["stage", "upload", "kernel", "download", "unstage"]


@pytest.fixture(autouse=True)
def _many_spans(monkeypatch):
    """Limit the number of spans, for small traces."""
    monkeypatch.setattr(native_call, "_MAX_SPANS", 5000)


# ---- Calls ------------------------------------------------------------------------------------------


def test_a_call(engine):
    pk.add(LARGE, LARGE)
    call = pk.last_call()
    assert pk.last_call() is call
    assert call.seconds > 0
    assert 0 <= call.overlap <= 1
    assert call.began is None
    assert call.spans is None
    if engine == "cuda":
        assert list(call.stages) == CUDA_STAGES
        assert call.devices == (0,)
        assert 0 < call.link_share < 1.3
    else:
        assert list(call.stages) == ["compute"]
        assert call.devices == ()
        assert call.link_share is None
    assert all(0 <= seconds <= call.seconds * 1.01 + 1e-4 for seconds in call.stages.values())
    assert sum(call.stages.values()) > 0
    assert "spans" not in repr(call)


@pytest.mark.parametrize(
    "name", ["add", "sort", "median", "histogram", "bincount", "cumsum", "mean", "unique"]
)
def test_threads_are_counted_once(engine, name):
    """Threads are counted once, also by calls that distribute work several times."""
    arguments = {"add": (LARGE, LARGE), "bincount": (LARGE.astype(int), LARGE)}.get(name, (LARGE,))
    getattr(pk, name)(*arguments)
    assert 1 <= pk.last_call().threads <= cost_model.threads()


def covered(spans, margin):
    """Return the length of the union of spans, each extended by `margin` at both ends."""
    spans = np.sort(spans, order="begin")
    begins, ends = spans["begin"] - margin, spans["end"] + margin
    reached = np.maximum.accumulate(np.concatenate([[-np.inf], ends[:-1]]))
    return np.maximum(ends - np.maximum(begins, reached), 0).sum()


@pytest.mark.parametrize("size", [1, 1000, 30_000, 300_000, 3_000_000])
def test_stages_of_calls_of_any_length(engine, size):
    with pk.profile() as p:
        pk.sin(LARGE[:size])
    (call,) = p.calls
    # A stage has 4095 bits of at least 0.25 us, each twice as long when they are too few: a span's ends are
    # rounded to half a bit, and to whole ones later.
    resolution = 1.25 * max(0.25e-6, call.spans["end"].max() / 2047)
    for stage, seconds in call.stages.items():
        spans = call.spans[call.spans["stage"] == call_log.STAGES.index(stage)]
        if stage in ("compute", "kernel"):
            assert spans["elements"].sum() == size
        assert covered(spans, -resolution) <= seconds
        if engine == "cpu":  # on a GPU a span begins at the end of the one before, a stage does not
            assert seconds <= covered(spans, resolution)


def test_numpys_calls_have_no_link():
    with pk.engine("numpy"):
        pk.add(LARGE, 1)
    assert pk.last_call().link_share is None
    assert pk.last_call().stages == {}


def test_link_share():
    assert pk.Call("add", "cpu", "", 1.0).link_share is None
    assert pk.Call("add", "cuda", "", 0.0).link_share is None
    call = pk.Call("add", "cuda", "", 2.0, bytes_up=10**9, bytes_down=3 * 10**9, devices=(0,))
    if pk.devices():
        link = pk.link_speed()
        assert call.link_share == max(1e9 / link.up, 3e9 / link.down) / 2
    else:
        assert call.link_share is None


def test_link_share_of_two(monkeypatch):
    links = {0: pk.Link(10e9, 20e9), 2: pk.Link(30e9, 5e9)}
    monkeypatch.setattr(call_log, "link_speed", links.__getitem__)
    call = pk.Call("add", "cuda", "", 0.5, bytes_up=4 * 10**9, bytes_down=5 * 10**9, devices=(0, 2))
    assert call.link_share == pytest.approx(5 / 25 / 0.5)


# ---- Profiles ---------------------------------------------------------------------------------------


def test_every_call_is_collected(engine):
    with pk.profile() as p:
        pk.add(LARGE, LARGE)
        pk.evaluate("LARGE * 2")
        with pk.engine("auto"):
            pk.sqrt(LARGE[:5])
            pk.sqrt(LARGE[:5])
            pk.where(LARGE[:5] > 1, LARGE[:5], 0)
            pk.evaluate("a + 1", {"a": LARGE[:5]})
        with pk.engine("numpy"):
            pk.maximum(1, 2)
    pk.exp(LARGE)
    assert [(call.function, call.engine) for call in p.calls] == [
        *(("add", engine), ("evaluate", engine)),
        *[(name, "numpy") for name in ("sqrt", "sqrt", "where", "evaluate", "maximum")],
    ]
    assert pk.last_call().function == "exp"
    begins = [call.began for call in p.calls]
    assert begins == sorted(begins)
    for call, after in zip(p.calls, p.calls[1:], strict=False):
        assert call.began + call.seconds <= after.began
    for call in p.calls[:2]:
        assert len(call.spans) >= 1
        assert call.spans_left_out == 0
        assert call.spans["end"].max() <= call.seconds + 1e-4  # the GPU has its own clock
        assert (call.spans["begin"] <= call.spans["end"]).all()
        assert {call_log.STAGES[stage] for stage in call.spans["stage"]} <= set(call.stages)
        lanes = call.spans[np.lexsort((call.spans["begin"], call.spans["lane"], call.spans["device"]))]
        same = (np.diff(lanes["lane"]) == 0) & (np.diff(lanes["device"]) == 0)
        assert (lanes["end"][:-1] <= lanes["begin"][1:] + 1e-5)[same].all()


def test_a_failing_call_is_not_collected(engine):
    with pk.profile() as p:
        with pytest.raises(ValueError, match="broadcast"):
            pk.add(np.ones(2), np.ones(3))
        with pk.engine("numpy"), pytest.raises(ValueError, match="broadcast"):
            pk.add(np.ones(2), np.ones(3))
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            pk.divide(LARGE, 0)
    assert [call.function for call in p.calls] == ["divide"]  # which ran


def test_profiles_within_each_other(engine):
    with pk.profile() as outer:
        pk.add(LARGE, 1)
        with pk.profile() as inner:
            pk.subtract(LARGE, 1)
        pk.multiply(LARGE, 1)
    assert [call.function for call in outer.calls] == ["add", "subtract", "multiply"]
    assert inner.calls == outer.calls[1:2]


def test_threads_and_tasks_are_apart(engine):
    with pk.profile() as p:
        thread = threading.Thread(target=lambda: pk.add(LARGE, 1))
        thread.start()
        thread.join()
    assert p.calls == []

    async def task(name):
        with pk.profile() as own:
            for _ in range(5):
                await asyncio.sleep(0)
                getattr(pk, name)(LARGE[:1000], 2.0)
        return {call.function for call in own.calls}, len(own.calls)

    async def main():
        return await asyncio.gather(*(task(name) for name in ("add", "multiply")))

    assert asyncio.run(main()) == [({"add"}, 5), ({"multiply"}, 5)]


def test_results_are_the_same(engine):
    a = np.random.default_rng(0).random(300_000)
    plain = pk.evaluate("sin(a) * a")
    with pk.profile():
        assert (pk.evaluate("sin(a) * a") == plain).all()
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
            pk.divide(a, 0)


def test_table(engine):
    with pk.profile() as p:
        pk.add(LARGE, LARGE)
        with pk.engine("numpy"):
            pk.sqrt(LARGE)
    heading, first, second, total = str(p).splitlines()
    assert heading.split()[:3] == ["function", "engine", "ms"]
    assert first.split()[:2] == ["add", engine]
    assert float(first.split()[2]) == pytest.approx(p.calls[0].seconds * 1e3, abs=6e-4)
    assert second.split()[:2] == ["sqrt", "numpy"]
    assert second.endswith("the requested engine")
    assert total.startswith("2 calls")
    assert float(total.split()[2]) == pytest.approx(sum(call.seconds for call in p.calls) * 1e3, abs=2e-3)
    shown = ["MB up", "MB down", *CUDA_STAGES, "overlap", "link"]
    assert all((name in heading) is (engine == "cuda") for name in shown)
    assert ("compute" in heading) is (engine == "cpu")
    assert max(map(len, str(p).splitlines())) < 200


TABLE = """\
function  engine         ms    MB up  MB down    stage   upload   kernel  download    unstage    compute  overlap  link  reason
add       cuda    1,000.000    200.0    100.0  100.000  200.000  300.000   400.000    500.000                 50%   20%  why
exp       cpu     3,000.000                                                                    2,500.000                 why not
sub       cuda    3,000.000  1,000.0  1,000.0  100.000  200.000  300.000   400.000    500.000                 90%   17%  why
3 calls           7,000.000  1,200.0  1,100.0  200.000  400.000  600.000   800.000  1,000.000  2,500.000      80%   18%
1,234 stages of chunks are in these times, but did not fit in the trace."""  # noqa: E501


def test_table_of_calls_on_gpus(monkeypatch):
    monkeypatch.setattr(call_log, "link_speed", lambda _: pk.Link(1e9, 1e9))
    stages = dict(zip(CUDA_STAGES, (0.1, 0.2, 0.3, 0.4, 0.5), strict=True))
    calls = [
        pk.Call("add", "cuda", "why", 1.0, 2 * 10**8, 10**8, 9, 9, stages, (0,), 0.5),
        pk.Call("exp", "cpu", "why not", 3.0, stages={"compute": 2.5}),
        pk.Call("sub", "cuda", "why", 3.0, 10**9, 10**9, 9, 9, stages, (0, 1), 0.9, spans_left_out=1234),
    ]
    assert str(pk.Profile(calls)) == TABLE


@pk.fuse
def settled(x, turns):
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    for _ in range(turns):
        y[1:] *= 0.5
    return np.cumsum(y, axis=0)


def test_passes_of_a_fused_function(engine):
    x = LARGE.reshape(3000, 1000)
    settled(x, 1)
    with pk.profile() as p:
        settled(x, 5)
        pk.sqrt(x)
    fused, root = p.calls
    home = ["to the host"] if engine == "cuda" else []
    assert [one.function for one in fused.passes] == [
        *("mean, std", "subtract, divide"),
        *["multiply"] * 5,
        *("cumsum", *home),
    ]
    assert root.passes == ()
    assert {one.engine for one in fused.passes} == {engine}
    assert sum(one.seconds for one in (*fused.passes, *fused.rest)) == pytest.approx(fused.seconds)
    for attribute in ("bytes_up", "bytes_down", "chunks"):
        assert sum(getattr(one, attribute) for one in fused.passes) == getattr(fused, attribute)
    rows = [line.split("  ")[:2] for line in str(p).splitlines()[1:]]
    rest = ["Python and other libraries"]
    assert [row[0] or row[1] for row in rows] == [
        *("settled", "mean, std", "subtract, divide", "multiply, 5 times", "cumsum", *home),
        *(*rest, "sqrt", "2 calls"),
    ]
    assert [one.function for one in pk.last_call().passes] == []
    settled(x, 2)
    assert [one.function for one in pk.last_call().passes].count("multiply") == 2


def test_no_calls():
    with pk.profile() as p:
        pass
    assert p.calls == []
    assert [line.split() for line in str(p).splitlines()] == [["function"], ["0", "calls"]]


def test_pickling(engine):
    with pk.profile() as p:
        pk.add(LARGE, LARGE)
    again = pickle.loads(pickle.dumps(p))
    assert again == p
    assert type(again) is pk.Profile
    assert (again.calls[0].spans == p.calls[0].spans).all()
    assert str(again) == str(p)


# ---- Traces -----------------------------------------------------------------------------------------


def trace_of(p, path):
    p.save_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    return (
        [event for event in events if event["ph"] == "X"],
        {
            (event["name"], event["pid"], event["tid"]): event["args"]["name"]
            for event in events
            if event["ph"] == "M"
        },
    )


def test_trace(engine, tmp_path):
    with pk.profile() as p:
        pk.add(LARGE, LARGE)
        pk.sqrt(LARGE[::-1])
        with pk.engine("numpy"):
            pk.exp(LARGE)
    events, names = trace_of(p, tmp_path / "trace.json")
    p.save_trace(str(tmp_path / "again.json"))
    assert (tmp_path / "again.json").read_text() == (tmp_path / "trace.json").read_text()
    for event in events:
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert ("process_name", event["pid"], 0) in names
        assert ("thread_name", event["pid"], event["tid"]) in names
    calls = [e for e in events if names["process_name", e["pid"], 0] == "calls"]
    stages = [e for e in events if e not in calls]
    assert [(c["name"], c["args"]["engine"]) for c in calls] == [
        *(("add", engine), ("sqrt", engine), ("exp", "numpy")),
    ]
    assert calls[0]["ts"] == 0
    for call, described in zip(calls, p.calls, strict=True):
        assert call["dur"] == pytest.approx(described.seconds * 1e6)
        assert call["ts"] == pytest.approx((described.began - p.calls[0].began) * 1e6)
    assert len(stages) == sum(len(call.spans) for call in p.calls[:2])
    took_time = {name for c in p.calls for name, seconds in c.stages.items() if seconds}
    assert took_time <= {e["name"] for e in stages} <= set().union(*(c.stages for c in p.calls))
    for stage in stages:
        assert stage["args"].keys() == {"bytes", "elements"}
        assert any(
            c["ts"] <= stage["ts"] and stage["ts"] + stage["dur"] <= c["ts"] + c["dur"] + 100 for c in calls
        )
    on_host = [e for e in stages if names["process_name", e["pid"], 0] == "host"]
    assert {names["thread_name", e["pid"], e["tid"]] for e in on_host} <= {
        f"host thread {n}" for n in range(1000)
    }
    if engine == "cuda":
        assert {names["process_name", e["pid"], 0] for e in stages} == {"host", "GPU 0"}


def test_trace_of_two_gpus(tmp_path):
    spans = np.zeros(4, abi.SPAN)
    spans["device"], spans["lane"], spans["stage"] = [-1, 0, 1, 1], [3, 0, 0, 2], [0, 1, 1, 3]
    spans["begin"], spans["end"], spans["bytes"] = [0, 1, 2, 3], [1, 2, 3, 4], 7
    call = pk.Call("add", "cuda", "", 5.0, devices=(0, 1), began=100.0, spans=spans, spans_left_out=3)
    events, names = trace_of(pk.Profile([call]), tmp_path / "trace.json")
    assert events[0]["args"]["stages_left_out"] == 3
    told = [(names["thread_name", e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in events[1:]]
    assert told == [
        ("host thread 3", "stage", 0, 1e6),
        ("GPU 0 slot 0", "upload", 1e6, 1e6),
        ("GPU 1 slot 0", "upload", 2e6, 1e6),
        ("GPU 1 slot 2", "download", 3e6, 1e6),
    ]


def test_trace_of_a_fused_function(engine, tmp_path):
    with pk.profile() as p:
        settled(LARGE.reshape(3000, 1000), 2)
    events, names = trace_of(p, tmp_path / "trace.json")
    by_row = {}
    for event in events:
        by_row.setdefault(names["thread_name", event["pid"], event["tid"]], []).append(event)
    assert [event["name"] for event in by_row["calls"]] == ["settled"]
    passes = by_row["passes of fused functions"]
    assert [event["name"] for event in passes] == [one.function for one in p.calls[0].passes]
    ends = [event["ts"] + event["dur"] for event in passes]
    assert all(end <= event["ts"] + 100 for end, event in zip(ends, passes[1:], strict=False))


def test_trace_of_nothing(tmp_path):
    p = pk.Profile([pk.Call("add", "numpy", "")])
    assert trace_of(p, tmp_path / "trace.json")[0] == []


def test_spans_that_find_no_place(engine, monkeypatch):
    with pk.profile() as whole:
        pk.add(LARGE, LARGE)
    monkeypatch.setattr(native_call, "_MAX_SPANS", 1)
    with pk.profile() as p:
        pk.add(LARGE, LARGE)
    (call,) = p.calls
    assert len(call.spans) == 1
    if engine == "cpu":
        assert call.spans_left_out == len(whole.calls[0].spans) - 1
    assert ("did not fit" in str(p)) is bool(call.spans_left_out)


# ---- Progress ---------------------------------------------------------------------------------------


@pytest.fixture
def _soon(monkeypatch):
    monkeypatch.setattr(progress, "FIRST_REPORT_SECONDS", 0.1)
    monkeypatch.setattr(progress, "REPORT_INTERVAL", 0.1)


soon = pytest.mark.usefixtures("_soon")


@soon
@pytest.mark.parametrize("way", ["engine", *thorough("profile")])
def test_progress(engine, monkeypatch, way):
    told = []
    call = long_call(0.4)
    with getattr(pk, way)(progress=lambda *at: told.append(at)):
        result = call()
        pk.sqrt(np.ones(100))
        with pk.engine(progress=False):
            call()
    call()
    assert len(told) >= 2
    assert {total for _, total in told} == {result.size}
    assert told == sorted(told)
    assert told[-1] == (result.size, result.size)
    assert [done for done, _ in told].count(result.size) <= 2


def test_progress_of_short_calls(engine, monkeypatch):
    monkeypatch.setattr(
        progress, "FIRST_REPORT_SECONDS", 60.0
    )  # no call takes so long, even on a busy machine
    told = []
    with pk.engine(progress=lambda *at: told.append(at)):
        for _ in range(5):
            pk.add(LARGE, 1)
    assert told == []


@soon
def test_calls_within_a_progress_function(engine):
    right = []

    def progress(done, total):
        right.append(bool((pk.add(LARGE, 1) == LARGE + 1).all()))

    call = long_call(0.3)
    with pk.engine(progress=progress):
        call()
    assert right
    assert all(right)


@pytest.mark.thorough
@soon
def test_the_last_progress_may_raise(engine):
    def progress(done, total):
        if done == total:
            raise LookupError("the end")

    call = long_call(0.3)
    with pk.engine(progress=progress), pytest.raises(LookupError, match="the end"):
        call()
    assert pk.last_call().function == "evaluate"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


@soon
@pytest.mark.parametrize("with_tqdm", [True, False])
@pytest.mark.parametrize("stream", [Terminal, *thorough(Notebook, io.StringIO)])
def test_display(engine, monkeypatch, with_tqdm, stream):
    if with_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    call = long_call(0.3)
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    with pk.engine(progress=True):
        call()
    text = shown.getvalue()
    if stream is io.StringIO:
        assert text == ""
    else:
        assert "evaluate" in text
        assert "100%" in text
        assert text.endswith("\r" if with_tqdm else "\r\x1b[K")


def test_the_time_of_a_bar_begins_with_the_call(monkeypatch):
    pytest.importorskip("tqdm")
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    display = progress.Display(100, elapsed=10.0)
    display.show(50, "sort", "")
    display.close()
    assert "[00:10<00:10, " in shown.getvalue()


def test_two_reports_a_second_at_most(monkeypatch):
    now, told = 0.0, []
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now)
    with progress.CallProgress(lambda *at: told.append((now, *at)), "sort", 1000) as update:
        for step in range(40):
            now = step / 10
            update(step, 1000)
    times = [time for time, _, _ in told]
    assert times[0] == 1.0
    assert 0.5 <= min(np.diff(times[:-1])) <= 0.61
    assert told[-1] == (3.9, 1000, 1000)


@pytest.mark.parametrize("way", [pk.engine, pk.profile])
@pytest.mark.parametrize("progress", [1, "yes", 0.5, [print], np.True_])
def test_bad_progress(way, progress):
    with pytest.raises(errors.InvalidArgument, match="; choose True, False or a callable"):
        way(progress=progress)
