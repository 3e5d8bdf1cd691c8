"""Calls on operands on a device: chunks, waiting, status words and results for the host, without a GPU."""

from helpers import fake_cuda

SOURCES = [
    *(f"cuda/residency/{name}.cpp" for name in ("execute", "operands", "residency_map")),
    *(f"cuda/pipeline/{path.name}" for path in (fake_cuda.ROOT / "csrc/cuda/pipeline").glob("*.cpp")),
    *(
        f"cuda/runtime/{name}.cpp"
        for name in ("cuda", "device_pool", "execution_context", "pinned_memory", "tuning")
    ),
    "common/layout.cpp",
    *(f"common/call/{name}.cpp" for name in ("call", "environment", "parallel_for", "status", "thread_pool")),
]


@fake_cuda.needs_sources
def test_execute(tmp_path):
    fake_cuda.run(tmp_path, "execute", SOURCES)
