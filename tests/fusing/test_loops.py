"""Loops until a computed number is small: calls with any number of iterations are replayed."""

import itertools

import numpy as np
import pytest
from helpers.nested import assert_near

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
TOLERANCE = 0.01
SCALES = (20.0, 20.0, 20.0, 2.0, 5.0, 20.0, 60.0, 1.0, 300.0, 0.001, 7.0)


def smoothed(x):
    y = x * 0.5
    y[1:-1] += (x[2:] + x[:-2]) * 0.125
    return y


def counted(x):
    turns, change = 0, 1.0
    while change > TOLERANCE:
        y = smoothed(x)
        change = np.max(np.abs(y - x))
        x = y
        turns += 1
    return x


def left_by_break(x):
    for _ in range(50):
        y = smoothed(x)
        if np.max(np.abs(y - x)) < TOLERANCE:
            break
        x = y
    return y, x


def with_change(x):
    while True:
        y = smoothed(x)
        change = np.abs(y - x).max()
        if change < TOLERANCE:
            return y, change, float(change) * 2
        x = y


def in_place(x, y):
    while np.max(np.abs(x)) > TOLERANCE:
        y += x
        x[:] = smoothed(x)
    return y.sum()


def in_helper(x):
    def is_done(x, y):
        return np.max(np.abs(y - x)) < TOLERANCE

    y = smoothed(x)
    while not is_done(x, y):
        x, y = y, smoothed(y)
    return x + y


def two_loops(x):
    while x.max() > 1:
        x = x * 0.75
    y = x + 1
    while y.max() > 0.1:
        y = y * 0.5 - x * 0.01
    return x, y


def quiet(x):
    y = x
    with np.errstate(divide="ignore"):
        while np.max(x) > 1:
            x = x * 0.5
            y = 1 / x
    return x, y


def with_turns(x):
    turns = 0
    while np.max(x) > 1:
        x = x * 0.5
        turns += 1
    return x, (turns, np.sum(x), turns)


def turns_alone(x):
    turns, unused = 7, 0
    while np.max(x) > 1:
        x *= 0.5
        turns += 3
        unused += 1
    return turns


def turns_of_for(x):
    for turn in range(100):  # noqa: B007
        if np.max(x) < 1:
            break
        x = x * 0.75
    return turn, x


def momentum(x):
    rate, moved = 0.9, x * 0
    while np.dot(x, x) > TOLERANCE:
        moved = rate * moved - 0.1 * x
        x = x + moved
    return x, moved


def conjugate_gradients(x):
    b = x + 1
    x = np.zeros_like(b)
    r = b - (2.5 * x - 0.5 * np.roll(x, 1))
    p, rs = r, np.dot(r, r)
    while np.sqrt(rs) > 1e-8:
        q = 2.5 * p - 0.25 * np.roll(p, 1) - 0.25 * np.roll(p, -1)
        alpha = rs / np.dot(p, q)
        x = x + alpha * p
        r = r - alpha * q
        new = np.dot(r, r)
        p = r + (new / rs) * p
        rs = new
    return x


REPLAYED_WITH_ANY_COUNT = (
    counted,
    with_change,
    in_place,
    in_helper,
    two_loops,
    momentum,
    with_turns,
    turns_alone,
    conjugate_gradients,
)
REPLAYED_WITH_FEWER = (left_by_break, turns_of_for)


def turns_and_more(x):
    turns = 0
    while np.max(x) > 1:
        x = x * 0.5
        turns += 1
    return x * 2, turns, turns + 1


def turns_by_two(x):
    turns = 0
    while np.max(x) > 1:
        x = x * 0.5
        turns = turns * 2 + 1
    return x, turns


def turns_that_count(x):
    turns = 0
    while np.max(x) > 1:
        x = x * (0.5 if turns < 5 else 0.25)
        turns += 1
    return x, turns


def counted_in_turns(x):
    turns, skipped = 0, 0
    while np.max(x) > 1:
        x = x * 0.5
        turns += 1
        if turns > 6:
            skipped += 1
    return x, skipped


def first_ones(x):
    turn, kept = 0, x
    while np.max(x) > 1:
        if turn == 2:
            kept = x
        x = x * 0.5
        turn += 1
    return x, kept


def alternates(x):
    turn = 0
    while np.max(x) > 1:
        x = x * (0.5 if turn % 3 else 0.75)
        turn += 1
    return x


