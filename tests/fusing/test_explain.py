"""`explain` lists the passes, the arrays and the transfers of a fused function."""

import dataclasses

import numpy as np
import pytest

import pycudakit as pk


@pk.fuse
def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


@pk.fuse
def statistics(x, y):
    z = np.sqrt(x * x + y)
    return np.mean(z), np.std(z), np.min(z), np.max(z)


@pk.fuse
def steps(u, n):
    for _ in range(n):
        u[1:-1] = (u[2:] + u[:-2]) / 2


class Model:
    @pk.fuse
    def twice(self, x):
        return 2 * x


def values(*shape):
    return np.random.default_rng(0).uniform(-1, 1, shape)


def test_passes(engine):
    plan = softmax.explain(values(200, 300))
    assert [each.function for each in plan.passes] == ["max", "subtract, exp, sum", "subtract, exp, divide"]
    assert [each.reads for each in plan.passes] == [("x",), ("x", "t1"), ("x", "t1", "t2")]
    assert [each.shape for each in plan.passes] == [(200, 300)] * 3
    assert plan.breaks == ()
    if engine != "auto":
        assert {each.engine for each in plan.passes} == {plan.engine} == {engine}


def test_text_has_a_line_a_pass(engine):
    text = str(softmax.explain(values(200, 300))).splitlines()
    assert len(text) == 6
    assert text[0].startswith("softmax: 3 passes on")
    assert "t2 <- subtract, exp, sum of x, t1 (200 x 300" in text[2]
    assert text[4].startswith("     Python and other libraries: ")
    assert text[5].startswith("     together: ")


def test_text_has_transfers_only_where_there_are_any():
    with pk.engine("cpu"):
        text = str(statistics.explain(values(50_000), np.ones(50_000))).splitlines()
    assert text[0] == "statistics: 1 pass on cpu"
    assert text[1].startswith(
        "  1. t1, t2, t3, t4 <- multiply, add, sqrt, mean, std, min, max of x, y (50000, cpu, "
    )
    plan = statistics.explain(values(50), np.ones(50))
    on_gpu = [dataclasses.replace(one, engine="cuda") for one in plan.passes]
    plan = dataclasses.replace(plan, passes=tuple(on_gpu), bytes_up=2_500_000)
    first = str(plan).splitlines()[0]
    assert first.endswith("on cuda, 2.5 MB up, 0.0 MB down, 0.0 MB kept on the device")


def test_text_names_the_engines_of_all_passes():
    with pk.engine("cpu"):
        plan = softmax.explain(values(200, 300))
    first, *others = plan.passes
    plan = dataclasses.replace(plan, passes=(dataclasses.replace(first, engine="numpy"), *others))
    assert str(plan).splitlines()[0] == "softmax: 3 passes on numpy and cpu"


def test_reductions_of_the_same_values_go_together(engine):
    plan = statistics.explain(values(50_000), np.ones(50_000))
    if engine != "cuda":  # on the device, the shared operand is stored
        assert [each.function for each in plan.passes] == ["multiply, add, sqrt, mean, std, min, max"]


def test_arguments_are_left_alone(engine):
    u = values(20_000)
    before = u.copy()
    plan = steps.explain(u, 3)
    np.testing.assert_array_equal(u, before)
    assert [each.writes for each in plan.passes if each.function != "copy"]


def test_a_method(engine):
    assert [each.function for each in Model().twice.explain(values(20_000)).passes] == ["multiply"]


def test_breaks():
    @pk.fuse
    def looks(x):
        if np.max(x) > 0:
            return np.fft.fft(x)
        return x

    with pk.engine("cpu"):
        plan = looks.explain(values(20_000))
    assert [each.text for each in plan.breaks] == ["if np.max(x) > 0:", "return np.fft.fft(x)"]
    assert "numpy.where()" in plan.breaks[0].instead
    assert str(plan.breaks[1]) in str(plan)


def test_arguments_that_are_named_as_others_would_be():
    @pk.fuse
    def named(t1, t2):
        return np.cumsum(t1) + t2

    with pk.engine("cpu"):
        plan = named.explain(values(20_000), values(20_000))
    assert plan.passes[0].writes == ("t3",)


def test_no_two_arrays_have_one_name(engine):
    def body(x):
        return sum(float(np.cumsum(x * n)[-1]) for n in range(20))

    plan = pk.fuse(body).explain(np.ones(20_000))
    written = [name for one in plan.passes for name in one.writes if one.function == "cumsum"]
    assert len(set(written)) == len(written) == 20


def test_picture(engine):
    import xml.etree.ElementTree as ET

    plan = softmax.explain(values(200, 300))
    picture = ET.fromstring(plan.svg())
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == 3
    shown = plan._repr_html_()
    assert plan.svg() in shown
    assert "softmax: 3 passes on" in shown
    assert "&lt;-" in shown


def test_a_picture_names_all_that_goes_to_the_next_pass():
    @pk.fuse
    def standardise(x):
        return (x - x.mean(axis=0)) / x.std(axis=0)

    with pk.engine("cpu"):
        picture = standardise.explain(values(200, 300)).svg()
    assert picture.count(">t1, t2</text>") == 1


def test_one_record(engine):
    with pk.profile() as profile:
        softmax(values(200, 300))
    call = pk.last_call()
    assert (call.function, len(profile.calls)) == ("softmax", 1)
    assert profile.calls[0].function == "softmax"
    if engine == "cuda":
        assert call.stages["kernel"] > 0


def test_each_input_goes_up_once_and_each_result_comes_down_once(engine):
    x = values(500, 400)
    softmax(x)
    call = pk.last_call()
    if engine == "cuda":
        small = 500 * 8 * 4  # the reductions' results, down and up
        assert x.nbytes <= call.bytes_up <= x.nbytes + small + 4096
        assert x.nbytes <= call.bytes_down <= x.nbytes + 4 * small + 4096
    elif engine == "cpu":
        assert call.bytes_up == call.bytes_down == 0


@pytest.mark.parametrize("engine_name", ["numpy"])
def test_on_numpy(engine_name):
    with pk.engine(engine_name):
        plan = softmax.explain(values(20, 30))
    assert (plan.engine, plan.passes) == ("numpy", ())


def test_a_record_on_numpy():
    with pk.engine("numpy"), pk.profile() as profile:
        pk.fuse(lambda x: x + 1)(np.ones(5000))
        assert pk.last_call().engine == "numpy"
    assert [call.function for call in profile.calls] == ["<lambda>"]
