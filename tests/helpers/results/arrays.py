"""Digest cases of sorting, sets, products, interpolation, indexing and joining."""

import numpy as np

import pycudakit as pk
from helpers import hashed
from helpers.hashed import ordinary, uniform, whole
from helpers.results.common import GROUPS, LONG, layouts


def sort():
    for group, dtypes in GROUPS.items():
        found = {}
        for dtype in dtypes:
            (edges,) = hashed.operands(dtype, 1)
            matrix, known = ordinary(dtype, (23, 90), 5), np.unique(ordinary(dtype, 40, 6))
            if matrix.dtype.kind == "f":
                edges = edges[~(np.signbit(edges) & (edges == 0))]  # unique may keep either of equal values
            calls = {
                "sort": [
                    pk.sort(edges),
                    pk.sort(matrix, axis=0),
                    pk.sort(matrix),
                    pk.sort(matrix, axis=None),
                ],
                "argsort": [pk.argsort(edges), pk.argsort(matrix, axis=0), pk.argsort(matrix)],
                "descending": [pk.sort(edges, descending=True), pk.argsort(matrix, descending=True)],
                "partition": [pk.partition(matrix, 7), pk.argpartition(matrix, (3, 40), axis=1)],
                "topk": [*pk.topk(edges, 9), *pk.topk(matrix, 4, largest=False), *pk.topk(matrix, 3, axis=0)],
                "unique": [pk.unique(edges), *pk.unique(matrix, True, True, True), pk.unique_values(matrix)],
                "unique along": [
                    *pk.unique(matrix // 50 if dtype != "bool" else matrix, axis=0, return_counts=True)
                ],
                "searchsorted": [pk.searchsorted(known, matrix, side) for side in ("left", "right")],
                "sets": [
                    pk.isin(matrix, known[::2]),
                    pk.union1d(matrix[:2], known),
                    pk.intersect1d(matrix[0], known),
                    *pk.intersect1d(matrix[1], known, return_indices=True),
                    pk.setdiff1d(known, matrix[0]),
                    pk.setxor1d(known, matrix[0]),
                ],
                "lexsort": [pk.lexsort([matrix[0], matrix[1]]), pk.lexsort(matrix[:3, ::-1])],
            }
            for name, results in calls.items():
                found.setdefault(name, []).extend(results)
        for name, results in found.items():
            yield f"{name} {group}", results
    long = hashed.words(LONG, 7)
    yield "sort long", [pk.sort(long), pk.argsort(long >> np.uint64(50)), pk.sort(long.view(np.int32))]
    yield "argsort layouts", [pk.argsort(x, axis=0) for x in layouts(ordinary("float32", (50, 20), 8))]


def _products(dtype):
    """Yield a name and a product each; floats are small whole numbers, so that no sum is rounded."""
    high = 2 if dtype == "bool" else 5
    low = -4 if np.dtype(dtype).kind in "if" else 0
    a, b = whole((37, 45), low, high, 1, dtype), whole((45, 29), low, high, 2, dtype)
    u, v, stack = a[0], b[:, 0], whole((3, 29, 37), low, high, 3, dtype)
    yield (
        "matmul",
        [pk.matmul(a, b), pk.matmul(stack, a), pk.matmul(a, v), pk.matmul(u, b), pk.matmul(b.T, a.T)],
    )
    yield "dot", [pk.dot(u, v), pk.dot(a, b), pk.vdot(a[:, :29], a[:, 5:34]), pk.vecdot(a, u), pk.inner(u, v)]
    yield (
        "tensors",
        [pk.tensordot(a, a, ([0], [0])), pk.outer(u, v), pk.kron(a[:3, :4], b[:5, :2]), pk.inner(a, u)],
    )
    subscripts = {"ij,jk->ki": (a, b), "ij->j": (a,), "ii": (a[:20, :20],), "aij,jk->aik": (stack, a)}
    yield "einsum", [pk.einsum(text, *given) for text, given in subscripts.items()]
    yield "trace", [pk.trace(a), pk.trace(stack, 1, axis1=1, axis2=2)]
    if dtype != "bool":
        yield "matrix_power", [pk.linalg.matrix_power(a[:9, :9] % 2, 3)]


def matmul():
    for group, dtypes in GROUPS.items():
        found = {}
        for dtype in dtypes:
            for name, results in _products(dtype):
                found.setdefault(name, []).extend(results)
        for name, results in found.items():
            yield f"{name} {group}", results
    whole_numbers = whole((200, 150), -50, 51, 4, "int32")
    yield "matmul larger", [pk.matmul(whole_numbers, whole_numbers.T)]


def interp():
    points, values = np.cumsum(whole(200, 1, 9, 1)) / 8, ordinary("float64", 200, 2)
    x = uniform((40, 50), 3) * 150 - 10
    yield "interp", [pk.interp(x, points, values), pk.interp(np.sort(x, axis=None), points, values)]
    yield "ends", [pk.interp(x, points, values, left=-1.5, right=np.nan)]
    yield "period", [pk.interp(x * 5, points[::-1], values, period=77)]
    yield (
        "dtypes",
        [pk.interp(ordinary(d, 300, 4), points, values.astype("f4")) for d in ("int16", "float32")],
    )
    yield "long", [pk.interp(uniform(LONG, 5) * 130, points, values)]


def take():
    for group, dtypes in GROUPS.items():
        results = []
        for dtype in dtypes:
            a, places = ordinary(dtype, (30, 40), 1), whole((7, 9), -30, 30, 2)
            results += [
                pk.take(a, places),
                pk.take(a, places, axis=0),
                pk.take(a[:, ::2], abs(places) % 20, axis=1),
            ]
            results += [pk.take(a, places * 99, mode=mode) for mode in ("wrap", "clip")]
            results += [pk.take_along_axis(a, whole((30, 5), 0, 40, 3), 1), pk.compress(a[0] > 0, a, axis=1)]
            results += [*pk.nonzero(a), pk.flatnonzero(a), pk.argwhere(a[:9])]
        yield f"take {group}", results
    joined = [ordinary("float32", (9, 12), 4), ordinary("float32", (9, 12), 5)]
    yield "joining", [pk.concatenate(joined), pk.concat(joined, axis=1), pk.stack(joined, axis=2)]
    yield (
        "repeat",
        [
            pk.repeat(joined[0], 3, axis=1),
            pk.repeat(joined[0][0], whole(12, 0, 4)),
            pk.tile(joined[1], (2, 3)),
        ],
    )
    modes = [
    "constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "linear_ramp",
]  # fmt: skip
    yield "pad", [pk.pad(joined[0], ((1, 2), (3, 0)), mode=mode) for mode in modes]
    yield (
        "gradient",
        [*pk.gradient(joined[0]), pk.gradient(joined[1], 0.5, axis=1), pk.trapezoid(joined[0], dx=0.25)],
    )
    yield "cross", [pk.cross(ordinary("float64", (20, 3), 6), ordinary("float64", (20, 3), 7))]
    signal, window = whole(400, -9, 10, 8).astype(float), np.array([1.0, -2.0, 4.0])
    yield "convolve", [pk.convolve(signal, window, mode) for mode in ("full", "same", "valid")]
    yield (
        "correlate",
        [pk.correlate(signal, window, "full"), pk.correlate(whole(99, 0, 9), whole(7, -3, 3), "same")],
    )
    centred = np.concatenate([whole((3, 32), -9, 10, 9), -whole((3, 32), -9, 10, 9)], axis=1).astype(float)
    yield "cov", [pk.cov(centred), pk.cov(centred, ddof=0)]