def collects(x):
    all_values, largest = [], x.max()
    while largest > 1:
        x = x * 0.5
        largest = x.max()
        all_values.append(largest)
    return x, all_values


def uses_turn_later(x):
    turn = 0
    while np.max(x) > 1:
        x = x * 0.5
        turn += 1
    return x * turn


def deferred_product(x):
    for turn in range(40):
        x = x * 0.5
        y = x * turn
        if np.max(x) < 1:
            break
    return y


def swaps(x, y):
    while np.max(x) + np.max(y) > 1:
        x[:] = y * 0.5
        x, y = y, x
    return x - y


def nested(x):
    for turn in range(3):
        while np.max(x) > turn:
            x = x * 0.5
        x = x + 10 * turn
    return x


def bounded(x):
    turn = 0
    while np.max(x) > 1 and turn < 9:
        x = x * 0.5
        turn += 1
    return x


def changes_list(x):
    parts, steps = [x, x], [0]
    while np.max(parts[0]) > 1:
        parts[0] = parts[0] * 0.5
        steps[0] += 1
    return parts[0], parts[1], steps


def by_iterator(x):
    factors = iter([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.1])
    while np.max(x) > 1:
        x = x * next(factors)
    return x


def closure(x):
    turn = 0

    def scaled():
        return x * turn

    while np.max(x) > 1:
        x = x * 0.5
        turn += 1
    return scaled()


def default_of_lambda(x):
    turn = 0
    while np.max(x) > 1:
        x = x * 0.5
        turn += 1
        scale = lambda a, turn=turn: a * turn  # noqa: E731
    return scale(x) if turn else x


def sums_of_all(x):
    total = x * 0
    while np.max(x) > 1:
        x = x * 0.5
        total = total + x
    return total


def element_of_turn(x):
    turn = 0
    while x[turn] > 0.5:
        x = x * 0.7
        turn += 1
    return x


def two_exits(x):
    while True:
        x = x * 0.5
        if np.max(x) < 1:
            return x
        if np.min(x) > 15:
            return -x


def counts_down(x):
    left = 30
    while np.max(x) > 1:
        x = x * 0.5
        left -= 1
    return np.arange(left) + x[0]


def shadowed(x):
    y = x
    while np.max(x) > 1:
        x, z = x * 0.5, x
        del y
        y = z
    return y


def doubles(x):
    size = 1
    while np.max(x) > 1:
        x = x * 0.5
        size *= 2
    return size


def in_a_ring(x):
    slot = 0
    while np.max(x) > 1:
        x = x * 0.5
        slot += 1
        slot %= 10
    return slot


def empty_range(x):
    todo = range(0)
    while np.max(x) > 1:
        x = x * 0.5
    for i in todo:
        x = x + i
    return x.sum()


def float_or_scalar(x):
    y = np.arange(2, dtype=np.float32)
    total, turn = np.max(y) + 1, 0
    factor = total
    while np.max(x) > 1:
        x = x * 0.5
        turn += 1
        factor = float(total) if turn < 4 else total.astype(np.float64)
    return y * factor, x[:2] * factor


def by_bound_method(x):
    take = [float(i) for i in range(60)].pop
    while np.max(x) > 1:
        x = x * 0.5
        take()
    return x.max() * take()


def comparison_of_comparison(x):
    turn, largest = 0, float(np.max(x))
    while (turn < 5) == (largest > 1):
        x = x * 0.5 if turn < 6 else x * 3
        turn += 1
        largest = float(np.max(x))
    return x.max()


def range_to_turn(x):
    turn, steps = 0, range(1)
    while np.max(x) > 1:
        x = x * 0.5
        turn += 1
        steps = range(0, turn, 100)
    return x.max() * steps.stop


def identity(x):
    same, turn = x, 0
    while np.max(x) > 1:
        x = x * 0.5
        turn += 1
        same = x[:] if turn < 4 else x
    return x.max() * (2 if same is x else 3)


OTHERS = (
    *(
        doubles,
        in_a_ring,
        empty_range,
        float_or_scalar,
        by_bound_method,
        comparison_of_comparison,
        range_to_turn,
    ),
    identity,
    *(
        turns_and_more,
        turns_by_two,
        turns_that_count,
        counted_in_turns,
        first_ones,
        alternates,
        collects,
        uses_turn_later,
        deferred_product,
        swaps,
        nested,
        bounded,
    ),
    *(
        changes_list,
        by_iterator,
        closure,
        default_of_lambda,
        sums_of_all,
        element_of_turn,
        two_exits,
        counts_down,
    ),
    *(shadowed, quiet),
)


