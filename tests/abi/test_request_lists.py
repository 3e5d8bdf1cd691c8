"""Lists of requests on a device: copies, results, status words and calls on the host, without a GPU."""

from helpers import fake_cuda

SOURCES = [
    "requests.cu",
    *(f"cuda/kernels/{name}.cpp" for name in ("buffers", "run_resources")),
    *(f"cuda/residency/{name}.cpp" for name in ("execute", "operands", "residency_map")),
    *(f"cuda/pipeline/{path.name}" for path in (fake_cuda.ROOT / "csrc/cuda/pipeline").glob("*.cpp")),
    *(
        f"cuda/runtime/{name}.cpp"
        for name in ("cuda", "device_pool", "execution_context", "pinned_memory", "tuning")
    ),
    "common/layout.cpp",
    "common/requests.cpp",
    *(f"common/call/{name}.cpp" for name in ("call", "environment", "parallel_for", "status", "thread_pool")),
]


@fake_cuda.needs_sources
def test_lists(tmp_path):
    fake_cuda.run(tmp_path, "requests", SOURCES)
