"""The state of a generator, its calls, and the checks of their arguments; its methods are in generator.py."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit._families.sort import sorting
from pycudakit._native.dtypes import FLOAT64, Array, DType
from pycudakit._runtime import context, dispatch_cache, native_call
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit.random.draw_requests import BITS, DrawKind, DrawRequest, draw, plan_draws
from pycudakit.random.philox import Stream, word_at
from pycudakit.random.prefetch import Prefetched, prefetching

if TYPE_CHECKING:
    from typing_extensions import Self

_FLOAT32, _UINT64 = np.dtype(np.float32), np.dtype(np.uint64)
_MAX_PREFETCHED = 16  # calls whose numbers a generator keeps

# A NumPy generator whose calls raise NumPy's errors for wrong arguments; its numbers are not used.
NUMPY_GENERATOR: Any = np.random.Generator(np.random.Philox(0))


def shape_of(size: Any) -> tuple[int, ...]:
    """Convert a size to a shape, with NumPy's errors; None means one number."""
    if size is None:
        return ()
    if isinstance(size, (bool, np.bool_)):
        raise TypeError(f"expected a sequence of integers or a single integer, got '{size!r}'")
    try:
        shape: tuple[int, ...] = (operator.index(size),)
    except TypeError:
        try:
            shape = tuple(operator.index(n) for n in size)
        except TypeError:
            if not isinstance(size, (float, np.floating)):
                raise
            raise TypeError(f"expected a sequence of integers or a single integer, got '{size}'") from None
    if any(n < 0 for n in shape):
        raise ValueError("negative dimensions are not allowed")
    return shape


