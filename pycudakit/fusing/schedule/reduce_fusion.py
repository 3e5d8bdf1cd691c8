"""Reductions of stand-ins: in one pass with what they reduce, and with others of the same values."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._families.reduce.multi_output import reduce_together
from pycudakit._families.reduce.reduce_kernel import axes_of, shape_without
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime.lazy_array import Computed
from pycudakit._runtime.ufunc_arguments import broadcast_shapes
from pycudakit.fusing.memory.buffer import Storage
from pycudakit.fusing.memory.nodes import PLAIN, Node, Pass, Reduction
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.scheduler import Computing

TINY = 1024  # elements that are reduced at once
_WORTH_KEEPING = 1.5e-9  # seconds an element on one thread: what takes longer is not computed twice


@functools.lru_cache(1024)
def _result_type(name: str, dtype: DType) -> DType:
    return np.asarray(getattr(np, name)(np.zeros(1, dtype))).dtype


class Reductions(Computing):
    """A call of a fused function, with what it reduces."""

    def reduce(
        self,
        name: str,
        function: Callable[..., Any],
        a: StandIn,
        axis: Any = None,
        keepdims: Any = False,
        ddof: Any = 0,
    ) -> Any:
        """Write a reduction down."""
        self.heed_errors()
        keywords = {"axis": axis, "keepdims": keepdims}
        if name.endswith(("std", "var")):
            keywords["ddof"] = ddof
        compute = functools.partial(_call, function, keywords)
        axes = axes_of(axis, a.ndim) if a.shape else ()
        length = math.prod(a.shape[d] for d in axes)
        storage = a.node.storage  # which is None of what is to be computed there, beside what lies there
        is_away = bool(self.memory.stream) if storage is None else storage.is_kept
        is_simple = (
            (a.size > TINY or is_away)
            and (a.shape or axis is None)  # NumPy takes the axis 0 of a number, too
            and type(ddof) in (int, float)
            and ddof < length
            and not self.reporting.is_at_once
        )
        if not is_simple or (name.startswith("arg") and isinstance(axis, tuple)):
            array = self.read(a)
            result = compute(array)
            self.tell(name, array.shape, [array], [])
            return self.wrap(result)
        shape = shape_without(a.shape, axes, bool(keepdims))
        node = Node(None, (), PLAIN, _result_type(name, a.dtype), shape)
        node.reduction = Reduction(name, a.node, axes, compute)
        node.order = "C" if a.node.order == "C" else None
        self.reductions.append(weakref.ref(node))
        return self.put_off(StandIn(self, node, shape == ()))

    def run_reductions(self, nodes: Sequence[Node]) -> None:
        """Compute reductions of the same values along the same axes."""
        reductions = [node.reduction for node in nodes if node.reduction is not None]
        source = reductions[0].of
        given = self._reducible(source)
        calls = [functools.partial(each.compute, given) for each in reductions]
        kept: list[Storage] = []
        with self.keeping_results(kept, are_unseen=True):
            results = reduce_together(calls)
        for node, result in zip(nodes, results, strict=True):
            array = np.asarray(result)
            node.computed(array, self.memory.storage_for(array))
        if self.passes is not None:
            self._tell(source, given, reductions, [node.array for node in nodes if node.array is not None])

    def _reducible(self, node: Node) -> Array | Computed:
        """Return what reductions take: an array, or a program where nothing else needs its values."""
        self.settle([node])
        if node.array is None and not (node.uses and self._is_better_kept(node)):
            together = Pass([node])
            if broadcast_shapes(*(array.shape for array in together.arrays)) == node.shape:
                node.uses += 1
                self.memory.keep(together.arrays)
                return Computed(together.function, together.inputs, node.dtype)
        if node.array is None:
            self.run([node])
        assert node.array is not None  # noqa: S101
        self.memory.keep([node.array])
        return node.array

    def _is_better_kept(self, node: Node) -> bool:
        """Tell whether what a node computes is better kept than computed again."""
        if self.engine == "cuda":
            return True
        return program_cost.estimate(Pass([node]).program((None,))).ours > _WORTH_KEEPING

    def _tell(
        self, source: Node, given: Any, reductions: Iterable[Reduction], results: Iterable[Array]
    ) -> None:
        names = ", ".join(reduction.name for reduction in reductions)
        if type(given) is Computed:
            reads = [array for array in given.inputs if isinstance(array, np.ndarray)]
            names = f"{given.function.name}, {names}"
        else:
            reads = [given]
        self.tell(names, source.shape, reads, [array for array in results if array.ndim])


def _call(function: Callable[..., Any], keywords: dict[str, Any], given: Any) -> Any:
    return function(given, **keywords)
