"""The call of a fused function that runs here."""

from __future__ import annotations

from contextvars import ContextVar

from pycudakit.fusing.trace.trace import Recording

active: ContextVar[Recording | None] = ContextVar("pycudakit_recording", default=None)


def recording_now() -> Recording | None:
    """Return the recording of the fused function that runs here: one that has ended counts no more."""
    recording = active.get()
    return None if recording is None or recording.is_over else recording


def capturing() -> Recording | None:
    """Return the recording that captures what asks no stand-in, if there is one."""
    recording = recording_now()
    return None if recording is None or recording.is_left_to_numpy else recording
