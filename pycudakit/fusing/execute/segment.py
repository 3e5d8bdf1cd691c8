"""Segment: a part of a captured call, up to a branch on a computed number or to a host call, as a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pycudakit.fusing.execute.host_call import HostCall
from pycudakit.fusing.execute.loop_state import LoopState
from pycudakit.fusing.execute.plan import Plan


class LoweredSegment(NamedTuple):
    """A segment on the path of one call.

    The arrays that enter and leave it have serial numbers, in the order in which the call allocates them.
    """

    plan: Plan
    live_in: tuple[int, ...]  # arrays of earlier segments: the plan's last arguments
    live_out: tuple[int, ...]  # arrays that later segments or the caller use: the plan's new arrays
    identity: bytes  # a digest of the requests, in which memory has its serial number
    outcome: Any  # of the condition, or the layouts of the host call's results
    host_call: HostCall | None = None
    loop_state: LoopState | None = None  # at the branch, if that may leave a loop

    @property
    def written(self) -> Sequence[int]:
        """The arguments of the call that requests, or the host call, write to."""
        arguments = len(self.plan.arguments) - len(self.live_in)
        written = [index for index in self.plan.written if index < arguments]
        if self.host_call is not None and self.host_call.written >= 0:
            written.append(self.host_call.written)
        return written

    @property
    def is_last(self) -> bool:
        """Whether the call ends with this segment."""
        return self.plan.condition is None and self.host_call is None
