"""How products are tiled on a GPU: by sizes and the configured budget, and beyond the limits of a grid."""

import pytest
from helpers.processes import python

import pycudakit as pk


@pytest.fixture(autouse=True)
def _on_a_gpu():
    if not pk.engines()["cuda"].available:
        pytest.skip("needs a GPU")


BUSY = """
import pycudakit as pk
wait = pk.SourceModule('''
__global__ void wait(int *x, long long n) {
    const long long began = clock64();
    while (clock64() - began < n) continue;
    *x = 1;
}''').get_function("wait")
pk.set_engine("cuda")
x = np.random.default_rng(1).standard_normal((5000, 5000), np.float32)

def product():
    result = pk.matmul(x, x)
    call = pk.last_call()
    return result.tobytes(), call.bytes_up, call.bytes_down, call.chunks

alone = product()
held = np.zeros(200 << 18, np.int32)  # device memory that the kernel holds while it runs
def run():
    with pk.engine("cuda"):
        wait(held, np.int64(3_000_000_000), block=(1, 1, 1))
wait(held, np.int64(1), block=(1, 1, 1))
thread = threading.Thread(target=run)
thread.start()
time.sleep(0.5)
print(product() == alone)
thread.join()
"""


def test_memory_that_others_hold_does_not_change_the_tiling():
    """Half of the budget is held by a kernel: the product waits, and has the same tiles and bits."""
    assert python(BUSY) == "True"


TALL = """
import pycudakit as pk
rng = np.random.default_rng(1)
a, b = rng.integers(-9, 9, (4_200_000, 2), np.int32), rng.integers(-9, 9, (2, 3), np.int32)
with pk.engine("cuda"):
    print(bool((pk.matmul(a, b) == a @ b).all() and (pk.matmul(b.T, a.T) == b.T @ a.T).all()))
"""


def test_more_rows_than_a_grid_has_in_y():
    """With large chunks a tile has more than 65,535 blocks of 64 rows."""
    large = {"PYCUDAKIT_STREAM_CHUNK_BYTES": str(1 << 30), "PYCUDAKIT_PINNED_MEMORY": str(4 << 30)}
    assert python(TALL, env=large) == "True"
