"""Cached calls of elementwise functions under `auto`: the CPU engine computes, without a new choice."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._element_programs.program import ElementProgram
from pycudakit._native import allocator, engine_status
from pycudakit._native.allocator import residency_hooks
from pycudakit._runtime import dispatch_cache
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.dispatch_cache import CachedCall
from pycudakit._runtime.engine_choice import EngineChoice


def offer_to_cache(program: ElementProgram, inputs: Sequence[Any], result: Any) -> None:
    """Offer a call of dense arrays of one shape, which ran on the CPU engine, to the dispatch cache."""
    if dispatch_cache.is_filling_cache() and result.ndim:
        dispatch_cache.offer_to_cache(result, functools.partial(_cached_call, program, inputs))


def _cached_call(
    program: ElementProgram, inputs: Sequence[Any], choice: EngineChoice, arguments: tuple[Any, ...]
) -> CachedCall | None:
    """Make a cached call for dense arrays of any shape, of sizes at which the CPU engine is fastest.

    Return None if the call's arguments are not the program's inputs.
    """
    if len(arguments) != len(inputs) or not all(map(operator.is_, arguments, inputs)):
        return None
    estimated = program_cost.estimate(program)
    begin, end = 0.0, math.inf
    if not (isinstance(choice.reason, Estimates) and choice.reason.measured):
        begin = estimated.numpy_below if program.numpy_agrees else 0.0
        end = estimated.cuda_from if engine_status.status("cuda").available else math.inf
    works, (dtype,) = prepared_programs(program), program.out_dtypes

    def compute(arguments: tuple[Any, ...]) -> Any:
        shape, size = None, 0
        for value in arguments:
            if type(value) is np.ndarray:
                if shape is None:
                    shape, size = value.shape, value.size
                if value.shape != shape or not value.flags.c_contiguous:
                    return None
        if shape is None or not begin <= size < end or residency_hooks.on_new_array is not None:
            return None
        empty = np.empty if size * dtype.itemsize < allocator.MIN_BYTES else allocator.empty
        result = empty(shape, dtype)
        work = works.take()
        try:
            work.bind_dense(size, result, None, *arguments)
            if work.run_on_cpu(choice):
                work.report_fp_flags()
        except OverflowError:  # a Python integer that the other operands' type cannot hold
            return None
        finally:
            works.give_back(work)
        return result

    return CachedCall(compute, any_shape=True)
