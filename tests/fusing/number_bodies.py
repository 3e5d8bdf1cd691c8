"""Bodies of fused functions that use numbers otherwise than arithmetic and NumPy do."""

# ruff: noqa: B009, FURB164, ICN001, PLC3002, PLR0124, PLW0108, TRY301, UP031, UP032  (forms under test)
import collections
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import itertools
import json
import math
import numbers
import operator
import statistics
import struct
import typing

import numpy as np


class Point(typing.NamedTuple):
    """A named tuple of the user's."""

    low: float
    high: float


@dataclasses.dataclass
class Data:
    """A data class of the user's."""

    value: float
    name: str = "data"


HISTORY = []


class Recorder:
    """An object that looks at the type of all that it gets, and of the last item of a global list."""

    def __init__(self):
        self.seen = []

    def __call__(self, value):
        self.seen.append((type(value).__name__, repr(value), *[type(each).__name__ for each in HISTORY[-1:]]))
        return value

    def method(self, value):
        return self(value)

    def __setitem__(self, key, value):
        self((key, value)[1])

    def __contains__(self, value):
        self(value)
        return True

    def __add__(self, other):
        self(other)
        return 1.5

    __radd__ = __add__
    __array_ufunc__ = None

    @property
    def last(self):
        return self.seen[-1]

    def __setattr__(self, name, value):
        if name != "seen":
            self(value)
        object.__setattr__(self, name, value)


def by_json(x, _):
    m = x.max()
    return json.dumps({"max": m, "all": [x.min(), (x.mean(),)]})


def by_json_of_a_function(x, _):
    return json.dumps(peak_of(x))


def peak_of(x):
    return x.max()


def by_json_of_two_functions(x, _):
    return json.dumps({"low": outer_of(x)[0], "high": outer_of(x)[1]})


def outer_of(x):
    def both():
        return x.min(), peak_of(x)

    return both()


def by_timedelta(x, _):
    seconds = x.max()
    return datetime.timedelta(seconds=seconds) + datetime.timedelta(x.min()) * x.sum()


def by_decimal(x, _):
    return decimal.Decimal(x.max()), decimal.Decimal.from_float(x.min())


def by_fraction(x, _):
    return fractions.Fraction(x.max()), fractions.Fraction(3) * x.min()


def by_statistics(x, _):
    return (
        statistics.mean([x.max(), x.min()]),
        statistics.fmean((x.max(), 2)),
        statistics.median([x[0], x[1]]),
    )


def by_struct(x, _):
    return struct.pack("<dd", x.max(), x[3]) + struct.pack("<q", x.argmax())


def by_math(x, _):
    m, k = x.max(), x.argmax()
    return (
        math.sqrt(m), math.floor(m), math.ceil(m), math.trunc(m), math.hypot(m, 2), math.gcd(k, 6),
        math.isclose(m, m), math.prod([m, 2]), math.fsum([m, x.min()]), math.ldexp(m, 3), math.comb(k, 1),
        math.dist([m, 1], [2, x.min()]), math.copysign(1, x.min()), math.modf(m), math.frexp(m),
    )  # fmt: skip


def by_format(x, _):
    m, k = x.max(), x.argmax()
    return (
        f"{m} {m!r} {m:.3f} {k:05d} {k!s:>8}", "%s %r %.2f %d %x" % (m, m, m, k, k), "%d" % m,
        "{:.2e} {}".format(m, k), "{m:g}".format(m=m), format(m, ".1f"), str(m), repr(k), ascii(m),
    )  # fmt: skip


def by_printing(x, _):
    m = x.max()
    print(m, x.argmax(), [x.min()], {"m": m})  # noqa: T201
    return m


def by_isinstance(x, _):
    m, k = x.max(), x.argmax()
    types = (
        float,
        int,
        np.float64,
        np.int64,
        np.generic,
        np.number,
        np.ndarray,
        numbers.Real,
        numbers.Integral,
    )
    types += (collections.abc.Sized, collections.abc.Iterable, collections.abc.Hashable, object)
    return [(isinstance(m, each), isinstance(k, each)) for each in types], isinstance(m, (int, np.floating))


def by_abstract_class(x, _):
    m = x.max()
    return isinstance(m, collections.abc.Sized), isinstance(m, numbers.Real), isinstance(m, typing.Iterable)