def arguments(body, scale, size):
    rng = np.random.default_rng(7)
    return [rng.random(size) * scale for _ in range(body.__code__.co_argcount)]


def compare(fused, body, scale, size):
    gots, wants = arguments(body, scale, size), arguments(body, scale, size)
    assert_near([fused(*gots), gots], [body(*wants), wants])


@pytest.mark.parametrize("size", [40, 9000])
@pytest.mark.parametrize("body", [*REPLAYED_WITH_ANY_COUNT, *REPLAYED_WITH_FEWER, *OTHERS])
def test_any_number_of_iterations(engine, body, size):
    fused = pk.fuse(body)
    for scale in SCALES:
        compare(fused, body, scale, size)
    for scale in reversed(SCALES):
        compare(fused, body, scale, size)


@pytest.mark.parametrize("body", [*REPLAYED_WITH_ANY_COUNT, *REPLAYED_WITH_FEWER])
def test_other_numbers_of_iterations_are_replayed(engine, body):
    if engine == "auto":  # which may choose NumPy
        pytest.skip("is not replayed")
    fused = pk.fuse(body)
    most = max(SCALES) if body in REPLAYED_WITH_FEWER else 20.0
    for scale in (most, most, most, 5.0, 60.0, 9.0, 100.0):
        compare(fused, body, min(scale, most) if body in REPLAYED_WITH_FEWER else scale, 500)
    assert fused._traced.plans.captured == 1
    assert "replayed" in pk.last_call().reason


def test_one_more_number_of_iterations_than_the_function_allows(engine):
    """The function ends its loop after 50 iterations, whatever was captured before."""
    fused = pk.fuse(left_by_break)
    for scale in (1.0, 1.0, 1.0, 1e9, 1.0, 1e20, 1e30):
        compare(fused, left_by_break, scale, 300)


def grows_unused(x):
    unused = x * 1e200
    while np.max(x) > 1:
        x = x * 0.5
        unused = unused * 1e15
    return x.max()


def test_additional_iterations_warn(engine):
    fused = pk.fuse(grows_unused)
    for scale in (20.0, 20.0, 20.0, 20.0):
        compare(fused, grows_unused, scale, 50)
    for scale in (400.0, 4000.0):
        with pytest.warns(RuntimeWarning, match="overflow"):
            fused(np.linspace(0.1, 1, 50) * scale)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        fused(np.linspace(0.1, 1, 50) * 4000.0)


def test_additional_iterations_raise(engine):
    def body(x):
        unused = 1.5
        while np.max(x) > 1:
            x = x * 0.5
            unused = unused**2
        return x.max()

    fused = pk.fuse(body)
    for scale in (150.0, 150.0, 150.0):
        compare(fused, body, scale, 50)
    with pytest.raises(OverflowError):
        fused(np.linspace(0.1, 1, 50) * 40000.0)


def test_loops_with_generated_bodies(engine):
    """Each body has three of these statements in its loop, and one result."""
    statements = [
        "x = x * 0.5",
        "x = x * 0.5 + y * 0.01",
        "y = x + y * 0.25",
        "x, y = y * 0.5, x * 0.5",
        "x[1:] = x[:-1] * 0.5",
        "n += 1",
        "z = y",
        "z = (x, n)",
        "w[0] = x.sum()",
        "y = y - x * n if n < 4 else y * 0.5",
        "k = float(np.mean(y))",
        "y = y * 0.5 + k * 0.1",
    ]
    results = ["x", "(x, y)", "(y, n)", "z", "x + n", "(w, x)", "(k, y)"]
    rng = np.random.default_rng(11)
    cases = list(itertools.product(itertools.combinations(statements, 3), results))
    for index in rng.permutation(len(cases))[:120]:
        chosen, result = cases[index]
        lines = ["def body(x, y):", "    n, k, z, w = 0, 0.5, y, [0.0]", "    while np.max(np.abs(x)) > 1:"]
        lines += [f"        {line}" for line in (*chosen, "x = x * 0.75")]
        scope = {"np": np}
        exec("\n".join([*lines, f"    return {result}"]), scope)
        body = scope["body"]
        fused = pk.fuse(body)
        for scale in (20.0, 20.0, 20.0, 5.0, 60.0, 2.0, 9.0):
            compare(fused, body, scale, 30)
