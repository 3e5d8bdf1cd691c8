"""Effects of operators, comparisons and indices."""

from __future__ import annotations

from typing import Any

from pycudakit.fusing.bytecode.collection_effects import OTHER_CODE, CollectionEffects
from pycudakit.fusing.bytecode.known_calls import Effect, items
from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    ARRAYS,
    NUMBER,
    PLAIN,
    READS_ARRAY,
    SLICE,
    SUPPORTED_ARRAY,
    TRACER,
    UNKNOWN,
    VALUE,
    VALUES,
    Container,
    Each,
    Items,
    Known,
    has_no_effects,
    item_of,
    join,
    reads_memory,
)

_SEQUENCES = (Items, Each, Container)


class OperatorEffects(CollectionEffects):
    """The effects of operators in one frame."""

    def binary(self, left: Any, right: Any, is_in_place: bool, is_power: bool) -> Effect:
        """Return the effect of a binary operator."""
        is_outside = is_in_place and left in (ARRAY, SUPPORTED_ARRAY)
        if left is TRACER or (right is TRACER and left in ARRAYS | {PLAIN} and not is_outside):
            # The tracer computes pending nodes before it leaves the operator to another object.
            if not has_no_effects(right, self.heap):
                return Effect(UNKNOWN, "", is_recorded=True)
            is_real = {left, right} <= {TRACER, NUMBER, SUPPORTED_ARRAY}
            is_repeated = type(right) in _SEQUENCES and reads_memory(right, self.heap)  # by a number
            kind = TRACER if is_real else UNKNOWN if is_repeated else VALUE
            # The operators of a masked array, and `%` of a string, read the tracer.
            return Effect(kind, "", is_recorded=left not in (PLAIN, ARRAY))
        if not (has_no_effects(left, self.heap) and has_no_effects(right, self.heap)):
            return Effect(UNKNOWN, f"an operator of an object that {OTHER_CODE}")
        if type(left) is Known or type(right) is Known:
            return Effect(UNKNOWN, f"an operator of an object that {OTHER_CODE}")
        if is_outside:
            return Effect(ARRAY, "an in-place operator of an array that is not an argument")
        if left is NUMBER and right is NUMBER:
            return Effect(PLAIN if is_power else NUMBER)
        if left in (NUMBER, PLAIN, SLICE) and right in (NUMBER, PLAIN, SLICE):
            return Effect(PLAIN)
        if type(left) in (Items, Each) and type(right) in (Items, Each):
            if type(left) is type(right) is Items:
                return Effect(Items((*left.kinds, *right.kinds)))
            return Effect(Each(join(item_of(left), item_of(right))))
        if type(left) in (Items, Each) and right in (NUMBER, PLAIN):
            return Effect(Each(item_of(left)))
        if left in (NUMBER, PLAIN) and type(right) in _SEQUENCES:
            return Effect(right if type(right) is Container else Each(item_of(right)))
        if type(left) is Container:
            is_extended = type(right) in (Container, Items, Each) or (is_in_place and right in ARRAYS)
            part = items(right, self.heap) if is_extended else None
            if part is not None:
                self.add(left, part)
            if is_in_place or part is not None or right in (NUMBER, PLAIN):
                return Effect(left)
        if reads_memory(left, self.heap) or reads_memory(right, self.heap):
            may_repeat = type(left) in _SEQUENCES or type(right) in _SEQUENCES
            kind = UNKNOWN if may_repeat else VALUE
            return Effect(kind, f"an operator {READS_ARRAY}")
        return Effect(VALUE)

    def compare(self, left: Any, right: Any) -> Effect:
        """Return the effect of a comparison."""
        if all(kind in (NUMBER, PLAIN, SLICE) or type(kind) is Known for kind in (left, right)):
            return Effect(NUMBER)
        effect = self.binary(left, right, is_in_place=False, is_power=False)
        return effect if effect.kind in (TRACER, UNKNOWN) else effect._replace(kind=VALUE)

    def unary(self, kind: Any) -> Effect:
        """Return the effect of a sign or `~`."""
        if kind is TRACER or kind in (NUMBER, PLAIN, VALUE):
            return Effect(kind, "", kind is TRACER)
        return self.read_all([kind], "an operator")._replace(kind=VALUE if kind in ARRAYS else UNKNOWN)

    def subscript(self, owner: Any, index: Any) -> Effect:
        """Return the effect of indexing."""
        if not has_no_effects(index, self.heap):
            return Effect(UNKNOWN, f"an index that {OTHER_CODE}")
        if owner in (ARRAY, SUPPORTED_ARRAY):
            parts = index.kinds if type(index) is Items else (index,)
            is_view = SLICE in parts and all(part in (SLICE, NUMBER, PLAIN) for part in parts)
            return Effect(owner, "" if is_view else f"an index {READS_ARRAY}")
        if owner is TRACER:
            risk = f"an index {READS_ARRAY}" if reads_memory(index, self.heap) else ""
            return Effect(TRACER, risk, is_recorded=True)
        if owner in (VALUE, NUMBER, PLAIN):
            return Effect(owner)
        if type(owner) is Items:
            return Effect(Each(item_of(owner)) if index is SLICE else item_of(owner))
        if type(owner) is Each:
            return Effect(owner if index is SLICE else owner.kind)
        if type(owner) is Container:
            content = self.heap.get(owner.site)
            return Effect(owner if index is SLICE else PLAIN if content is None else content)
        if type(owner) is Known and type(owner.value).__module__ == "numpy.lib._index_tricks_impl":
            return self.read_all([index], "an index")
        return Effect(UNKNOWN, f"an index of an object that {OTHER_CODE}")

    def store_subscript(self, owner: Any, index: Any, value: Any) -> Effect:
        """Return the effect of an assignment to an index."""
        if type(owner) is Container and has_no_effects(index, self.heap):
            if index not in (SLICE, VALUE):
                self.add(owner, value)
                return Effect(None)
            effect = self.iterate(value)
            self.add(owner, effect.kind if index is SLICE else join(effect.kind, value))
            return Effect(None, effect.risk)
        if owner in VALUES:
            if not (has_no_effects(index, self.heap) and has_no_effects(value, self.heap)):
                self.leak([value])
                return Effect(None, f"it stores an object that {OTHER_CODE} in an array")
            is_read = reads_memory(index, self.heap) or (
                value is ARRAY or (type(value) in (Items, Each, Container) and reads_memory(value, self.heap))
            )
            return Effect(None, f"it {READS_ARRAY}" if is_read else "", owner is TRACER)
        self.leak([value])
        if owner in ARRAYS:
            return Effect(None, "it writes to an array that is not an argument")
        return Effect(None, f"an assignment to an item of an object that {OTHER_CODE}")
