"""PyCUDA's programs on PyCUDA and on pycudakit: the time of launches, copies and arithmetic.

    python benchmarks/pycuda.py [--engine cpu] [--gtm FOLDER] [--quick]

The same program runs in a process for each library: by PyCUDA, where it is installed and there is a GPU, and
on pycudakit's engines. `--gtm` names a clone of cair/GraphTsetlinMachine: it adds an epoch of 1,000 graphs of
noisy XOR.
"""

import argparse
import ctypes
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SOURCE = """
__global__ void nine(int *a, int *b, float *c, float d, int e, int f, float g, int *h, int i) {
    if (e > 5) a[0] = 1;
}
"""
MIB = 1 << 20


def best(run, rounds=7, count=1):
    """Return the shortest time of a round, by the number of its runs."""
    run()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times) / count


def launches(drv, module):
    """Yield the times of launches: prepared, by keywords, and of an empty ctypes call of that signature."""
    kernel = module(SOURCE).get_function("nine")
    kernel.prepare("PPPfiifPi")
    memory = [drv.mem_alloc(64) for _ in range(4)]
    arguments = (memory[0], memory[1], memory[2], 1.0, 1, 2, 3.0, memory[3], 4)
    typed = (*memory[:3], np.float32(1), np.int32(1), np.int32(2), np.float32(3), memory[3], np.int32(4))
    empty = ctypes.CDLL(None).abs
    pointer, number, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
    empty.argtypes = [number, pointer, pointer, pointer, real, number, number, real, pointer, number]
    plain = [int(each) if not isinstance(each, float) else each for each in arguments]

    def prepared():
        for _ in range(1000):
            kernel.prepared_call((1, 1), (1, 1, 1), *arguments)
        drv.Context.synchronize()

    def called():
        for _ in range(1000):
            kernel(*typed, block=(1, 1, 1), grid=(1, 1))
        drv.Context.synchronize()

    def synchronized():
        for _ in range(1000):
            kernel.prepared_call((1, 1), (1, 1, 1), *arguments)
            drv.Context.synchronize()

    def of_ctypes():
        for _ in range(1000):
            empty(1, *plain)

    yield "prepared_call, us", best(prepared, count=1000) * 1e6
    yield "call with block= and grid=, us", best(called, count=1000) * 1e6
    yield "prepared_call and synchronize, us", best(synchronized, count=1000) * 1e6
    yield "empty ctypes call of nine arguments, us", best(of_ctypes, count=1000) * 1e6


def copies(drv, largest):
    """Yield the times of copies of ordinary memory that was touched before."""
    for size, name in ((1024, "1 KiB"), (MIB, "1 MiB"), (largest * MIB, f"{largest} MiB")):
        host, memory = np.ones(size, np.uint8), drv.mem_alloc(size)

        def up(host=host, memory=memory):
            drv.memcpy_htod(memory, host)

        def down(host=host, memory=memory):
            drv.memcpy_dtoh(host, memory)

        yield f"memcpy_htod of {name}, us", best(up) * 1e6
        yield f"memcpy_dtoh of {name}, us", best(down) * 1e6
        memory.free()


def arithmetic(drv):
    """Yield the times of an expression of arrays on the device, and of NumPy's."""
    from pycuda import gpuarray

    for size in (1000, 1_000_000):
        a, b = np.ones(size, np.float32), np.ones(size, np.float32)
        a_gpu, b_gpu = gpuarray.to_gpu(a), gpuarray.to_gpu(b)

        def on_device(a=a_gpu, b=b_gpu):
            for _ in range(20):
                c = (2 * a + b) / 3  # noqa: F841
            drv.Context.synchronize()

        def by_numpy(a=a, b=b):
            for _ in range(20):
                c = (2 * a + b) / 3  # noqa: F841

        yield f"(2 * a + b) / 3 of {size:,} float32, us", best(on_device, count=20) * 1e6
        yield f"the same by NumPy of {size:,}, us", best(by_numpy, count=20) * 1e6


