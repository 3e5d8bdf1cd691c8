"""Digest cases of elementwise functions, casts, copies, and `evaluate`."""

import numpy as np

import pycudakit as pk
from helpers import hashed
from helpers.hashed import FLOATS, INTEGERS, ordinary, uniform, whole
from helpers.results.common import GROUPS, LONG, attempt, layouts

# fmt: off
_ROUNDING = {"floor", "ceil", "trunc", "rint"}
UNARY = [
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos",
    "cosh", "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "floor", "frexp", "invert", "isfinite",
    "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "modf", "negative", "positive",
    "rad2deg", "radians", "reciprocal", "rint", "sign", "signbit", "sin", "sinc", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc", "nan_to_num",
]
BINARY = [
    "add", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "divide", "divmod", "equal",
    "float_power", "floor_divide", "fmax", "fmin", "fmod", "gcd", "greater", "greater_equal", "heaviside",
    "hypot", "lcm", "ldexp", "left_shift", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter", "not_equal", "power",
    "remainder", "right_shift", "subtract", "isclose",
]
# fmt: on


def elementwise():
    for name in UNARY + BINARY:
        function, count = getattr(pk, name), 1 if name in UNARY else 2
        for group, dtypes in GROUPS.items():
            if group == "integers" and name in _ROUNDING:
                continue
            results = []
            for dtype in dtypes:
                given = hashed.operands(dtype, count)
                if name == "power" and given[0].dtype.kind == "i":
                    given[1] = np.where(given[1] < 0, ~given[1], given[1])
                if name == "ldexp":
                    given[1] = whole(given[0].size, -40, 40, 5, "int32")
                results.append(attempt(function, *given))
            yield f"{name} {group}", results
    everything = [*INTEGERS, *FLOATS]
    for dtype in everything:
        (source,) = hashed.operands(dtype, 1)
        yield f"astype {dtype}", [pk.astype(source, to) for to in everything]
    for name in ("add", "multiply", "divide", "less", "maximum", "power", "floor_divide"):
        pairs = [(ordinary(a, 50, 1), np.abs(ordinary(b, 50, 2))) for a in everything for b in everything]
        yield f"{name} mixed", [attempt(getattr(pk, name), a, b) for a, b in pairs]
    a, b = ordinary("float32", (37, 65), 1), ordinary("float64", (37, 65), 2)
    yield "subtract layouts", [pk.subtract(x, y) for x in layouts(a) for y in layouts(b)]
    yield (
        "multiply broadcast",
        [pk.multiply(a, b[:1]), pk.multiply(a[:, :1], b), pk.multiply(a[0], b[:, None])],
    )
    yield "add out where", [pk.add(a, b, out=np.zeros((37, 65)), where=a > 0)]
    yield "exp large", [pk.exp(uniform(LONG, 3, "float32")), pk.sin(uniform(LONG, 4) * 1e6)]
    yield "where", [pk.where(a > 0, a, b), pk.where(a > 1, 1.5, b), pk.where(whole(90, 0, 2), np.int8(1), 2)]
    yield "clip", [pk.clip(a, -1, 2.5), pk.clip(a, None, b), pk.clip(whole(99, -9, 9, 1, "int16"), -3, 4)]
    yield "round", [pk.round(b, n) for n in (-1, 0, 1, 3)] + [pk.around(a, 2)]
    yield "allclose array_equal", [pk.allclose(a, a), pk.allclose(a, b), pk.array_equal(b, b)]
    yield (
        "copies",
        [
            *(pk.flip(a, axis) for axis in (None, 0, 1)),
            *(pk.roll(a, n, axis) for n, axis in ((3, None), (-2, 1))),
            *(function(a) for function in (pk.tril, pk.triu, pk.transpose)),
            pk.ascontiguousarray(a.T),
            pk.swapaxes(b, 0, 1),
        ],
    )


_EXPRESSIONS = [
    "a + b * 2 - c", "sqrt(a*a + b*b) / 2", "where(a > b, a, -b)", "exp(-a*a) * sin(b) + log1p(abs(c))",
    "(i & 7) | (i << 2) ^ ~i", "i // 3 + i % 5", "0 < a < 1 and b > 0 or not c", "a if a > 0 else i",
    "clip(a, -1, 1) ** 3", "round(b, 1)", "astype(b * 4, int8) & 3", "maximum(a, f) + f", "f * f + 1",
    "sum(a * b)", "max(abs(a - b), axis=0)", "mean(f, axis=1)", "std(a - c, axis=0, ddof=1)", "argmin(a + b)",
    "any(i > 98)", "count_nonzero(i % 2)", "prod(f / 8, axis=1)",
]  # fmt: skip


def expression():
    values = {
        "a": ordinary("float64", (60, 31), 1),
        "b": uniform((60, 31), 2),
        "c": ordinary("float64", 31, 3),
    }
    values |= {"i": ordinary("int32", (60, 31), 4), "f": ordinary("float32", (60, 31), 5)}
    for text in _EXPRESSIONS:
        yield text, [pk.evaluate(text, values)]
    out = np.empty((60, 31))
    pk.evaluate("out - 1", {"out": values["b"]}, out=out)
    yield "out", [out]
