"""Exact values of float reductions, as fractions, and the error of a result."""

import functools
import math
import re
from fractions import Fraction

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

import helpers.strategies as gen
import pycudakit as pk

INFINITY = math.inf


def parts(values):
    """Return finite floats as integers times one power of two, and its exponent."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    wholes, exponent = np.ldexp(fraction, 53).astype(np.int64), exponent.astype(int) - 53
    least = int(exponent.min(initial=0))
    return [w << e for w, e in zip(wholes.tolist(), (exponent - least).tolist(), strict=True)], least


def power_of_two(exponent):
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def total(values):
    """Return the sum and the sum of magnitudes of floats without NaN."""
    values = np.asarray(values, np.float64)
    infinite = values[np.isinf(values)]
    if infinite.size:
        with np.errstate(invalid="ignore"):
            largest = float(np.abs(values[np.isfinite(values)]).sum())
            return float(infinite.sum()), INFINITY if largest >= 2.0**1023 else 0
    wholes, least = parts(values)
    return sum(wholes) * power_of_two(least), sum(map(abs, wholes)) * power_of_two(least)


def inner(a, b):
    """Return the sum of products and the sum of their magnitudes."""
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        with np.errstate(all="ignore"):
            return float((np.clip(a, -2, 2) * np.clip(b, -2, 2) + (0 * a + 0 * b)).sum()), INFINITY
    (x, of_a), (y, of_b) = parts(a), parts(b)
    products = [p * q for p, q in zip(x, y, strict=True)]
    unit = power_of_two(of_a + of_b)
    return sum(products) * unit, sum(map(abs, products)) * unit


def squares(values, about_mean=True):
    """Return the sum of squared deviations from the mean, and a bound for its magnitudes."""
    if not np.isfinite(values).all():
        return math.nan, INFINITY
    wholes, least = parts(values)
    whole, second = sum(wholes), sum(w * w for w in wholes)
    unit = power_of_two(2 * least)
    if not about_mean:
        return second * unit, second * unit
    return Fraction(second * len(wholes) - whole**2, max(1, len(wholes))) * unit, 16 * second * unit


def product(values):
    """Return the product as a fraction, a zero, an infinity or NaN."""
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        with np.errstate(invalid="ignore"):
            return float(np.prod(np.sign(values) * np.where(np.isinf(values), np.inf, 1)))
    fraction, exponent = np.frexp(values)
    return math.prod(np.ldexp(fraction, 53).astype(np.int64).tolist()) * power_of_two(
        int(exponent.sum()) - 53 * values.size
    )


def root(value):
    """Return the root of a fraction to 200 bits."""
    if not isinstance(value, Fraction):
        return math.sqrt(value)
    if not value:
        return value
    shift = max(0, 200 + (value.denominator.bit_length() - value.numerator.bit_length()) // 2 + 1)
    return Fraction(math.isqrt((value.numerator << 2 * shift) // value.denominator), 1 << shift)


def unit_at(value, dtype):
    """Return the unit in the last place of a dtype at a value."""
    info = np.finfo(dtype)
    if not value:
        return Fraction(float(info.smallest_subnormal))
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if power_of_two(exponent) > abs(value):
        exponent -= 1
    return power_of_two(max(exponent, int(info.minexp)) - int(info.nmant))


def error(got, value):
    """Return the distance of a float from a fraction, an infinity or NaN."""
    if math.isnan(got) or not isinstance(value, Fraction):
        return 0 if got == value or (math.isnan(got) and math.isnan(value)) else INFINITY
    return INFINITY if math.isinf(got) else abs(Fraction(float(got)) - value)


def agrees(got, value, slack, ulps=0.501):
    """Return True if a float is the rounded value, within some ulps and a slack."""
    if slack == INFINITY:
        return True
    if isinstance(value, Fraction):
        limit = Fraction(float(np.finfo(got.dtype).max))
        unit = unit_at(limit, got.dtype)
        if abs(value) + slack >= limit + unit / 2 and np.isinf(got):
            return (got > 0) == (value > 0)
        return error(got, value) <= Fraction(ulps) * unit_at(value, got.dtype) + slack
    return error(got, value) == 0


def slack_of(kind, largest, size):
    """Return the error bound of accumulation in float64, relative to the magnitudes."""
    tiny = power_of_two(-1073) * size
    if largest == INFINITY or largest >= power_of_two(1023):
        return INFINITY  # a partial sum overflows
    return largest * power_of_two(-92 if kind == np.float64 else -46) + tiny


def expected(name, values, ddof=0, initial=None):
    """Return the exact value of a function of a row, and the slack; ddof and initial as in NumPy."""
    skips_nan = name.startswith("nan") and values.dtype.kind == "f"
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    values = values.astype(np.float64)
    if name.startswith("nan"):
        values, name = values[~np.isnan(values)], name[3:]
    if initial is not None:
        values = np.append(values, initial)
    if np.isnan(values).any():
        return math.nan, 0
    size = values.size
    if name == "prod":
        value = product(values)
        return value, abs(value) * size * power_of_two(-100) if isinstance(value, Fraction) else 0
    if name in ("sum", "mean"):
        value, largest = total(values)
        slack = slack_of(kind, largest, size)
        if name == "sum":
            return value, slack
        if not size:
            return math.nan, 0
        return (value / size, slack if slack == INFINITY else slack / size)
    if name == "norm":
        value, largest = (INFINITY, 0) if np.isinf(values).any() else squares(values, about_mean=False)
        return root(value), 0 if value == INFINITY else slack_of(kind, largest, size)
    value, largest = squares(values)
    freedom = size - ddof
    if freedom <= 0:
        return (math.nan if skips_nan or not isinstance(value, Fraction) or not value else INFINITY), 0
    slack = slack_of(kind, largest, size)
    if isinstance(value, Fraction):
        value /= Fraction(freedom)
        slack = slack if slack == INFINITY else slack / Fraction(freedom)
    if name == "std":
        if isinstance(value, Fraction) and slack != INFINITY and value:
            slack = min(slack / root(value), root(slack))
        elif slack != INFINITY:
            slack = root(Fraction(slack))
        value = root(value)
    return value, slack


def rows_of(array, axis, where=None):
    """Yield the elements of each result in turn."""
    axes = range(array.ndim) if axis is None or not array.ndim else normalize_axis_tuple(axis, array.ndim)
    kept = [d for d in range(array.ndim) if d not in axes]
    order = [*kept, *sorted(axes)]
    shape = (math.prod(array.shape[d] for d in kept), math.prod(array.shape[d] for d in axes))
    rows = array.transpose(order).reshape(shape)
    if where is None:
        return list(rows)
    masks = np.broadcast_to(where, array.shape).transpose(order).reshape(shape)
    return [row[mask] for row, mask in zip(rows, masks, strict=True)]


EXACT = {"sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd"}
TWICE_ROUNDED = {"var", "std", "nanvar", "nanstd", "prod", "nanprod"}


def function(kit, name):
    return getattr(kit.linalg if name == "norm" else kit, name)


def both(name, *arguments, warnings=True, words=False, **keywords):
    """Compare a call with NumPy; float sums are compared with the exact value. Return our outcome."""
    out = keywords.pop("out", None)
    outs = (None, None) if out is None else (out, out.copy())
    ours, numpys = (
        gen.outcome(
            functools.partial(
                function(kit, name), *arguments, **keywords, **({} if o is None else {"out": o})
            )
        )
        for kit, o in zip((pk, np), outs, strict=True)
    )
    context = f"{name}({gen.describe(*arguments)}, {gen.describe(*keywords.items())})"
    adds_up = name in EXACT and "ok" == ours[0] == numpys[0] and np.asarray(numpys[1]).dtype.kind == "f"
    if words and ours[0] == numpys[0] == "error":
        got, want = (re.sub(r"\s+", " ", str(outcome[1])) for outcome in (ours, numpys))
        assert got == want, f"{context}: {got!r}, not {want!r}"
    if adds_up:
        assert type(ours[1]) is type(numpys[1]), context
        check_rows(name, np.asarray(ours[1]), np.asarray(numpys[1]), arguments[0], keywords, context)
        if warnings and np.array_equal(np.isfinite(ours[1]), np.isfinite(numpys[1])):
            told, wanted = (
                {text.replace("scalar ", "").rstrip(".") for text in o[2]} for o in (ours, numpys)
            )  # NumPy ends the message with a full stop until 2.4
            assert told == wanted, f"{context}: warned {told}, not {wanted}"
    else:
        if not warnings:
            ours, numpys = ((*outcome[:2], set()) for outcome in (ours, numpys))
        gen.assert_same_outcome(ours, numpys, free_zero=True, strides=False, context=context)
        if out is not None:
            gen.assert_values(*outs, free_zero=True, context=context)
    if out is not None and ours[0] == "ok":
        assert ours[1] is out
    return ours[1]


def check_rows(name, got, numpys, array, keywords, context):
    """Compare results along an axis with the exact values."""
    assert got.dtype == numpys.dtype, f"{context}: {got.dtype}, not {numpys.dtype}"
    assert got.shape == numpys.shape, f"{context}: {got.shape}, not {numpys.shape}"
    where = keywords.get("where")
    rows = rows_of(np.asarray(array), keywords.get("axis"), None if where is True else where)
    ddof, initial = keywords.get("ddof", 0), keywords.get("initial")
    for i, row in enumerate(rows):
        value, slack = expected(name, row, ddof, initial)
        # Double rounding: by way of a wider float to a shorter one.
        ulps = 1.6 if name in TWICE_ROUNDED else 0.501
        result = got.reshape(-1)[i]
        close = agrees(result, value, slack, ulps)
        shown = float(value) if isinstance(value, float) or abs(value) < 10**300 else value
        assert close, f"{context}: row {i} got {result!r}, not {shown!r} (NumPy {numpys.reshape(-1)[i]!r})"
