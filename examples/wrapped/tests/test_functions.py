"""The checks of each function, and a place for its reference."""

import mysum
import numpy as np
import pytest

COUNT = 64


def arguments_of_launch_sum_kernel():
    return {
        "a": np.ones(COUNT, np.float32),
        "b": np.ones(COUNT, np.float32),
        "out": np.ones(COUNT, np.float32),
        "n": 1,
    }


def test_launch_sum_kernel_takes_no_other_dtype():
    arguments = arguments_of_launch_sum_kernel()
    arguments["a"] = np.ones(COUNT, "M8[s]")
    with pytest.raises(TypeError, match="launch_sum_kernel: a takes arrays of "):
        mysum.launch_sum_kernel(**arguments)


def test_launch_sum_kernel_takes_no_short_array():
    arguments = arguments_of_launch_sum_kernel()
    arguments["a"] = arguments["a"][:0]
    with pytest.raises(ValueError, match="launch_sum_kernel: a needs at least "):
        mysum.launch_sum_kernel(**arguments)


def test_launch_sum_kernel_against_its_oracle():
    pytest.skip("compute the result of launch_sum_kernel in NumPy, and compare")
