"""The stream of Philox4x64-10 (Salmon et al. 2011), as in NumPy: its state, and single words of it.

Philox is counter-based: a block of four words is a function of the key and a counter, so that any word can be
computed by its index.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_WORD = (1 << 64) - 1
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_PERIOD = 4 << 256  # words
_JUMP = 4 << 128
_SUBSTREAM = 512 << 240  # counter bits beyond those from which an element of pk_random draws further words

# Held while a generator's position changes, so that threads that share it draw different numbers.
_changing = threading.RLock()


def _begin_unlocked() -> None:
    global _changing  # noqa: PLW0603
    _changing = threading.RLock()


os.register_at_fork(after_in_child=_begin_unlocked)

Key = tuple[int, int]


def block(key: Key, counter: int) -> tuple[int, int, int, int]:
    """Compute the block of four words of a counter value."""
    a, b, c, d = (counter >> shift & _WORD for shift in (0, 64, 128, 192))
    key0, key1 = key
    for _ in range(10):
        first, second = _FACTORS[0] * a, _FACTORS[1] * c
        a, b, c, d = (second >> 64) ^ b ^ key0, second & _WORD, (first >> 64) ^ d ^ key1, first & _WORD
        key0, key1 = key0 + _STEPS[0] & _WORD, key1 + _STEPS[1] & _WORD
    return a, b, c, d


def word_at(key: Key, index: int) -> int:
    """Compute the word of an index, from 0."""
    return block(key, counter_of(index))[index % 4]


def counter_of(index: int) -> int:
    """Return the counter value of the block that has a word: NumPy increments before it draws."""
    return (index // 4 + 1) % (1 << 256)


class StreamPosition(NamedTuple):
    """The source of a call: the words from an index on, after the rest of a word, if any."""

    key: Key
    word: int
    half: int | None = None


class Stream:
    """The state of a generator: key, index of the next word, and upper half of a word drawn by half."""

    __slots__ = ("half", "key", "word")

    def __init__(self, key: Key, word: int = 0, half: int | None = None) -> None:
        self.key, self.word, self.half = key, word, half

    @classmethod
    def of(cls, generator: np.random.Philox) -> Stream:
        """Make a stream in the state of a NumPy generator."""
        saved: Any = generator.state
        key, counter = (tuple(int(part) for part in saved["state"][name]) for name in ("key", "counter"))
        blocks = sum(part << 64 * i for i, part in enumerate(counter)) - 1
        half = int(saved["uinteger"]) if saved["has_uint32"] else None
        return cls((key[0], key[1]), (4 * blocks + int(saved["buffer_pos"])) % _PERIOD, half)

    def to_numpy(self) -> np.random.Philox:
        """Make a NumPy generator in the state of this stream."""
        index, used = divmod(self.word, 4)
        counter = index + (used != 0)
        generator: Any = np.random.Philox(key=0)
        generator.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array([counter >> 64 * i & _WORD for i in range(4)], np.uint64),
                "key": np.array(self.key, np.uint64),
            },
            "buffer": np.array(block(self.key, counter % (1 << 256)), np.uint64),
            "buffer_pos": used or 4,
            "has_uint32": int(self.half is not None),
            "uinteger": self.half or 0,
        }
        return generator  # type: ignore[no-any-return]

    def state(self) -> tuple[Key, int, int | None]:
        """Return the whole state: key, word and half."""
        with _changing:
            return self.key, self.word, self.half

    def take_words(self, count: int) -> StreamPosition:
        """Advance by `count` words, and return their position."""
        return StreamPosition(self.key, self.take_index(count))

    def take_index(self, count: int) -> int:
        """Advance by `count` words, and return the index of the first."""
        with _changing:
            first = self.word
            self.word = (first + count) % _PERIOD
        return first

    def take_halves(self, count: int) -> StreamPosition:
        """Advance by `count` times 32 bits: the rest of a word, then lower before upper halves."""
        with _changing:
            position = StreamPosition(self.key, self.word, self.half if count else None)
            new_halves = count - (position.half is not None)
            if count:
                self.word = (self.word + (new_halves + 1) // 2) % _PERIOD
                self.half = word_at(self.key, (self.word - 1) % _PERIOD) >> 32 if new_halves % 2 else None
        return position

    def take_independent_streams(self, count: int) -> tuple[Stream, Stream]:
        """Advance by `count` words; return the streams of them, and of an independent substream."""
        position = self.take_words(count)
        counter = counter_of(position.word) ^ _SUBSTREAM
        substream = (4 * (counter - 1) + position.word % 4) % _PERIOD
        return Stream(position.key, position.word), Stream(position.key, substream)

    def beside(self, number: int) -> Stream:
        """Return one of 2**32 independent substreams from the same index on; 0 is this one."""
        counter = counter_of(self.word) ^ number << 208
        return Stream(self.key, (4 * (counter - 1) + self.word % 4) % _PERIOD)

    def by_numpy(self, draw: Any) -> Any:
        """Draw with NumPy's generator in this state, and take over its state afterwards."""
        with _changing:
            generator = self.to_numpy()
            result = draw(np.random.Generator(generator))
            after = Stream.of(generator)
            self.word, self.half = after.word, after.half
        return result

    def jumped(self, jumps: int) -> Stream:
        """Return a stream that is `jumps` times 2**128 blocks ahead, from the next block on."""
        _, word, _ = self.state()
        return Stream(self.key, (-(-word // 4) * 4 + jumps * _JUMP) % _PERIOD)


State = tuple[Key, int, int | None]


def compare_exchange(streams: Sequence[Stream], expected: Sequence[State], states: Sequence[State]) -> bool:
    """Replace the states of streams if all are as expected; return whether they were."""
    with _changing:
        if [each.state() for each in streams] != [*expected]:
            return False
        for each, state in zip(streams, states, strict=True):
            each.key, each.word, each.half = state
    return True