def by_type(x, _):
    m = x.max()
    return type(m), type(x.argmax()) is np.int64, m.__class__, type(x[2]).__name__, issubclass(type(m), float)


def by_duck_typing(x, _):
    m = x.max()
    return hasattr(m, "__len__"), hasattr(m, "__iter__"), callable(m), getattr(m, "is_integer")(), dir(m)[:3]


def by_float_methods(x, _):
    m, k = x.max(), x.argmax()
    return m.is_integer(), m.hex(), m.as_integer_ratio(), float.hex(m), k.bit_count(), m.fromhex("0x1p3")


def by_numpy_methods(x, _):
    m, k = x.max(), x.argmax()
    return (
        m.item(),
        m.tolist(),
        m.real,
        m.imag,
        m.conj(),
        m.view("i8"),
        m.astype("f4"),
        k.dtype,
        m.shape,
        m.T,
        m.base,
    )


def by_conversions(x, _):
    m, k = x.max(), x.argmax()
    return (
        float(m),
        int(m),
        bool(m),
        complex(m),
        operator.index(k),
        round(m),
        round(m, 2),
        np.float32(m),
        np.int8(k),
    )


def by_truth(x, _):
    m = x.max()
    a = 1 if m else 2
    b = not m
    return (
        a,
        b,
        m and 3,
        m or 3,
        m > 2 and m < 100,
        0 < m < 1e9,
        (m == m) is np.True_,
        [1 for _ in range(3) if m > 1],
    )


def by_hash(x, _):
    m, k = x.max(), x.argmax()
    table = {m: 1, k: 2, "m": m}
    table[x.min()] = 3
    members = {m, k, x.max()}
    members.add(x.sum())
    return (
        table,
        sorted(members),
        hash(m),
        m in members,
        m in table,
        table[m],
        len({m, x.max()}),
        frozenset([m]),
    )


def by_identity(x, _):
    m = x.max()
    n = m
    return m is n, m is x.max(), m is not None, m is True, [m][0] is m


def by_ordering(x, _):
    values = [x[3], x[1], x[2]]
    values.sort()
    return values, sorted(x[:4]), max(x[0], x[1]), min(x[:3]), max(values, key=lambda v: -v), sum(values)


def by_itertools(x, _):
    pairs = list(itertools.pairwise([x[0], x[1], x[2]]))
    return pairs, list(itertools.accumulate([x.max(), x.min()])), functools.reduce(operator.add, [x.max(), 1])


def by_map(x, recorder):
    return (
        list(map(recorder, [x.max(), x.min()])),
        [*map(recorder, x[:3])],
        list(map(peak_of, [x])),
        recorder.seen,
    )


def by_callback(x, recorder):
    m = x.max()
    n = recorder(m) + 1
    return n, recorder.method(x.min()), recorder(x[3]), recorder.seen


def by_partial(x, recorder):
    call = functools.partial(recorder, x.max())
    return call(), recorder.seen


def by_closure(x, recorder):
    m = x.max()

    def inner():
        return recorder(m)

    return inner(), recorder.seen


def by_passed_closure(x, recorder):
    m = x.max()

    def inner(value):
        return [type(m).__name__, value, type(value).__name__]

    return list(map(inner, [x.min()])), recorder.seen


def by_default(x, recorder):
    def inner(value=x.max()):  # noqa: B008
        return recorder(value)

    return inner(), recorder.seen


def by_starred(x, recorder):
    def inner(*values, **named):
        return [recorder(each) for each in values], recorder(named["m"])

    return inner(x.max(), x.min(), m=x.sum()), recorder.seen


def by_attribute(x, recorder):
    recorder.value = x.max()
    data = Data(x.min())
    data.value = data.value + 1
    return data, type(data.value), recorder.seen


def by_item(x, recorder):
    recorder["m"] = x.max()
    return (x.min() in recorder), recorder.seen


def by_operator(x, recorder):
    return recorder + x.max(), x.min() + recorder, recorder.seen


def by_unpacking(x, recorder):
    a, b, *rest = x[:5]
    (c, d), e = (x.max(), x.min()), x.sum()
    return recorder(a), recorder(rest[0]), recorder(c), [b, d, e], recorder.seen


