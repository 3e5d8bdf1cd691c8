"""MD5's compression function (RFC 1321, 1992) as statements of CUDA C: a generator of random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SHIFTS = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
_FUNCTIONS = ("{b} & {c} | ~{b} & {d}", "{b} & {d} | {c} & ~{d}", "{b} ^ {c} ^ {d}", "{c} ^ ({b} | ~{d})")
_STEPS = ((1, 0), (5, 1), (3, 5), (7, 0))  # by which each round walks over the words, and where it begins
_INITIAL = {"a": 0x67452301, "b": 0xEFCDAB89, "c": 0x98BADCFE, "d": 0x10325476}


def compression(words: Sequence[str]) -> str:
    """Return statements that declare `a`, `b`, `c` and `d`, the digest of one block of 16 words.

    Parameters
    ----------
    words
        16 expressions of C.
    """
    lines = [f"unsigned int {name} = {value}u;" for name, value in _INITIAL.items()]
    lines.append("unsigned int pk_sum;")
    a, b, c, d = _INITIAL
    for index in range(64):
        turn, step = divmod(index, 16)
        stride, first = _STEPS[turn]
        shift = _SHIFTS[turn][index % 4]
        constant = int(abs(math.sin(index + 1)) * 2**32)
        word = words[(first + stride * step) % 16]
        mixed = _FUNCTIONS[turn].format(b=b, c=c, d=d)
        lines.append(f"pk_sum = {a} + ({mixed}) + (unsigned int)({word}) + {constant}u;")
        lines.append(f"{a} = {b} + (pk_sum << {shift} | pk_sum >> {32 - shift});")
        a, b, c, d = d, a, b, c
    lines += [f"{name} += {value}u;" for name, value in _INITIAL.items()]
    return "\n".join(lines) + "\n"
