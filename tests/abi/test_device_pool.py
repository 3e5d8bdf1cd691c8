"""The device pool, staging slots and staged copies keep budgets and the order of streams, without a GPU."""

from helpers import fake_cuda

SOURCES = [
    *(
        f"cuda/runtime/{name}.cpp"
        for name in ("cuda", "device_pool", "execution_context", "pinned_memory", "tuning")
    ),
    *(f"cuda/pipeline/{name}.cpp" for name in ("staged_copy", "staging_slots", "staging_thread")),
    *(f"common/call/{name}.cpp" for name in ("call", "environment", "parallel_for", "status", "thread_pool")),
]


@fake_cuda.needs_sources
def test_budgets_order_and_copies(tmp_path):
    fake_cuda.run(tmp_path, "device_pool", SOURCES)
