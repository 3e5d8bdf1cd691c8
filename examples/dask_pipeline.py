"""Many machines: a pipeline on a cluster of Dask's, with the bits of one machine.

    python examples/dask_pipeline.py

needs `pip install "pycudakit[many]"`. The cluster is one of processes: where there are several GPUs, each
has one of them, by dask-cuda if that is installed; else two share the machine. For a cluster that there is,
write `Client("tcp://scheduler:8786")` instead.
"""

import logging
import os

import dask
import numpy as np
from dask.distributed import Client, Nanny, Scheduler, SpecCluster

import pycudakit as pk

ROWS, COLUMNS, BLOCKS = 160_000, 25, 16


def pipeline(draw):
    """Return a model's results for noise: means, a histogram, and the ten best."""
    noise = draw("standard_normal", size=(ROWS, COLUMNS))
    prices = pk.exp(pk.subtract(pk.multiply(noise, 0.2), 0.02))
    paid = pk.maximum(pk.subtract(pk.mean(prices, axis=1), 1.0), 0.0)
    counts, _ = pk.histogram(paid, 20, (0, 0.5))
    return pk.mean(paid), counts, pk.topk(paid, 10).values


def gpus():
    """Return the names of this process's GPUs, as in `CUDA_VISIBLE_DEVICES`."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names.split(",") if names else [str(gpu.index) for gpu in pk.devices()]


def choose_engine():
    """Have all processes, and this one, compute on one engine: bits of `exp` are an engine's own."""
    engine = os.environ.setdefault("PYCUDAKIT_ENGINE", "cuda" if gpus() else "cpu")  # which processes inherit
    pk.set_engine(engine)


def environments(names):
    """Return the variables of each process: its GPU, or its part of the one that there is."""
    count = max(2, len(names))
    shared = {"PYCUDAKIT_THREADS": str(max(1, (os.cpu_count() or 1) // count))}
    if len(names) < 2:
        return [shared | {"PYCUDAKIT_DEVICE_MEMORY": "256M", "PYCUDAKIT_PLAN_MEMORY": "256M"}] * count
    return [shared | {"CUDA_VISIBLE_DEVICES": name} for name in names]


def start_cluster(names):
    """Start a process for each GPU, or two."""
    if len(names) > 1:
        try:
            from dask_cuda import LocalCUDACluster
        except ImportError:
            pass
        else:
            return LocalCUDACluster(CUDA_VISIBLE_DEVICES=names, dashboard_address=None)
    here = {"host": "127.0.0.1"}
    options = {**here, "nthreads": 1, "silence_logs": logging.WARNING}
    workers = {
        place: {"cls": Nanny, "options": {**options, "env": variables}}
        for place, variables in enumerate(environments(names))
    }
    options = {**here, "dashboard": False, "dashboard_address": "127.0.0.1:0"}  # any port
    return SpecCluster(workers, {"cls": Scheduler, "options": options}, silence_logs=logging.WARNING)


def main():
    choose_engine()
    with start_cluster(gpus()) as cluster, Client(cluster) as client:
        rng = pk.random.default_rng(7)
        chunks = ROWS // BLOCKS
        lazy = pipeline(lambda name, size: pk.random.on_dask(rng, name, size=size, chunks=chunks))
        on_cluster = dask.compute(*lazy)
        processes = len(client.scheduler_info()["workers"])

    rng = pk.random.default_rng(7)
    here = pipeline(lambda name, size: getattr(rng, name)(size=size))
    same = all(np.array_equal(there, here) for there, here in zip(on_cluster, here, strict=True))
    print(f"mean payoff {on_cluster[0]:.6f}, best {on_cluster[2][0]:.4f}")
    print(f"{processes} processes, {BLOCKS} blocks: the bits of one machine: {same}")


if __name__ == "__main__":
    main()