def by_iteration(x, recorder):
    total = 0
    for value in x[:4]:
        recorder(value)
        total += value
    for at, value in enumerate(x[:3]):
        recorder(value * at)
    for a, b in zip(x[:2], [x.max(), x.min()], strict=True):
        recorder(a), recorder(b)
    return total, recorder.seen


def by_loop(x, recorder):
    before = None
    for n in range(4):
        now = x[n] * 2
        if before is not None:
            recorder(before)
        before = now
    return before, recorder.seen


def by_walrus(x, recorder):
    if (m := x.max()) > 0:
        recorder(m)
    return m, recorder.seen


def by_containers(x, recorder):
    lists, table = [[x.max()]], {}
    lists.append([x.min(), x.sum()])
    table["a"] = lists
    table.setdefault("b", []).append(x.mean())
    for part in table["a"]:
        for value in part:
            recorder(value)
    return table, recorder.seen


def by_global_list(x, recorder):
    HISTORY.append(x.max())
    recorder(0)
    HISTORY[-1] = x.min() + 1
    recorder(1)
    return HISTORY.pop(), recorder.seen


def by_list_of_an_object(x, recorder):
    recorder.seen += [x.max()]
    recorder.seen.append(x.min())
    return [type(each) for each in recorder.seen], str(recorder.seen)


def by_alias_of_a_list(x, recorder):
    values = []
    other = values
    values.append(x.max())
    fill(other, x)
    recorder(other[0]), recorder(other[-1])
    return values, recorder.seen


def fill(values, x):
    values.append(x.min())


def by_comprehension(x, recorder):
    m = x.max()
    return [recorder(m * n) for n in range(2)], {n: recorder(x[n]) for n in range(2)}, recorder.seen


def by_generator(x, recorder):
    m = x.max()
    return sum(recorder(m * n) for n in range(3)), recorder.seen


def by_generator_function(x, recorder):
    def parts(y):
        sent = yield y.max()
        recorder(sent)
        yield from y[:2]
        yield from (value * 2 for value in y[:2])
        recorder((yield y.min()))
        return y.sum()

    def delegated(y):
        result = yield from parts(y)
        recorder(result)
        yield result

    return [recorder(each) for each in delegated(x)], list(parts(x * 2)), sum(parts(x)), recorder.seen


def by_generator_of_helpers(x, recorder):
    m = x.max()
    total = sum(each * m for each in (x.min(), x[3]))
    for each in (value + 1 for value in x[:2]):
        recorder(each)
    return total, json.dumps([each / 2 for each in x[:2]]), recorder(sum(v * m for v in x[:3])), recorder.seen


def by_exception(x, recorder):
    try:
        raise ValueError(x.max(), x.min())
    except ValueError as error:
        recorder(error.args[0])
    try:
        m = x.max()
        recorder.missing_method(m)
    except AttributeError:
        recorder(m)
    finally:
        n = x.sum()
    return recorder(n), recorder.seen


def by_with(x, recorder):
    with np.errstate(all="ignore"):
        m = np.log(x.min() - 1e9)
    return recorder(m), recorder.seen


def by_copy(x, _):
    m = x.max()
    return copy.copy(m), copy.deepcopy([m, x.min()])


def by_data_class(x, _):
    return Data(x.max()), Point(x.min(), x.max()), dataclasses.asdict(Data(x.sum()))


def by_array_of_objects(x, _):
    return np.array([x.max(), "text", None], dtype=object), np.array([x.max(), x.min()]), np.full(2, x.max())


def by_random(x, _):
    generator = np.random.default_rng(3)
    return generator.normal(x.mean(), x.sum(), 4), generator.integers(x.argmax() + 2, size=3)


def by_complex(x, _):
    m = x.max()
    return m + 1j, 1j * m, m**2, 2**m, m**0.5, m // 2, m % 3, -m, abs(m), divmod(m, 2), np.complex64(2) * m


def by_other_operands(x, _):
    k = x.argmax()
    return [1, 2] * k, "ab" * k, (3,) * k, np.timedelta64(3, "s") * k, k + np.float16(1), np.longdouble(2) * k


def by_refused_operands(x, _):
    m, said = x.max(), []
    for other in ("a", None, [1], ...):
        for operate in (lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a < b):
            try:
                said.append(operate(m, other))
            except TypeError:
                said.append("TypeError")
    return said