def broadcast_shape(parameter_shape: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape; raise NumPy's error if the parameters do not broadcast to it."""
    if np.broadcast_shapes(parameter_shape, shape) != shape:
        raise ValueError(
            f"Output size {shape} is not compatible with broadcast dimensions of inputs {parameter_shape}."
        )
    return shape


def float_type(dtype: Any, name: str) -> DType:
    """Return the float type to draw; raise NumPy's error for other types."""
    kind: DType = np.dtype(dtype)
    if kind not in (FLOAT64, _FLOAT32) or not kind.isnative:
        raise TypeError(f"Unsupported dtype {kind!r} for {name}")
    return kind


def checked_out(out: Any, size: Any, dtype: DType, must_be_c: bool = False) -> tuple[int, ...]:
    """Return the shape of an array to fill; raise NumPy's error for an unsuitable one."""
    if not isinstance(out, np.ndarray):
        raise TypeError(
            f"Argument 'out' has incorrect type (expected numpy.ndarray, got {type(out).__name__})"
        )
    flags = out.flags
    is_contiguous = flags.c_contiguous or (flags.f_contiguous and not must_be_c)
    if not (is_contiguous and flags.writeable and flags.aligned and out.dtype.isnative):
        order = "C-contiguous" if must_be_c else "contiguous"
        raise ValueError(
            f"Supplied output array must be {order}, writable, aligned, and in machine byte-order."
        )
    if out.dtype != dtype:
        raise TypeError(f"Supplied output array has the wrong type. Expected {dtype}, got {out.dtype}")
    if size is not None and shape_of(size) != out.shape:
        raise ValueError("size must match out.shape when used together")
    shape: tuple[int, ...] = out.shape
    return shape


def as_operand(parameter: Any, dtype: DType) -> Any:
    """Convert a parameter for the engines: to an array of a type, or a tracer."""
    if isinstance(parameter, LazyArray):
        return parameter if parameter.dtype == dtype else parameter.astype(dtype)  # type: ignore[attr-defined]
    return np.asarray(parameter, dtype)


class DrawArguments:
    """The parameters of a distribution and the shape of the result, checked with NumPy's errors.

    Parameters
    ----------
    others
        The arguments after `size`, which only NumPy uses.
    placeholders
        Valid values of the parameters' shapes, which NumPy checks instead of parameters that are not on the
        host.
    """

    def __init__(
        self,
        name: str,
        size: Any,
        *parameters: Any,
        out: Array | None = None,
        others: tuple[Any, ...] = (),
        placeholders: Sequence[Any] | None = None,
    ) -> None:
        self.name, self.out = name, out
        self._parameters, self._rest = parameters, (size, *others)
        checked = parameters if placeholders is None else placeholders
        try:
            parameter_shape = np.broadcast_shapes(*map(np.shape, parameters))
            requested = parameter_shape if size is None else shape_of(size)
            self.shape = broadcast_shape(parameter_shape, requested if out is None else out.shape)
            getattr(NUMPY_GENERATOR, name)(*checked, (0, *self.shape))  # draws nothing, but checks
        except (TypeError, ValueError, OverflowError):
            getattr(NUMPY_GENERATOR, name)(
                *checked, *self._rest
            )  # its error names the shapes that were passed
            raise
        self.is_scalar = size is None and out is None and not any(map(np.ndim, parameters))

    def floats(self) -> list[Any]:
        """Return the parameters as float64 operands."""
        return [as_operand(parameter, FLOAT64) for parameter in self._parameters]

    def by_numpy(self, generator: Any) -> Any:
        """Draw with a NumPy generator."""
        return getattr(generator, self.name)(*self._parameters, *self._rest)


def _stream_from_seed(seed: Any) -> Stream:
    if isinstance(seed, np.random.Generator):
        seed = seed.bit_generator
    if not isinstance(seed, (np.random.BitGenerator, np.random.RandomState)):
        return Stream.of(np.random.Philox(seed))
    if not isinstance(seed, np.random.Philox):
        raise TypeError(f"a generator goes on from NumPy's Philox, not from {type(seed).__name__}")
    return Stream.of(seed)


class GeneratorBase:
    """The state of a generator and the execution of its draws."""

    __slots__ = ("_prefetched", "_stream")
    __hash__ = None  # type: ignore[assignment]
    _stream: Stream
    _prefetched: LRUCache[Any, Prefetched]  # by call: numbers that were drawn ahead

    def __init__(self, seed: Any = None) -> None:
        self._stream, self._prefetched = _stream_from_seed(seed), LRUCache(_MAX_PREFETCHED)

    def __repr__(self) -> str:
        """Return the class name with the key and the position in the stream."""
        key, word, half = self._stream.state()
        rest = "" if half is None else f", half=0x{half:08x}"
        return f"{type(self).__name__}(key=(0x{key[0]:016x}, 0x{key[1]:016x}), word={word}{rest})"

    def __eq__(self, other: object) -> bool:
        """Return True if both generators would draw the same numbers."""
        return (
            self._stream.state() == other._stream.state()
            if isinstance(other, GeneratorBase)
            else NotImplemented
        )

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the key, the index of the next word, and half a word or None."""
        return self._stream.state()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore a state from `__getstate__`."""
        self._stream, self._prefetched = Stream(*state), LRUCache(_MAX_PREFETCHED)

    def _at(self, stream: Stream) -> Self:
        generator = type(self).__new__(type(self))
        generator.__setstate__(stream.state())
        return generator

    def jumped(self, jumps: int = 1) -> Self:
        """Return a generator that is `jumps` times 2**128 blocks of four words ahead.

        Returns
        -------
        Generator

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> numpy_generator = np.random.Generator(np.random.Philox(5).jumped(2))
        >>> pk.random.default_rng(5).jumped(2).random() == numpy_generator.random()
        True
        """
        return self._at(self._stream.jumped(operator.index(jumps)))

    def spawn(self, n_children: int) -> list[Self]:
        """Create new independent child generators, each with a key of two words drawn from this one.

        (For NumPy's children, spawn the `numpy.random.SeedSequence` and pass a child as a seed.)

        Returns
        -------
        list of Generator

        Examples
        --------
        >>> import pycudakit as pk
        >>> a, b = pk.random.default_rng(5).spawn(2)
        >>> a.random() == b.random()
        False
        """
        count = operator.index(n_children)
        if count < 0:
            raise ValueError("n_children must not be negative")
        position = self._stream.take_words(2 * count)
        words = [word_at(position.key, position.word + i) for i in range(2 * count)]
        return [self._at(Stream(key)) for key in zip(words[::2], words[1::2], strict=True)]

    def _draw_arguments(self, name: str, size: Any, *parameters: Any, **rest: Any) -> DrawArguments:
        return DrawArguments(name, size, *parameters, **rest)

    def _floats(
        self, name: str, kind: DrawKind, size: Any, dtype: Any, out: Any, arguments: tuple[Any, ...]
    ) -> Any:
        float_dtype = float_type(dtype, name)
        shape = shape_of(size) if out is None else checked_out(out, size, float_dtype)
        result = self._run(name, kind, shape, float_dtype, lambda g: getattr(g, name)(*arguments), out)
        return float(result) if size is None and out is None else result

    def _draw(self, arguments: DrawArguments, kind: DrawKind, dtype: DType, *parameters: Any) -> Any:
        result = self._run(
            arguments.name, kind, arguments.shape, dtype, arguments.by_numpy, arguments.out, *parameters
        )
        return result.item() if arguments.is_scalar and isinstance(result, np.ndarray) else result

    def _run(
        self,
        name: str,
        kind: DrawKind,
        shape: tuple[int, ...],
        dtype: DType,
        numpy: Callable[[Any], Any],
        out: Array | None,
        *parameters: Any,
    ) -> Any:
        choice = plan_draws(name, kind, math.prod(shape), dtype, parameters)
        if choice.engine == "numpy":
            return native_call.run_numpy(name, choice.reason, lambda: self._stream.by_numpy(numpy))
        result = draw(choice, kind, self._stream, out, shape, dtype, *parameters)
        if out is None and dispatch_cache.is_filling_cache():
            request = DrawRequest(choice, kind, dtype, parameters)
            if request.can_prefetch(result.size):
                dispatch_cache.offer_to_cache(result, request)
        return result

    def _is_numpys(self) -> bool:
        return context.checked_current_engine() == "numpy"

    def _by_numpy(self, name: str, numpy: Callable[[Any], Any]) -> Any:
        return native_call.run_numpy(
            name, context.REASON_ENGINE_REQUESTED, lambda: self._stream.by_numpy(numpy)
        )

    def _order(self, *shape: int, axis: int = -1) -> Array:
        """Return the stable argsort, along an axis, of random words, one for each element."""
        order: Array = sorting.argsort(self._words(*shape), axis, kind="stable")
        return order

    @prefetching
    def _words(self, *shape: int) -> Array:
        def by_numpy(generator: Any) -> Any:
            return generator.bit_generator.random_raw(math.prod(shape)).reshape(shape)

        words: Array = self._run("bytes", BITS, shape, _UINT64, by_numpy, None)
        return words
