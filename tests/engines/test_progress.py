"""Long calls report their progress: sorts by passes, products by panels, and never more than all."""

import functools

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._families.matmul import matmul
from pycudakit._runtime import progress


@pytest.fixture(autouse=True)
def _report_at_once(monkeypatch):
    monkeypatch.setattr(progress, "FIRST_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "REPORT_INTERVAL", 0.0)


_LONG = {
    "sort": pk.sort,
    "argsort": pk.argsort,
    "unique": pk.unique,
    "unique with its inverse": functools.partial(pk.unique, return_inverse=True),
    "histogram": functools.partial(pk.histogram, bins=1000),
}


@pytest.mark.parametrize("function", _LONG.values(), ids=_LONG)
def test_progress_between_the_passes(engine, function):
    x = np.random.default_rng(1).standard_normal(1 << 20)
    between, reports = set(), []
    while len(between) < 2 and x.size < 1 << 28:  # the library reports at most every 50 ms
        x = np.concatenate([x, x])
        reports.clear()
        with pk.engine(engine, progress=lambda *report: reports.append(report)):
            function(x)
        between |= {done for done, _ in reports if 0 < done < x.size}
    assert {total for _, total in reports} == {x.size}
    done = [done for done, _ in reports]
    assert done == sorted(done)
    assert done[-1] == x.size
    assert len(between) >= 2


@pytest.mark.cpu
@pytest.mark.parametrize("precision", ["highest", "exact"])
@pytest.mark.parametrize("shape", [(640, 200), (3, 200, 200)])
def test_progress_of_products_by_blas(monkeypatch, precision, shape):
    monkeypatch.setattr(matmul, "_PATIENCE", 1e-7)
    a, b = np.ones(shape, np.float32), np.ones((200, 50), np.float32)
    reports = []
    with pk.engine("cpu", progress=lambda *report: reports.append(report)):
        product = pk.matmul(a, b, precision=precision)
    assert (product == 200).all()
    size = product.size
    assert {total for _, total in reports} == {size}
    done = [done for done, _ in reports]
    assert done == sorted(done)
    assert done[-1] == size
    assert len({each for each in done if 0 < each < size}) >= 2


@pytest.mark.cpu
def test_an_exception_in_the_progress_of_a_product_ends_it(monkeypatch):
    monkeypatch.setattr(matmul, "_PATIENCE", 1e-7)

    def stop(done, total):
        raise RuntimeError("enough")

    with pk.engine("cpu", progress=stop), pytest.raises(RuntimeError, match="enough"):
        pk.matmul(np.ones((640, 200)), np.ones((200, 50)))
