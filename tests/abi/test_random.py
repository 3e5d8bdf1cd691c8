"""pk_random with invalid arguments: it returns a status and a message, and writes nothing."""

import ctypes

import numpy as np
import pytest

from pycudakit._native import abi

TYPE = {str(t): code for code, t in enumerate(abi.TYPES)}
INVALID_ARGUMENT = 1


class Call:
    """A valid call, which draws a hundred scaled normals, and whose arguments the tests make invalid."""

    def __init__(self):
        self.out, self.loc, self.scale = np.full(100, -7.0), np.arange(100.0), np.ones(1)
        self.draws = np.zeros(1, abi.DRAWS)
        self.draws["distribution"] = abi.RANDOM_NORMAL
        self.operands = np.zeros(3, abi.OPERAND)
        self.operands["type"] = TYPE["float64"]
        self.operands["address"] = [a.ctypes.data for a in (self.out, self.loc, self.scale)]
        self.operands["strides"][:2, 0] = 8
        self.shape = np.array([100], np.int64)
        self.count, self.dimensions = 3, 1
        self.options = np.zeros(1, abi.OPTIONS)
        self.report = np.full(abi.REPORT.itemsize, 0xAA, np.uint8)
        self.null = set()

    def run(self, library):
        def at(name):
            return ctypes.c_void_p(None if name in self.null else getattr(self, name).ctypes.data)

        return library.pk_random(
            *(at("draws"), at("operands"), ctypes.c_int64(self.count)),
            *(at("shape"), ctypes.c_int64(self.dimensions), at("options"), at("report")),
        )


def null(*names):
    return lambda call: call.null.update(names)


def drawn(**fields):
    def spoil(call):
        for field, value in fields.items():
            call.draws[field] = value

    return spoil


def operand(index, **fields):
    def spoil(call):
        for field, value in fields.items():
            call.operands[field][index] = value

    return spoil


def counts(**values):
    return lambda call: vars(call).update(values)


def shaped(size):
    return lambda call: call.shape.fill(size)


def of(distribution, *types):
    """Set the distribution, and the types of the result and of the parameters."""

    def spoil(call):
        call.draws["distribution"], call.count = distribution, len(types)
        call.operands["type"][: len(types)] = [TYPE[t] for t in types]

    return spoil


