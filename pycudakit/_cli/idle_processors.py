"""Whether other programs leave the processors to this one."""

from __future__ import annotations

import os
import threading
import time

import numpy as np

SECONDS = 0.05
LEAST_SHARE = 0.9


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def processor_share(seconds: float = SECONDS) -> float:
    """Return which share of the processors this process gets while it keeps all of them busy."""

    def work(until: float) -> None:
        numbers = np.full(50_000, 0.5)
        while time.perf_counter() < until:
            np.sin(numbers, out=numbers)  # without the GIL

    count = processor_count()
    before, begin = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=work, args=(begin + seconds,)) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    work(begin + seconds)
    for thread in threads:
        thread.join()
    return (time.process_time() - before) / (time.perf_counter() - begin) / count


def are_processors_idle() -> bool:
    """Return True if other programs leave the processors to this one, measured for 50 ms."""
    return processor_share() >= LEAST_SHARE
