"""Pickles name public places alone, which stay where files move."""

import copy
import pickle
import re

import numpy as np
import pytest

import pycudakit as pk

SOURCE = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
NAMES = [name for name in pk.__all__ if name not in ("__version__", "errors", "image", "linalg", "random")]
NAMES += [f"{room}.{name}" for room in ("image", "linalg", "random") for name in getattr(pk, room).__all__]


def places(thing):
    """Return the modules that a pickle names."""
    written = pickle.dumps(thing)
    return set(re.findall(r"pycudakit[a-z._]*", written.decode("latin-1")))


def found(name):
    thing = pk
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", NAMES)
def test_public_names(name):
    thing = found(name)
    room = ".".join(["pycudakit", *name.split(".")[:-1]])
    assert places(thing) <= {room, "pycudakit.kernels"}
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_results_and_records(engine):
    with pk.profile() as p:
        pk.add([1.0], [2.0])
    for thing in (p, pk.last_call(), pk.memory_info(), pk.engines()[engine]):
        assert places(thing) <= {"pycudakit"}
        assert str(pickle.loads(pickle.dumps(thing))) == str(thing)


class Scaled:
    """A class with a fused method."""

    def __init__(self, factor):
        self.factor = factor

    @pk.fuse
    def of(self, x):
        return x * self.factor


def test_fused_functions():
    fused = pk.fuse(np.sqrt, strict=True)
    assert b"_unpickle_fused" in pickle.dumps(fused)
    assert places(fused) == {"pycudakit"}
    assert isinstance(pickle.loads(pickle.dumps(fused)), pk.Fused)
    assert pickle.loads(pickle.dumps(fused))([4.0]) == [2]


def test_fused_methods():
    method = Scaled(3).of
    assert places(method) == set()
    copies = pickle.loads(pickle.dumps(method)), copy.deepcopy(method)
    assert [type(each) for each in copies] == [type(method)] * 2
    assert [each(np.ones(2)).tolist() for each in copies] == [[3, 3]] * 2


def test_results_of_explain(engine):
    def body(x):
        return x + float(np.mean(x))

    plan = pk.fuse(body).explain(np.ones(100_000))
    assert len(plan.breaks) == 1
    for thing in (plan, *plan.passes, *plan.breaks):
        assert places(thing) == {"pycudakit"}
        again = pickle.loads(pickle.dumps(thing))
        assert (type(again), again, str(again)) == (type(thing), thing, str(thing))


def test_ufuncs_of_a_fused_body(engine):
    """A body that reduces by a ufunc sees another object in its place; the pickle is the ufunc's."""
    kept = []

    @pk.fuse
    def body(x):
        kept.append(np.maximum)
        return np.maximum.reduce(x)

    body(np.ones(3))
    assert type(kept[0]) is not np.ufunc
    for thing in (kept[0], copy.deepcopy(kept[0])):
        assert places(thing) == set()
        assert pickle.loads(pickle.dumps(thing)) is np.maximum


def test_generators():
    rng = pk.random.default_rng(7)
    assert places(rng) == {"pycudakit.random"}
    assert (pickle.loads(pickle.dumps(rng)).random(3) == rng.random(3)).all()


def test_generators_of_earlier_pickles():
    """The contents of 0.1's first pickles."""
    rng = pk.random.default_rng(7)
    assert pickle.dumps(rng, 2).startswith(b"\x80\x02cpycudakit.random\n")


def test_kernels(engine):
    function = pk.SourceModule(SOURCE).get_function("twice")
    x = np.ones(4, np.float32)
    pickle.loads(pickle.dumps(function))(pk.InOut(x), block=4)
    assert (x == 2).all()
    assert {place for place in places(function) if "_" in place} == set()


def test_functions_that_name_the_package():
    """The objects that cloudpickle takes along from a notebook."""
    cloudpickle = pytest.importorskip("cloudpickle")
    root = cloudpickle.loads(cloudpickle.dumps(lambda x: pk.sqrt(x) + len(pk.__all__)))
    assert root(np.array([4.0])) == 2 + len(pk.__all__)