REFUSED = {
    "no draws": (null("draws"), "draws or operands is a null pointer"),
    "no operands": (null("operands"), "draws or operands is a null pointer"),
    "no shape": (null("shape"), "shape is a null pointer"),
    "no report": (null("report"), "report is a null pointer"),
    "no result": (operand(0, address=0), "operand 0 is a null pointer"),
    "no parameter": (operand(2, address=0), "operand 2 is a null pointer"),
    "unknown": (drawn(distribution=abi.RANDOM_COUNT), "draws.distribution is not one of PK_RANDOM_..."),
    "negative": (drawn(distribution=-1), "draws.distribution is not one of PK_RANDOM_..."),
    "word": (drawn(word=4), "draws.word is not from 0 to 3"),
    "word below": (drawn(word=-1), "draws.word is not from 0 to 3"),
    "half": (drawn(has_half=2), "draws.has_half is not 0 or 1"),
    "none": (counts(count=0), "there are no operands, or too many"),
    "many": (counts(count=4), "there are no operands, or too many"),
    "few": (counts(count=2), "there are too many or too few parameters"),
    "dimensions": (counts(dimensions=65), "dimensions is not from 0 to PK_MAX_DIMS"),
    "dimensions below": (counts(dimensions=-1), "dimensions is not from 0 to PK_MAX_DIMS"),
    "size": (shaped(-1), "a dimension is negative"),
    "stride": (operand(0, strides=0), "operand 0 is stored to and has a stride of 0"),
    "flags": (operand(1, flags=2), "an operand has unknown flags"),
    "type": (operand(0, type=99), "operand 0 has a type that is not drawn"),
    "negative type": (operand(0, type=-1), "operand 0 has a type that is not drawn"),
    "normal int": (operand(0, type=TYPE["int64"]), "operand 0 has a type that is not drawn"),
    "bits float": (of(abi.RANDOM_BITS, "float64"), "operand 0 has a type that is not drawn"),
    "bits parameters": (
        of(abi.RANDOM_BITS, "uint64", "float64"),
        "there are too many or too few parameters",
    ),
    "float32": (operand(0, type=TYPE["float32"]), "float32 is drawn without parameters"),
    "parameter": (operand(2, type=TYPE["int64"]), "a parameter has another type"),
    "exponential": (
        of(abi.RANDOM_EXPONENTIAL, "float64", "float64", "float64"),
        "there are too many or too few parameters",
    ),
    "integers": (of(abi.RANDOM_INTEGERS, "int64"), "there are too many or too few parameters"),
    "integers low": (of(abi.RANDOM_INTEGERS, "int64", "int64", "uint64"), "a parameter has another type"),
    "integers float": (
        of(abi.RANDOM_INTEGERS, "float64", "uint64", "uint64"),
        "operand 0 has a type that is not drawn",
    ),
    "poisson": (of(abi.RANDOM_POISSON, "int32", "float64"), "operand 0 has a type that is not drawn"),
    "poisson mean": (of(abi.RANDOM_POISSON, "int64", "int64"), "a parameter has another type"),
    "gamma": (of(abi.RANDOM_GAMMA, "float32", "float64"), "there are too many or too few parameters"),
    "gamma shape": (of(abi.RANDOM_GAMMA, "float32", "float32", "float64"), "a parameter has another type"),
    "beta": (
        of(abi.RANDOM_BETA, "float32", "float64", "float64"),
        "operand 0 has a type that is not drawn",
    ),
    "lognormal": (of(abi.RANDOM_LOGNORMAL, "float64"), "there are too many or too few parameters"),
    "geometric": (
        of(abi.RANDOM_GEOMETRIC, "float64", "float64"),
        "operand 0 has a type that is not drawn",
    ),
    "binomial": (of(abi.RANDOM_BINOMIAL, "int64", "float64", "float64"), "a parameter has another type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_requests(raw, name):
    spoil, message = REFUSED[name]
    call = Call()
    spoil(call)
    assert call.run(raw) == INVALID_ARGUMENT
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    assert text.value.decode() == message
    assert (call.out == -7).all()


def test_valid_requests(raw):
    call = Call()
    assert call.run(raw) == 0
    assert (call.out != -7).all()
    again = Call()
    again.out = np.full(200, -7.0)[::2]
    again.operands["address"][0], again.operands["strides"][0, 0] = again.out.ctypes.data, 16
    again.null.add("options")
    assert again.run(raw) == 0
    np.testing.assert_array_equal(again.out, call.out)


def test_any_layout(raw):
    """Operands may be byte-swapped and unaligned; the order is that of the result's memory."""
    want, call = Call(), Call()
    assert want.run(raw) == 0
    memory, loc = np.zeros(801, np.uint8), np.arange(100.0).astype(">f8")
    call.operands["address"][:2] = memory.ctypes.data + 1, loc.ctypes.data
    call.operands["flags"][1] = abi.OPERAND_BYTE_SWAPPED
    assert call.run(raw) == 0
    np.testing.assert_array_equal(np.frombuffer(memory.tobytes(), np.float64, 100, 1), want.out)
    backwards = Call()
    backwards.operands["address"][:2] += 99 * 8
    backwards.operands["strides"][:2, 0] = -8
    assert backwards.run(raw) == 0
    np.testing.assert_array_equal(backwards.out, want.out)


def test_no_elements(raw):
    call = Call()
    call.shape[0] = 0
    call.operands["address"] = 0
    assert call.run(raw) == 0
    assert (call.out == -7).all()


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf, -1.0, 1e300, 5e-324])
@pytest.mark.parametrize("kind", ["poisson", "binomial", "geometric", "gamma", "beta", "lognormal"])
def test_parameters_that_make_no_sense_do_no_harm(raw, kind, value):
    """The caller must refuse such parameters; the library draws something."""
    call = Call()
    call.out, call.loc, call.scale = np.full(100, -7), np.full(100, value), np.full(1, value)
    trials = np.full(1, 2**63 - 1)
    floats = {"gamma": abi.RANDOM_GAMMA, "beta": abi.RANDOM_BETA, "lognormal": abi.RANDOM_LOGNORMAL}
    if kind in ("poisson", "geometric"):
        of(abi.RANDOM_POISSON if kind == "poisson" else abi.RANDOM_GEOMETRIC, "int64", "float64")(call)
        call.operands["address"][:2] = call.out.ctypes.data, call.loc.ctypes.data
    elif kind in floats:
        call.draws["distribution"], call.out = floats[kind], np.full(100, -7.0)
        call.operands["address"][:3] = [a.ctypes.data for a in (call.out, call.loc, call.scale)]
    else:
        of(abi.RANDOM_BINOMIAL, "int64", "int64", "float64")(call)
        call.operands["address"] = [a.ctypes.data for a in (call.out, trials, call.scale)]
        call.operands["strides"][1, 0] = 0
    assert call.run(raw) == 0
    assert (call.out != -7).all()


@pytest.mark.parametrize("likelihood", [-3.0, 0.3, 3.0, np.nan, np.inf])
@pytest.mark.parametrize("trials", [-(10**9), -1, 0, 50])
def test_trials_that_make_no_sense_do_no_harm(raw, trials, likelihood):
    call = Call()
    call.out, given = np.full(100, -7), (np.full(1, trials), np.full(1, likelihood))
    of(abi.RANDOM_BINOMIAL, "int64", "int64", "float64")(call)
    call.operands["address"] = [a.ctypes.data for a in (call.out, *given)]
    call.operands["strides"][1:, 0] = 0
    assert call.run(raw) == 0
    assert ((call.out >= 0) & (call.out <= max(trials, 0))).all()
