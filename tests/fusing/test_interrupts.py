"""An exception at any instruction of a fused call, as of a signal handler, leaves a state of NumPy's run."""

import contextlib
import contextvars
import copy
import gc
import itertools
import os
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.sanitizers import SANITIZED
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import fusing
from pycudakit._native import loader
from pycudakit.fusing.memory import residency
from pycudakit.fusing.trace.current_trace import current_trace

MOST = int(os.environ.get("PYCUDAKIT_TEST_FUSED_INTERRUPTS", "1000"))  # interrupts of each function
PACKAGE = os.path.dirname(fusing.__file__) + os.sep
SIZE = 20_000

pytestmark = pytest.mark.skipif(SANITIZED, reason="sanitizers slow everything down")


class Interrupt(BaseException):
    pass


class InterruptAt:
    """Raise `Interrupt` at one instruction of the modules that trace and schedule."""

    def __init__(self, instruction):
        self.count = 0
        self.instruction = instruction

    def __call__(self, frame, event, _):
        if event == "call":
            is_finalizer = frame.f_code.co_name == "__del__"  # Python drops its exceptions
            if is_finalizer or not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self.count += 1
            if self.count == self.instruction:
                raise Interrupt
        return self

    def run(self, function, *arguments):
        """Call a function; return True if it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            function(*arguments)
        except Interrupt:
            return True
        except ValueError:
            pass
        finally:
            sys.settrace(before)
        return False


class Model:
    """A state in attributes, with the states that NumPy's run has had."""

    def __init__(self):
        self.field = np.linspace(-1, 1, SIZE)
        self.history = []
        self.parts = {"half": self.field[::2] * 2}
        self.states = []

    def state(self):
        return [self.field, list(self.history), self.parts["half"], self.parts.get("last")]

    def note(self):
        self.states.append(copy.deepcopy(self.state()))


def store(model, x, note):
    note()
    model.field = model.field * 0.5 + x
    note()
    model.history.append(model.field[1:] - 1)
    note()
    model.parts["half"] = (x + 1, [model.field * 2])
    note()
    model.parts["last"] = x
    note()
    return x - model.field


def step(u, v, note):
    note()
    for _ in range(5):
        u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
        note()
        v[:-1] = v[1:] * 0.5 + u[:-1]
        note()
    return u[1:], v


def short(x, y, note):
    note()
    x += y
    note()
    return x * 2 + y


def raising(x, y, note):
    note()
    x *= 2
    note()
    y -= x
    note()
    raise ValueError


def arguments_of(function):
    x, y = np.linspace(0, 1, SIZE), np.linspace(1, 3, SIZE)
    return (Model(), x) if function is store else (x, y)


def state_of(arguments):
    return [each.state() if type(each) is Model else each for each in arguments]


def same(one, other):
    if isinstance(other, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(np.all(one == other))


@pytest.mark.parametrize("most", [150, *thorough(MOST)])
@pytest.mark.parametrize("function", [short, step, store, raising])
def test_a_state_of_numpys_run(engine, function, most):
    if engine != "cpu" and pk.engines()["cuda"] and sys.version_info >= (3, 12):
        pytest.skip("Python 3.12 crashes when instructions of a ctypes callback are traced")
    # A thread of its own: an exception at the first instruction of a handler remains its `__context__`.
    # No other thread compiles, as Python 3.12 may crash if one imports while another traces instructions.
    no_compiler = pk.tuned(worth_compiling=1 << 62) if engine == "cuda" else contextlib.nullcontext()
    with ThreadPoolExecutor(1) as pool, no_compiler:
        pool.submit(contextvars.copy_context().run, attack, function, most).result()


def test_no_interrupt_around_a_plan_is_lost(monkeypatch):
    """A callback of C would print an exception that leaves it, and go on."""
    library, printed = loader.library("cpu"), []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: printed.append(str(error.exc_value)))

    def raise_too():
        raise ValueError

    for body in (int, raise_too):
        InterruptAt(-1).run(
            residency.run_in_residency_scope, library, body
        )  # Python 3.12 traces from then on
        for instruction in itertools.count(1):
            interrupt = InterruptAt(instruction)
            if not interrupt.run(residency.run_in_residency_scope, library, body):
                break
        assert instruction > 20
        assert interrupt.count < instruction
        assert not printed


@pytest.mark.parametrize("function", [short, step, store])
def test_no_finalizer_is_written_in_python(engine, function):
    """Python drops an exception in a finalizer, and so a Ctrl-C that comes there."""
    if engine == "cuda" or (engine == "auto" and pk.engines()["cuda"]):
        pytest.skip("device copies have a finalizer")
    fused, met = pk.fuse(function), []

    def note(frame, event, _):
        code = frame.f_code
        is_callback = code.co_filename == weakref.__file__ and code.co_name == "remove"
        if event == "call" and (is_callback or code.co_name == "__del__"):
            met.append(code)

    arguments = [arguments_of(function) for _ in range(3)]
    gc.collect()
    gc.disable()  # it runs finalizers of other tests' objects
    sys.setprofile(note)
    try:
        for each in arguments:
            fused(*each, int)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert not met


def attack(function, most):
    """Interrupt a fused function at this many instructions, and compare with the states of NumPy's run."""
    states = []
    arguments = arguments_of(function)
    with contextlib.suppress(ValueError):
        function(*arguments, lambda: states.append(copy.deepcopy(state_of(arguments))))
    fused = pk.fuse(function)
    for _ in range(2):
        with contextlib.suppress(ValueError):
            fused(*arguments_of(function), int)
    counter = InterruptAt(-1)
    counter.run(fused, *arguments_of(function), int)
    stride = max(1, counter.count // most)
    interrupted = 0
    for instruction in itertools.count(1, stride):
        arguments = arguments_of(function)
        was_interrupted = InterruptAt(instruction).run(fused, *arguments, int)
        assert current_trace() is None, instruction
        state = state_of(arguments)
        if not was_interrupted:
            assert same(state, states[-1])
            break
        interrupted += 1
        assert any(same(state, each) for each in states), instruction
    assert interrupted > min(most, 100) or pk.last_call().engine == "numpy"
    arguments = arguments_of(function)
    with contextlib.suppress(ValueError):
        fused(*arguments, int)
    assert same(state_of(arguments), states[-1])