def by_index(x, _):
    k = x.argmax()
    return (
        x[k],
        x[:k].sum(),
        x[k % 5 :][0],
        [7, 8, 9, 10][k % 3],
        (1, 2, 3)[k % 3],
        {k: "k"}[k],
        list(range(k % 4)),
    )


def by_slices_of_lists(x, _):
    k = (x > 0).sum() % 4
    return [1, 2, 3, 4][:k], "abcdef"[k:], list(range(9))[k : k + 2], bytes(range(5))[:k]


def by_memory(x, _):
    return bytes(x.max()), memoryview(x.max()).nbytes, x.max().tobytes(), bytearray(x.max())


def by_recursion(x, recorder):
    return halved(x.max(), 3, recorder), recorder.seen


def halved(value, times, recorder):
    recorder(value)
    return value if times == 0 else halved(value / 2, times - 1, recorder)


def by_nested_tuples(x, recorder):
    both = ((x.max(), 1), [x.min()], {"s": x.sum()})
    (m, _), (n,), named = both
    return recorder(m), recorder(n), recorder(named["s"]), recorder.seen


def by_conditional_store(x, recorder):
    best = None
    for n in range(3):
        value = (x * n).sum()
        if best is None or value > best:
            best = value
    return recorder(best), recorder.seen


def by_swap(x, recorder):
    a, b = x.max(), x.min()
    a, b = b, a
    a, b, c = b, a, x.sum()
    return recorder(a), b, c, recorder.seen


def by_augmented_items(x, recorder):
    totals = {"a": 0.0}
    totals["a"] += x.max()
    sums = [0, 0]
    sums[1] -= x.min()
    recorder(totals["a"])
    return totals, sums, recorder.seen


def by_deleting(x, recorder):
    m = x.max()
    n = m
    del m
    return recorder(n), recorder.seen


def by_nonlocal(x, recorder):
    best = 0

    def look(y):
        nonlocal best
        best = y.max()

    look(x)
    recorder(best)
    look(x * 2)
    return recorder(best), recorder.seen


def by_integers(x, _):
    k = (x > 0).sum()
    return (
        k.bit_length() if hasattr(k, "bit_length") else 0,
        k / 2,
        k // 2,
        1 << (k % 5),
        ~k,
        int(k),
        json.dumps(int(k)),
    )


def by_booleans(x, _):
    flag = (x > 0).any()
    return (
        flag,
        not flag,
        flag and 1,
        bool(flag),
        flag is np.True_,
        flag is True,
        ~flag,
        flag | False,
        [0, 1][flag],
    )


def by_a_local_class(x, _):
    m = x.max()

    class Local:
        value = m

    return type(Local.value), Local.value


def by_match(x, _):
    match x.max():
        case np.float64() as value:
            return "np.float64", value
        case float() as value:
            return "float", value
    return "neither"


def by_match_of_parts(x, recorder):
    match (x.max(), {"low": x.min(), "rest": [x[1], x[2]]}):
        case (float() as high, {"low": low, **rest}):
            recorder(high), recorder(low), recorder(rest["rest"][0])
        case _:
            recorder("neither")
    match [x.sum(), *x[:3]]:
        case [first, second, *others]:
            recorder(first), recorder(second), recorder(others[0])
    match Data(x.max()):
        case Data(value=value):
            recorder(value)
    return recorder.seen


def by_global(x, recorder):
    global _LATEST  # noqa: PLW0603
    _LATEST = x.max()
    recorder(_LATEST)
    return latest(), recorder.seen


_LATEST = None


def latest():
    return type(_LATEST), _LATEST


def by_partial_function(x, recorder):
    scaled = functools.partial(halved, x.max(), recorder=recorder)
    return scaled(1), functools.partial(max, x.min())(x[1]), recorder.seen


def by_lambda(x, recorder):
    look = lambda value: recorder(value)  # noqa: E731
    return look(x.max()), (lambda: recorder(x.min()))(), recorder.seen


def by_sorting_by(x, _):
    return sorted([3, 1, 2], key=lambda v: v * x.max()), min([1, 2], key=lambda v: json.dumps(v * x.min()))


def by_logging(x, _):
    return (
        "%s" % x.max(),
        "{0!r} {0.real}".format(x.max()),
        f"{x.max() + 1:{10}.{3}}",
        "".join([str(x.min()), "!"]),
    )


NEED_SCALARS = [value for name, value in list(globals().items()) if name.startswith("by_")]
