"""Matrix products and image functions of other libraries' device arrays."""

import numpy as np
import pytest
from helpers.calls_on_device import EINSUMS, arrays_of
from helpers.device_arrays import numbers, on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk


@on_a_gpu
def test_matrices_and_images(library):
    x, y = numbers(120, 80), numbers(80, 90)
    np.testing.assert_allclose(library.down(pk.matmul(library.up(x), library.up(y))), x @ y, rtol=1e-12)
    assert pk.last_call().bytes_up == 0
    image = numbers(200, 300, dtype=np.float32)
    blurred = pk.image.box_blur(library.up(image), 5)
    assert_array_equal(library.down(blurred), pk.image.box_blur(image, 5))


@on_a_gpu
@pytest.mark.parametrize("name", EINSUMS)
def test_sums_of_products(library, name):
    call = EINSUMS[name]
    given = arrays_of(call)
    got = library.down(call(pk, **{key: library.up(x) for key, x in given.items()}))
    assert pk.last_call().bytes_up + pk.last_call().bytes_down < 20_000, pk.last_call()
    wanted = call(np, **given)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
