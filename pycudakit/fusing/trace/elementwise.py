"""Elementwise functions of tracers: recorded as nodes, or computed eagerly if small."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import (
    ElementFunction,
    compile_function,
    convert_python_scalars,
    has_number_beyond,
)
from pycudakit._element_programs.ufunc_lowering import UFUNCS
from pycudakit._element_programs.values import ACCEPTS_ANY_INTEGER, Value, WeakScalar
from pycudakit._families.elementwise import non_ufuncs, ufuncs
from pycudakit._families.elementwise.fast_path import call as call_elementwise
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit._runtime.ufunc_arguments import as_argument, broadcast, check_writeable, needs_copy
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.buffer import Buffer
from pycudakit.fusing.memory.double_buffer import MIN_OVERLAPPING_WRITES
from pycudakit.fusing.memory.nodes import (
    DEFAULT_OPTIONS,
    MAX_STEPS,
    Node,
    have_same_order,
    leaf,
    reads,
)
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.traced_values import TracedValues
from pycudakit.fusing.trace.weak_scalars import WeakScalars

SMALL = 8192  # elements: `auto` computes smaller operations eagerly
TINY = 1024  # elements: smaller exact operations run in NumPy, with the same bits
MAX_SNAPSHOT_BYTES = (
    32 << 10
)  # bytes: smaller arrays that are not arguments are copied when they are recorded

_OWN_TYPES = frozenset({np.ndarray, bool, int, float, complex, str, bytes, type(None)})
_EXACT_NAMES = """absolute add divide equal greater greater_equal less less_equal logical_and logical_not
logical_or maximum minimum multiply negative not_equal sqrt square subtract"""
_EXACT = frozenset(_EXACT_NAMES.split())
_DIVISIONS = frozenset({"floor_divide", "remainder", "fmod", "divide"})  # of integers, too
_SILENT_NAMES = """absolute copy copysign equal fabs fmax fmin greater greater_equal isfinite isinf isnan less
less_equal logical_and logical_not logical_or logical_xor maximum minimum negative not_equal positive signbit
where"""
_NEVER_WARNS = frozenset(_SILENT_NAMES.split())


@functools.lru_cache(1024)
def element_function(ufunc: np.ufunc) -> ElementFunction | None:
    """Return the `ElementFunction` of a NumPy ufunc with one result; None if programs lack it."""
    name = ufunc.__name__
    return _named(name) if ufunc.nout == 1 and name in ufuncs.__dict__ and name in UFUNCS else None


@functools.cache
def _named(name: str) -> ElementFunction:
    return ElementFunction(name, UFUNCS[name])


@functools.lru_cache(1024)
def quiet_function(ufunc: np.ufunc) -> ElementFunction | None:
    """Return the `ElementFunction` of a ufunc that reports no floating-point errors; None as above."""
    function = element_function(ufunc)
    if function is None:
        return None

    @functools.wraps(function.numpy)
    def by_numpy(*inputs: Any, **keywords: Any) -> Any:
        with np.errstate(all="ignore"):
            return function.numpy(*inputs, **keywords)

    def write(builder: Builder, *inputs: Value | WeakScalar, **keywords: Any) -> tuple[Value, ...]:
        with builder.quiet():
            return function.write(builder, *inputs, **keywords)

    return ElementFunction(function.name, by_numpy, write)


class _ResultType(NamedTuple):
    """The properties of a result that follow from the argument types."""

    dtype: DType
    may_raise: bool  # depending on the values
    may_warn: bool
    seconds: float  # NumPy's time for an element
    integers: tuple[tuple[int, DType], ...]  # indices of Python integers, and the dtypes that they take


@functools.lru_cache(4096)
def _result_of(
    function: ElementFunction, types: tuple[Any, ...], out: DType | None, dtype: DType | None, casting: str
) -> _ResultType:
    if out is not None:  # raises NumPy's error if `out` cannot take the result
        compile_function(function, types, (out,), False, dtype, casting)
    program = compile_function(function, types, (None,), False, dtype, casting)
    first = len(program.out_dtypes) + 1  # the slot of the first argument
    integers = tuple([(at - first, own) for _, at, own in program.numbers if own.kind in "iu"])
    return _ResultType(
        program.out_dtypes[0],
        program.may_raise,
        _may_warn(function.name, types, program.out_dtypes[0]),
        program_cost.estimate(program).numpy,
        integers,
    )


def _may_warn(name: str, types: tuple[Any, ...], result: DType) -> bool:
    """Return True if a function of arguments of these types may report a floating-point error."""
    if name in _NEVER_WARNS:
        return False
    return name in _DIVISIONS or any(np.dtype(kind).kind == "f" for kind in (*types, result))


class ElementwiseTrace(TracedValues):
    """The tracers of one call; records elementwise functions and writes to arrays."""

    # Computes a function in NumPy for unsupported operands; called as `apply` is. A subclass defines it.
    apply_by_numpy: Callable[..., Any]

    def __init__(self, name: str, strict: bool) -> None:
        super().__init__(name, strict)
        self.has_tiny_operations = False  # of which the call log has no passes
        self.weak_scalars = WeakScalars(cast)

    def apply(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        *,
        out: Tracer | None = None,
        dtype: DType | None = None,
        casting: str = "same_kind",
    ) -> Any:
        """Record an elementwise function; return a tracer of the result, or `out`."""
        if self.has_stopped_deferring:
            return self.apply_by_numpy(function, inputs, out, dtype, casting)
        self.executor.flush_if_errstate_changed()
        if out is not None:
            check_writeable(out.node.array)
        if function.name in ACCEPTS_ANY_INTEGER:
            given, inputs = inputs, convert_python_scalars(function.name, inputs)
            if casting != "same_kind" and has_number_beyond(function.name, given, inputs):
                casting = "same_kind"  # as in NumPy, the array is not cast
        arguments: list[Any] = []
        types: list[Any] = []
        nodes: list[Node] = []
        steps = 1
        must_materialize, is_computed = self.errstate.must_report_at_once, True
        for value in inputs:
            kind = type(value)
            if kind is Tracer:
                if value.owning_trace is not self:
                    return self.apply(
                        function, self.resolve_foreign_tracers(inputs), out=out, dtype=dtype, casting=casting
                    )
                node = value.node
                if node.array is None:
                    is_computed = False
                    steps += node.steps
                elif node.buffer is not None and node.buffer.has_escaped:
                    must_materialize = True
            elif kind is int or kind is float:
                arguments.append(value)
                types.append(kind)
                continue
            else:
                leaf_node, is_large = self.leaf_of(value)
                if leaf_node is None:
                    return self.apply_by_numpy(function, inputs, out, dtype, casting)
                node = leaf_node
                must_materialize |= is_large
            nodes.append(node)
            arguments.append(node)
            types.append(node.dtype)
        python_float = None
        if self.weak_scalars:
            python_float = self.weak_scalars.value_of(function.name, arguments)
            if python_float is not None and not math.isfinite(python_float):
                self.mark_not_replayable()
                return python_float  # of which Python does not warn
            arguments, types = self.weak_scalars.typed(arguments, types)
            nodes = [each for each in arguments if type(each) is Node]
            is_computed &= all(node.array is not None for node in nodes)  # a cast of a float may be deferred
        result, may_raise, may_warn, seconds, integers = _result_of(
            function, tuple(types), None if out is None else out.dtype.newbyteorder("="), dtype, casting
        )
        for index, integer_dtype in integers:
            integer_dtype.type(arguments[index])  # raises if the dtype cannot hold the number
        must_compute_now = may_raise and nodes and self.buffers.scope.is_open  # on the device of the arrays
        if may_raise and not must_compute_now:
            return self._compute_now(function, inputs, out, dtype, casting)
        if out is not None and not _fits(out, nodes):
            stubs = [_ShapeStub(())] * (len(arguments) - len(nodes))
            broadcast([*nodes, *stubs], [_ShapeStub(out.shape)])  # type: ignore[list-item]
        if not nodes:
            return self._compute_now(function, inputs, out, dtype, casting)
        shape = nodes[0].shape
        is_broadcast = False
        for node in nodes:
            if node.shape != shape:
                is_broadcast = True
        if is_broadcast:
            shape = broadcast(nodes, [])  # type: ignore[arg-type]
        if self.engine == "auto":
            self.costs.operation(math.prod(shape), seconds)
        must_write_before_raising = out is not None and self.errstate.must_report_at_once
        may_be_eager = is_computed and not must_write_before_raising and self.capture is None
        eager = self._eager_function(function, nodes, shape, dtype, casting) if may_be_eager else None
        if eager is not None:
            new = eager(*[a.array if type(a) is Node else a for a in arguments])
            is_array = type(new) is np.ndarray
            buffer = self.executor.buffer_of_result(new) if is_array else None
            value = Tracer(self, leaf(new, buffer)) if is_array else self.wrap(new)
            return value if out is None else self.assign(out, value)
        for node in nodes if is_broadcast else ():  # a broadcast operand is computed once
            if node.array is None and node.shape != shape and not node.is_fusion_barrier:
                if self.row_tiler.depends_on_row_reductions(node):
                    self.deferred.wait_for_reductions(node)
                else:
                    self.executor.compute_node(node)
        options = DEFAULT_OPTIONS if dtype is None and casting == "same_kind" else (dtype, casting)
        node = Node(function, tuple(arguments), options, result, shape, steps)
        if must_materialize or must_compute_now:
            self.deferred.mark_read(nodes)
        else:
            self.deferred.mark_unread(node, nodes, may_warn)
        value = Tracer(self, node, shape == ())
        if python_float is not None:
            self.weak_scalars.add(node, python_float)
        if must_compute_now:
            self.materialize(value)
        if out is not None:
            self.assign(out, value)
            if must_materialize:
                self.materialize(out)
            return out
        self.deferred.add(value)
        if must_materialize or node.steps > MAX_STEPS:
            try:
                self.materialize(value)
            except Exception:  # whose traceback keeps the tracer alive, while handlers of the body run
                self.deferred.drop(value)
                raise
        return value

    def leaf_of(self, value: Any) -> tuple[Node | None, bool]:
        """Return a node of an array or scalar (None: unsupported), and whether to read it immediately."""
        if issubclass(type(value), LazyPandas):
            value = value.resolved()
        parts = value if type(value) in (list, tuple) else (value,)
        if not all(type(part) in _OWN_TYPES or isinstance(part, np.generic) for part in parts):
            self.flush()  # reading it may run other code
        argument = as_argument(value)
        if argument is None:
            return None, False
        array = np.asarray(argument)
        if array is not value or not array.size:
            if array is not value and (capture := self.capture) is not None:
                capture.add_constant(array)
            return leaf(array), False
        buffer = self.buffers.buffer_of(array)
        if buffer is not None and buffer.contains(array) and not buffer.has_escaped:
            return leaf(*self.buffers.latest(array, buffer)), False
        self.buffers.mark_escaped(array)  # arguments that overlap it
        if array.nbytes <= MAX_SNAPSHOT_BYTES:
            snapshot = array.copy("K")
            if (capture := self.capture) is not None:  # of a function whose other values are constants
                capture.add_constant(snapshot)
            return leaf(snapshot), False
        return leaf(array), True

    def tracer_of_leaf(self, value: Any) -> Tracer | None:
        """Return a tracer of an array or scalar; None if it is unsupported, or to be read immediately."""
        node, is_large = self.leaf_of(value)
        return None if node is None or is_large else Tracer(self, node)

    def lift(self, value: Any) -> Any:
        """Return a tracer of a value; an array counts as escaped, since other code may write to it."""
        if type(value) is Tracer:
            return value
        array = np.asarray(value)
        if not isinstance(value, np.ndarray) and (capture := self.capture) is not None:
            capture.add_constant(array)
        buffer = self.buffers.buffer_of(array)
        tracer = self.wrap(array)
        is_in_buffer = not isinstance(value, np.ndarray) or (buffer is not None and buffer.contains(array))
        if type(tracer) is Tracer and array.size and not is_in_buffer:
            self.buffers.mark_escaped(array)
            self.buffers.buffer_for(array).mark_escaped()
        return tracer

    def _eager_function(
        self,
        function: ElementFunction,
        nodes: Sequence[Node],
        shape: tuple[int, ...],
        dtype: DType | None,
        casting: str,
    ) -> Callable[..., Any] | None:
        """Return a function that computes a small operation eagerly; None for a large one."""
        for node in nodes:
            if node.buffer is not None and node.buffer.is_resident:
                return None
            if math.prod(node.shape) > SMALL:
                return None
        size = math.prod(shape)
        if size <= TINY and function.name in _EXACT and dtype is None and casting == "same_kind":
            self.has_tiny_operations = True
            return function.numpy
        if size > SMALL or self.engine != "auto":
            return None
        return lambda *arrays: call_elementwise(function, arrays, None, True, dtype, casting)

    def _compute_now(
        self,
        function: ElementFunction,
        inputs: Sequence[Any],
        out: Tracer | None,
        dtype: DType | None,
        casting: str,
    ) -> Any:
        """Compute eagerly a function that may raise depending on the values."""
        values = [self.resolved(value) for value in inputs]
        value = self.wrap(call_elementwise(function, values, None, True, dtype, casting))
        return value if out is None else self.assign(out, value)

    def assign(self, target: Tracer, value: Tracer) -> Tracer:
        """Assign a value to a tracer of the same shape, for `out=` and in-place operators."""
        node = value.node
        has_views = target.node.view is not None or target.node.views
        is_free = target.node.array is None and target.shape == value.shape and not has_views
        if is_free and have_same_order(target.node, node):
            dtype = target.node.dtype
            target.node = node if node.dtype == dtype else cast(node, dtype)
            if target.node.array is None:
                self.deferred.add(target)
            return target
        self.materialize(target)
        self.write(target, node)
        return target

    def write(self, target: Tracer, value: Node, may_be_read_later: bool = False) -> None:
        """Write a value to the array of a tracer, broadcast and cast.

        If the value `may_be_read_later` and depends on the written array, it keeps its present values.
        """
        array, buffer = target.node.array, target.node.buffer
        assert array is not None  # noqa: S101
        assert buffer is not None  # noqa: S101
        if not array.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if not array.size:
            return
        self.deferred.unread.pop(value, None)
        if self.deferred.unread:
            self.deferred.mark_read(value.ancestors())
        if value.array is None and self.row_tiler.write(array, buffer, value):
            value.redefine_as(conversion(value.dtype), leaf(array, buffer))
            return
        if buffer.may_double_buffer and value.array is None:
            if buffer.overlapping_writes < MIN_OVERLAPPING_WRITES:
                buffer.overlapping_writes += needs_copy(array, value.leaves())
            elif self._write_to_back(array, buffer, value):
                return
        self.compute_readers(buffer, value)
        self.buffers.mark_written(buffer)
        if buffer.double_buffer is not None:
            buffer.double_buffer.mark_written(array)
        is_read_there = may_be_read_later and value.array is None and reads(buffer, [value])
        if (
            value.reduction is not None
            or value.view is not None
            or value.shape != array.shape
            or (
                is_read_there
                and not (value.dtype == target.node.dtype and have_same_order(value, target.node))
            )
        ):
            self.executor.compute_node(value)
        kernel = self.executor.kernel_into([value])
        if needs_copy(array, kernel.arrays):
            if value.array is not None:
                value = cast(value, value.dtype)
            self.executor.compute_node(value)
            kernel = self.executor.kernel_into([value])
        if not self.executor.try_enqueue(kernel, [array]):
            self.buffers.make_resident(kernel.arrays)
            buffer.make_resident(residency.INPUT)
            self.executor.evaluate(kernel, [array])
        if is_read_there and value.array is None:
            value.redefine_as(conversion(value.dtype), leaf(array, buffer))

    def _write_to_back(self, array: Array, buffer: Buffer, value: Node) -> bool:
        """Write to the back buffer of a double-buffered array, if possible and the value reads the array."""
        if value.reduction is not None or value.view is not None or value.shape != array.shape:
            return False
        if array.nbytes < (buffer.end - buffer.begin) // 2:
            return False
        double_buffer = self.buffers.double_buffer_for(buffer, self.compute_readers, self.executor.copy_into)
        if double_buffer is None:
            return False
        back = double_buffer.back
        self.compute_readers(back)
        kernel = self.executor.kernel_into([value])
        if not needs_copy(array, kernel.arrays) or reads(back, [value]):
            return False
        double_buffer.refresh_back(array)
        target = double_buffer.counterpart_in(back, array)
        self.buffers.mark_written(double_buffer.original)
        self.buffers.make_resident([*kernel.arrays, target])
        self.executor.evaluate(kernel, [target])
        double_buffer.swap(target)
        return True


def _fits(out: Tracer, nodes: Sequence[Node]) -> bool:
    """Return True if all nodes have the shape of `out`."""
    shape = out.node.shape
    return all(node.shape == shape for node in nodes)


class _Flags(NamedTuple):
    writeable: bool


class _ShapeStub:
    """A shape in place of a writeable array, for shape checks."""

    flags = _Flags(writeable=True)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def cast(node: Node, dtype: DType) -> Node:
    """Return a node that casts a node to a dtype."""
    native = dtype.newbyteorder("=")
    return Node(conversion(native), (node,), DEFAULT_OPTIONS, native, node.shape, node.steps + 1)


@functools.cache
def conversion(dtype: DType) -> ElementFunction:
    """Return the function that casts to a dtype, or copies."""

    def astype(a: Any, **_: Any) -> Any:
        result = np.asarray(a).astype(dtype)
        return result if result.ndim else result[()]

    return ElementFunction("astype", astype, non_ufuncs.astype_function(dtype).write)
