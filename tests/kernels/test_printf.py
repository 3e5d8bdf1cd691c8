"""printf in kernels gives the output of Python's % operator."""

import math

import numpy as np
import pytest
from helpers.user_kernels import module

INT, UNSIGNED, WIDE, DOUBLE, FLOAT = "int", "unsigned", "long long", "double", "float"
INTEGERS = ["%d", "%i", "[%5d]", "[%-7d]", "%+d", "% d", "%06d", "%.4d", "%3.2d"]
NATURAL = ["%u", "%x", "%X", "%o", "%08x", "%10u"]
WIDE_ONES = {"%lld": "%d", "%ld": "%d", "%llx": "%x", "%lu": "%d", "%zu": "%d"}
FLOATS = ["%f", "%.2f", "%10.3f", "[%-10.3f]", "%e", "%.3E", "%g", "%+g", "%G", "%08.2f", "%.0f"]
BODIES = {
    "hello": (r'printf("hello from %d, %s\n", threadIdx.x, "you")',),
    **{f"int {one}": (f'printf("{one}", x0)', INT) for one in INTEGERS},
    **{f"unsigned {one}": (f'printf("{one}", x0)', UNSIGNED) for one in NATURAL},
    **{f"wide {one}": (f'printf("{one}", x0)', WIDE) for one in WIDE_ONES},
    **{f"float {one}": (f'printf("{one}", x0)', DOUBLE) for one in FLOATS},
    "float32": ('printf("%.9f", x0)', FLOAT),
    "narrow": (
        'printf("%hhd %hu %hhu", (signed char)x0, (unsigned short)x1, (unsigned char)x1)',
        *(INT, INT),
    ),
    "no numbers": ('printf("%f %f %f", x0, -x0, x1)', DOUBLE, DOUBLE),
    "texts": (
        r'printf("%s|%6s|%-4s|%.2s|%c%c|100%%\n", "one", "two", "3", "four", 65 + x0, (char)66)',
        INT,
    ),
    "given widths": ('printf("[%*d] [%.*f] [%-*d]", x0, x1, 3, 3.14159265, 4, x1)', INT, INT),
    "pointers": ('printf("|%p|", (void *)0x1234)',),
    "other types": ('printf("%d %lld %lld %lld %d", 2.75, x0, -x0, x1, x2)', DOUBLE, DOUBLE, DOUBLE),
    "many": ('printf("' + "%d " * 32 + '"' + "".join(f", x0 + {i}" for i in range(32)) + ")", INT),
    "threads": (r'printf("block %d thread %d\n", blockIdx.x, threadIdx.x)',),
    "in order": (r'for (int i = 0; i < 100; ++i) printf("%d\n", i)',),
    "much": (
        r'for (int i = 0; i < 1000; ++i) printf("%d is a line, and the rest of the room is full\n", i)',
    ),
    "perhaps": ('if (x0 > 3) printf("more than three")', INT),
}
SOURCE = "#include <stdio.h>\n" + "".join(
    f"__global__ void show{k}({', '.join(f'{kind} x{i}' for i, kind in enumerate(kinds))}) {{ {body}; }}\n"
    for k, (body, *kinds) in enumerate(BODIES.values())
)


@pytest.fixture
def printed(engine, capsys):
    """Return a function that runs a kernel and returns its output."""

    def run(name, *arguments, **given):
        function = module(SOURCE).get_function(f"show{list(BODIES).index(name)}")
        capsys.readouterr()
        function(*arguments, **{"block": (1, 1, 1), **given})
        return capsys.readouterr().out

    return run


@pytest.mark.smoke
def test_a_kernel_prints(printed):
    assert printed("hello") == "hello from 0, you\n"


@pytest.mark.parametrize("conversion", INTEGERS)
def test_integers(printed, conversion):
    for value in (0, 1, -1, 42, 2**31 - 1, -(2**31)):
        assert printed(f"int {conversion}", value) == conversion % value


@pytest.mark.parametrize("conversion", NATURAL)
def test_unsigned_integers(printed, conversion):
    for value in (0, 1, 255, 2**32 - 1):
        assert printed(f"unsigned {conversion}", value) == conversion % value


@pytest.mark.parametrize("conversion", WIDE_ONES)
def test_wide_integers(printed, conversion):
    for value in (1, 2**40 + 7, 2**63 - 1):
        assert printed(f"wide {conversion}", value) == WIDE_ONES[conversion] % value


@pytest.mark.parametrize("conversion", FLOATS)
def test_floats(printed, conversion):
    for value in (0.0, 1.0, -2.5, math.pi, 1e10, -1e-5, 123456.789):
        assert printed(f"float {conversion}", value) == conversion % value


def test_a_float32_is_printed_as_a_double(printed):
    assert printed("float32", 0.1) == f"{float(np.float32(0.1)):.9f}"


def test_narrow_integers(printed):
    assert printed("narrow", -3, 70000) == f"-3 {70000 % 65536} {70000 % 256}"


def test_arguments_that_are_no_numbers(printed):
    assert printed("no numbers", math.inf, math.nan) == "inf -inf nan"


def test_texts_and_letters(printed):
    assert printed("texts", 1) == "one|   two|3   |fo|BB|100%\n"


def test_widths_that_are_arguments(printed):
    assert printed("given widths", 6, 42) == "[    42] [3.142] [42  ]"


def test_pointers(printed):
    assert printed("pointers") == "|0x1234|"


def test_numbers_where_integers_are_due(engine, printed):
    if engine != "cuda":
        pytest.skip("C leaves it undefined")
    for value, end in ((1e300, 2**63 - 1), (2.0**63, 2**63 - 1), (math.inf, 2**63 - 1)):
        assert printed("other types", value, -1.5, math.nan) == f"2 {end} {-(2**63)} -1 0"


def test_many_arguments(printed):
    assert printed("many", 10) == "".join(f"{10 + i} " for i in range(32))


def test_every_thread_prints_whole_lines(printed):
    lines = printed("threads", block=(32, 1, 1), grid=(10, 1)).splitlines()
    wanted = {f"block {b} thread {t}" for b in range(10) for t in range(32)}
    assert len(lines) == len(wanted)
    assert set(lines) == wanted


def test_a_thread_prints_in_its_order(printed):
    assert printed("in order") == "".join(f"{i}\n" for i in range(100))


def test_output_larger_than_the_buffer(printed):
    lines = printed("much", block=(100, 1, 1)).splitlines()
    assert len(lines) > 1000
    assert all(line.endswith(" is a line, and the rest of the room is full") for line in lines[:1000])
    assert lines[-1].endswith("were printed]") or lines[-1].endswith("truncated")


def test_a_kernel_that_need_not_print(printed):
    for value in (1, 4, 2, 5):
        assert printed("perhaps", value) == ("more than three" if value > 3 else "")


def test_without_the_header(engine, capsys):
    text = 'template <class T> __global__ void f(T x) { printf("%d plain\\n", (int)x); }'
    function = module(text, no_extern_c=True).get_function("f<float>")
    capsys.readouterr()
    function(np.float32(2.75), block=(1, 1, 1))
    assert capsys.readouterr().out == "2 plain\n"
