"""What the programs of `constructs` call: this source is executed in a module of its own."""

import collections
import contextlib
import dataclasses
import functools
from typing import Any

import numpy as np

DATA: Any = None
KEPT: list[Any] = []


class Box:
    scale = 2

    def __init__(self, a, b=None):
        self.a, self.b = a, b

    def __getitem__(self, index):
        return self.a[index]

    def __setitem__(self, index, value):
        self.a[index] = value

    def __iter__(self):
        return iter([self.a, self.b])

    def __len__(self):
        return 2

    def __call__(self, v):
        self.a[1] = 7
        return (v + self.a) % 29

    def __enter__(self):
        self.a[2] += 1
        return self.a

    def __exit__(self, *error):
        self.a[4] = 3
        return error[0] is KeyError

    def __add__(self, other):
        self.a[:3] = 5
        return (self.a + other) % 31

    def __iadd__(self, other):
        self.a[5:] += 1
        self.a %= 47
        return self

    def __eq__(self, other):
        self.a[6] = 1
        return True

    def __hash__(self):
        return 3

    @property
    def top(self):
        return self.a[:2]

    @property
    def bumped(self):
        self.a[3] += 1
        return 2

    @staticmethod
    def double(v):
        return (v * 2) % 43

    @classmethod
    def of(cls, v):
        return cls(v, v[::-1])

    def step(self, v):
        old = self.a * self.scale % 37
        self.a[1:-1] = (self.a[2:] + v[:-2]) % 19
        return old

    def renew(self):
        self.a = (self.a + 1) % 23
        return self


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Lazy:
    def __init__(self, a):
        self.__dict__["held"] = a

    def __getattr__(self, name):
        if name.startswith("__") or name == "b":
            raise AttributeError(name)
        self.held[3] += 2
        return self.held

    def __setattr__(self, name, value):
        self.held[2:4] = value[2:4]


class Child(Box):
    def step(self, v):
        return (super().step(v) + 1) % 37


class Sub(Box):
    scale = 3

    def __setattr__(self, name, value):
        if name == "b":
            self.a[7] = 2
        super().__setattr__(name, value)


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024


@dataclasses.dataclass
class Record:
    a: object = None
    b: object = None
    items: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.items.append(self.a)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object = 1


class Ring(list):
    def append(self, value):
        value[0] = 9
        super().append(value)


class Table(dict):
    def __missing__(self, key):
        DATA.a[2] = 8
        return DATA.a


def write_global(n):
    DATA.a[n::3] = n
    return n


def read_global(n):
    return int(DATA.a[n])


def helped(a, b, *more, n=2, **named):
    out = (a * n + b) % 41
    for each in more:
        each[:3] = n
    if "c" in named:
        named["c"][1::2] += 1
    return out


def recurse(a, n):
    if n == 0:
        return a
    a[n] += 1
    return recurse((a + n) % 53, n - 1)


def walk(a, depth):
    if depth:
        a[depth:-depth] += 1
        walk(a[::-1], depth - 1)


def produce(a, n):
    for i in range(n):
        yield (a + i) % 17
        a[i] = i + 1


def delegate(a):
    yield from produce(a, 2)
    yield a


def receive(a):
    while True:
        got = yield a.sum()
        if got is None:
            return
        a[1:-1] = (a[2:] + got[:-2]) % 23


def traced_twice(function):
    @functools.wraps(function)
    def inner(*args, **named):
        DATA.a[0] += 1
        return function(*args, **named)

    return inner


@traced_twice
def decorated(a, b=1):
    return (a + b) % 47


@contextlib.contextmanager
def changed(a):
    a[3:5] += 1
    try:
        yield a
    finally:
        a[2] = 6


def fails(a, n):
    a[n] = 2
    raise ValueError(f"failed {n}")


def keep_all(*arrays):
    KEPT.extend(arrays)


def change_kept(n):
    for each in KEPT:
        if isinstance(each, np.ndarray) and each.flags.writeable:
            each[n % 7] = n


def pick(a, b):
    return a if a[3] > b[3] else b


def later(a):
    return lambda n=0: a.sum() + n
