"""How the CPU engine runs the kernels of a source: by loops or fibers, and which loops are vectorised."""

from __future__ import annotations

import re

from pycudakit import errors
from pycudakit.kernels.compiling import cuda_to_cpp, host_compiler, host_translation, thread_loops
from pycudakit.kernels.compiling.source import Signature, Source

# GCC: "kernel.cu:3:17: optimized: loop vectorized using 64 byte vectors".
# Clang: "kernel.cu:3:17: remark: vectorized loop (vectorization width: 16, interleaved count: 4)".
_VECTORISED = re.compile(
    r"^(.*?):(\d+):\d+: (?:optimized: loop vectorized|remark: vectorized loop)", re.MULTILINE
)


def report(source: Source) -> str:
    """Return a line for each kernel of a source.

    Raises
    ------
    CompileError
        There is no compiler, or the source does not compile.
    """
    waits = cuda_to_cpp.kernels_with_barriers(source)
    reasons = _reasons(source, waits)
    splits = len(reasons) < len(waits)
    try:
        remarks = host_compiler.remarks(
            source, host_translation.translated(source, splits_kernels=splits, has_lines=True)
        )
    except errors.CompileError:
        if not splits:
            raise
        remarks = host_compiler.remarks(source, host_translation.translated(source, has_lines=True))
        reasons |= dict.fromkeys(waits - reasons.keys(), "its loops do not compile")
    lines = {int(line) for name, line in _VECTORISED.findall(remarks) if name == source.name}
    starts = sorted({kernel.line for kernel in source.kernels})
    return "\n".join(_line(kernel, waits, reasons, lines, starts) for kernel in source.kernels)


def _reasons(source: Source, waits: set[str]) -> dict[str, str]:
    """Return why kernels run on fibers."""
    if source.debug or host_compiler.forces_fibers():
        return dict.fromkeys(waits, "for debug=True" if source.debug else "for PYCUDAKIT_FIBERS")
    _, _, reasons = thread_loops.split(source, waits)
    return {name: f"line {reason.line}: {reason.text}" for name, reason in reasons.items()}


def _line(
    kernel: Signature, waits: set[str], reasons: dict[str, str], vectorised: set[int], starts: list[int]
) -> str:
    end = min((start for start in starts if start > kernel.line), default=kernel.line + 10**9)
    own = sorted(line for line in vectorised if kernel.line <= line < end)
    if kernel.name in reasons:
        how = f"fibers ({reasons[kernel.name]})"
    elif kernel.name in waits:
        how = "loops over threads, from barrier to barrier"
    else:
        how = "a loop over threads"
    loops = [
        "over threads" if line == kernel.line and kernel.name not in waits else f"in line {line}"
        for line in own
    ]
    loops_report = f"vectorised: the loops {', '.join(loops)}" if own else "not vectorised"
    return f"{kernel.name}: {how}; {loops_report}"
