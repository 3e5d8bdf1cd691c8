"""Many machines: a pipeline on a cluster of Dask's, here of two processes, with the bits of one machine.

    python examples/dask_pipeline.py

needs `pip install "pycudakit[many]"`. `Client("tcp://scheduler:8786")` instead has it run on a cluster.
"""

import os

import dask
import numpy as np
from dask.distributed import Client, LocalCluster

import pycudakit as pk

ROWS, COLUMNS, BLOCKS, PROCESSES = 160_000, 25, 16, 2


def pipeline(draw):
    """Return what a model makes of noise: means, a histogram, and the ten best."""
    noise = draw("standard_normal", size=(ROWS, COLUMNS))
    prices = pk.exp(pk.subtract(pk.multiply(noise, 0.2), 0.02))
    paid = pk.maximum(pk.subtract(pk.mean(prices, axis=1), 1.0), 0.0)
    counts, _ = pk.histogram(paid, 20, (0, 0.5))
    return pk.mean(paid), counts, pk.topk(paid, 10).values


def main():
    # Processes on one machine share its processors, and its GPU, if it has one.
    environment = {
        "PYCUDAKIT_THREADS": str(max(1, (os.cpu_count() or 1) // PROCESSES)),
        "PYCUDAKIT_DEVICE_MEMORY": "256M",
    }
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": environment}),
        LocalCluster(n_workers=PROCESSES, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        rng = pk.random.default_rng(7)
        chunks = ROWS // BLOCKS
        lazy = pipeline(lambda name, size: pk.random.on_dask(rng, name, size=size, chunks=chunks))
        on_cluster = dask.compute(*lazy)

    rng = pk.random.default_rng(7)
    here = pipeline(lambda name, size: getattr(rng, name)(size=size))
    same = all(np.array_equal(there, here) for there, here in zip(on_cluster, here, strict=True))
    print(f"mean payoff {on_cluster[0]:.6f}, best {on_cluster[2][0]:.4f}")
    print(f"{PROCESSES} processes, {BLOCKS} blocks: the bits of one machine: {same}")


if __name__ == "__main__":
    main()
