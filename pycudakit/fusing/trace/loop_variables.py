"""The variables of a captured function where a loop branches.

Their state keeps no tracers alive, since the trace stores the value of each tracer that is.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.bytecode.loop_branches import LoopBranch, loop_branch
from pycudakit.fusing.execute.capture import Capture, key_of_constant
from pycudakit.fusing.execute.loop_state import LoopState, Value
from pycudakit.fusing.graph_breaks import is_from_package
from pycudakit.fusing.memory.buffer import byte_bounds, owner_of
from pycudakit.fusing.memory.nodes import Node
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.weak_scalars import WeakScalars

_MAX_PARTS = 1000  # of the values of all variables
_BY_IDENTITY = (ModuleType, type, np.ufunc)
_CONTAINERS = (list, dict, set, bytearray)


class _UnknownError(Exception):
    """A value that may change unseen."""


class LoopVariables:
    """The variables of the captured function, which is at a branch that leaves a loop.

    Parameters
    ----------
    frame
        The function's frame.
    branch
        The branch.
    """

    def __init__(self, frame: FrameType, branch: LoopBranch) -> None:
        self._site = frame.f_code, frame.f_lasti
        self._branch = branch
        variables = frame.f_locals
        names = branch.live_after | (branch.live_at_branch or frozenset())
        self._live = {name: variables[name] for name in names if name in variables}
        arrays = {name: value for name, value in variables.items() if type(value) is Tracer}
        self._values = arrays | self._live
        self._containers = [each for each in variables.values() if type(each) in _CONTAINERS]
        if type(variables) is dict:  # before Python 3.13 the frame keeps it, and so the tracers in it
            variables.clear()

    def growing_nodes(self, steps: dict[Any, int]) -> list[Node]:
        """Return the deferred nodes of variables to which each iteration adds operations.

        If none of them were computed, the code behind the loop would compute all iterations at once. `steps`
        keeps the numbers of their operations until the next iteration.
        """
        growing: list[Node] = []
        for name, value in self._live.items():
            if type(value) is Tracer and value.node.array is None and value.node.function is not None:
                before = steps.get((self._site, name))
                is_growing = before is not None and value.node.steps > before
                # Once computed, it has no operations.
                steps[self._site, name] = 0 if is_growing else value.node.steps
                if is_growing:
                    growing.append(value.node)
        return growing

    def state(self, capture: Capture) -> LoopState:
        """Return the state."""
        forms = _Forms(capture)
        values = {name: forms.value_of(self._values[name]) for name in sorted(self._values)}
        return LoopState(self._site, values, forms.value_of(tuple(self._containers)), *self._branch)


def loop_variables(outermost: CodeType) -> LoopVariables | None:
    """Return the variables of the function that `outermost` calls, if it is at a branch of a loop."""
    frame = _frame_of_function(sys._getframe(1), outermost)  # noqa: SLF001
    branch = None if frame is None else loop_branch(frame.f_code, frame.f_lasti)
    return None if frame is None or branch is None else LoopVariables(frame, branch)


def _frame_of_function(frame: FrameType | None, outermost: CodeType) -> FrameType | None:
    """Return the frame of the captured function if no other function of the user's is running."""
    found = None
    while frame is not None and frame.f_code is not outermost:
        if not is_from_package(frame.f_code.co_filename):
            if found is not None:
                return None
            found = frame
        frame = frame.f_back
    return found


class _Forms:
    """Makes the forms of values."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._arrays: list[int] = []
        self._identities: dict[int, int] = {}
        self._parts = 0

    def value_of(self, value: Any) -> Value | None:
        """Return a variable's value; None if it cannot be compared."""
        self._arrays = []
        try:
            form = self._form(value)
        except (_UnknownError, RecursionError):
            return None
        return Value(form, tuple(self._arrays))

    def _form(self, value: Any) -> Any:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise _UnknownError
        kind = type(value)
        if kind is Tracer:
            same = self._identities.setdefault(
                id(value), len(self._identities)
            )  # which variables are one object
            weak_scalars = value.owning_trace.weak_scalars
            return kind, same, value.is_scalar, self._form_of_node(value.node, weak_scalars, {})
        key = key_of_constant(value)
        if key is not None:
            return key
        if issubclass(kind, tuple):
            return kind, tuple([self._form(part) for part in value])
        if kind is list:
            return kind, id(value), tuple([self._form(part) for part in value])
        if kind is dict:
            return kind, id(value), tuple([(self._form(k), self._form(v)) for k, v in value.items()])
        if kind is slice:
            return kind, tuple([self._form(part) for part in (value.start, value.stop, value.step)])
        if kind is range:
            return kind, value.start, value.stop, value.step
        is_constant = kind is BuiltinFunctionType and isinstance(value.__self__, ModuleType)
        if kind is FunctionType and not (
            value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__
        ):
            return kind, value.__code__, id(value.__globals__)
        if value is Ellipsis or is_constant or isinstance(value, _BY_IDENTITY):
            return kind, id(value)
        raise _UnknownError

    def _form_of_node(self, node: Node, weak_scalars: WeakScalars, seen: dict[Node, int]) -> Any:
        if node in seen:
            return seen[node]
        seen[node] = len(seen)
        is_weak = weak_scalars.get(node) is not None
        if node.array is not None:
            return is_weak, self._form_of_array(node.array)
        if node.function is None:  # a view, or a reduction: its indices or axes are hidden in a function
            raise _UnknownError
        arguments = [
            self._form_of_node(each, weak_scalars, seen) if type(each) is Node else self._form(each)
            for each in node.arguments
        ]
        return is_weak, node.function, node.options, node.dtype, node.shape, tuple(arguments)

    def _form_of_array(self, array: Array) -> Any:
        layout = array.dtype, array.shape, array.strides, array.flags.writeable
        argument = self._capture.argument_at(*byte_bounds(array))
        if argument is not None:
            is_whole = id(array) in self._capture.argument_indices
            return "argument", argument[2], is_whole, address_of(array) - argument[3], layout
        memory = self._capture.memory_of(owner_of(array))
        if memory is None:
            raise _UnknownError
        if memory.is_constant:
            return "constant", memory.serial, address_of(array) - memory.begin, layout
        self._arrays.append(memory.serial)
        return "computed", array is memory.owner, address_of(array) - memory.begin, layout