def epoch(folder):
    """Yield the time of an epoch of the Graph Tsetlin Machine."""
    sys.path.insert(0, str(folder))
    import pycuda.driver as drv
    from GraphTsetlinMachine.graphs import Graphs
    from GraphTsetlinMachine.tm import MultiClassGraphTsetlinMachine

    count, random = 1000, np.random.default_rng(1)
    np.random.seed(1)  # noqa: NPY002  (of the program)
    graphs = Graphs(count, symbols=["A", "B"], hypervector_size=8, hypervector_bits=2)
    for graph in range(count):
        graphs.set_number_of_graph_nodes(graph, 2)
    graphs.prepare_node_configuration()
    for graph in range(count):
        for name in ("Node 1", "Node 2"):
            graphs.add_graph_node(graph, name, 1)
    graphs.prepare_edge_configuration()
    labels = np.empty(count, np.uint32)
    for graph in range(count):
        graphs.add_graph_node_edge(graph, "Node 1", "Node 2", "Plain")
        graphs.add_graph_node_edge(graph, "Node 2", "Node 1", "Plain")
        first, second = random.choice(["A", "B"], 2)
        graphs.add_graph_node_property(graph, "Node 1", first)
        graphs.add_graph_node_property(graph, "Node 2", second)
        labels[graph] = (first != second) ^ (random.random() < 0.01)
    graphs.encode()
    machine = MultiClassGraphTsetlinMachine(
        *(4, 100, 2.0), number_of_state_bits=8, depth=2, message_size=16, message_bits=2,
        grid=(1, 1, 1), block=(1, 1, 1),
    )  # fmt: skip
    machine.fit(graphs, labels, epochs=1, incremental=True)

    def train():
        machine.fit(graphs, labels, epochs=1, incremental=True)
        drv.Context.synchronize()

    yield "an epoch of the Graph Tsetlin Machine, ms", best(train, rounds=3) * 1e3


def measure(folder, quick):
    """Measure in this process; print the times as JSON."""
    import pycuda.autoinit  # noqa: F401
    import pycuda.driver as drv
    from pycuda.compiler import SourceModule

    times = dict(launches(drv, SourceModule))
    times |= dict(copies(drv, 2 if quick else 256))
    times |= dict(arithmetic(drv))
    if folder:
        times |= dict(epoch(folder))
    print(json.dumps(times))


def main():
    """Run the program on each library, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=("cpu", "cuda"), action="append")
    parser.add_argument("--gtm", type=Path, default="")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    here = Path(__file__).resolve().parent  # in which `pycuda` is this file
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != here]
    folder = str(arguments.gtm.absolute()) if arguments.gtm != Path() else ""
    if arguments.child:
        measure(folder, arguments.quick)
        return
    import pycudakit as pk

    engines = arguments.engine or [name for name in ("cpu", "cuda") if pk.engines()[name]]
    words = [
        __file__,
        "--child",
        *(["--gtm", folder] if folder else []),
        *(["--quick"] if arguments.quick else []),
    ]
    commands = {
        f"pycudakit, {name}": ["-m", "pycudakit", "pycuda", "--engine", name, *words] for name in engines
    }
    if "cuda" in engines and importlib.util.find_spec("pycuda"):
        commands["PyCUDA"] = words
    tables = {}
    for name, command in commands.items():
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
        else:
            tables[name] = json.loads(done.stdout.splitlines()[-1])
    rows = list(dict.fromkeys(row for table in tables.values() for row in table))
    print(f"| {'time':<44} | " + " | ".join(f"{name:>16}" for name in tables) + " |")
    print("| --- |" + " ---: |" * len(tables))
    for row in rows:
        print(
            f"| {row:<44} | "
            + " | ".join(f"{table.get(row, np.nan):>16,.2f}" for table in tables.values())
            + " |"
        )


if __name__ == "__main__":
    main()
