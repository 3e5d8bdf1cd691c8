"""The cost model's times of calls on the machine of docs/measured.md: 16 threads and 53 GB/s each way."""

import os

import numpy as np

import pycudakit as pk
from pycudakit._element_programs import program_cost
from pycudakit._native import engine_status, hardware
from pycudakit._runtime import cost_model, engine_choice

THREADS, BYTES_A_SECOND = 16, 53e9
SIZES = [round(10 ** (power / 8)) for power in range(24, 69)]  # 1e3 to 3e8


class Costed(Exception):
    """Ends a call when its estimated cost is known: seconds by engine."""


def _of_call(function, guess):
    on_gpu = cost_model.cuda_seconds(guess.up, guess.down) + guess.gpu
    raise Costed({"NumPy": guess.numpy, "cpu": guess.cpu, "cuda": on_gpu})


def _of_program(function, program, size, up):
    known, down = program_cost.estimate(program), size * program.out_bytes
    calls = len({(name, call) for name, _, call in program.work}) * program_cost.NUMPY_CALL
    times = {
        "NumPy": calls + size * known.numpy if program.numpy_agrees or len(program.work) == 1 else None,
        "cpu": program_cost.cpu_seconds(program, size, up + down),
        "cuda": cost_model.cuda_seconds(up, down),
    }
    raise Costed(times)


def _on_another_machine():
    """Make the model assume the machine with the GPU, and end each call when its cost is known."""
    os.environ["PYCUDAKIT_THREADS"] = str(THREADS)  # before the library starts its threads
    hardware.link_speed = lambda device=0: hardware.Link(BYTES_A_SECOND, BYTES_A_SECOND)
    hardware.link_is_known = lambda: True
    found = engine_status.status
    engine_status.status = lambda name: (
        engine_status.EngineStatus(True, "1 device") if name == "cuda" else found(name)
    )
    engine_choice._choose, program_cost.choose = _of_call, _of_program


def curves(families):
    """Return the modelled seconds of each call: by family, call, engine and size."""
    _on_another_machine()
    found = {}
    for family, calls in families.items():
        for name, call in calls.items():
            if not call.modelled:
                continue
            lines = found.setdefault(family, {}).setdefault(name, {})
            for size in SIZES:
                for engine, seconds in _costs(call, size).items():
                    if seconds:
                        lines.setdefault(engine, {})[size] = seconds
    return found


def _costs(call, size):
    """Return the estimated costs of a call; nothing if the CPU engine is chosen without an estimate."""
    try:
        with pk.engine("auto"):
            call.of(*call.arrays(np.zeros(size, call.dtype)))
    except Costed as found:
        return found.args[0]
    return {}
