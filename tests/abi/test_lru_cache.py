"""The LRU cache of loaded modules and of prepared requests drops what was used least recently."""

from helpers import fake_cuda


@fake_cuda.needs_sources
def test_what_is_dropped_and_when(tmp_path):
    fake_cuda.run(tmp_path, "lru_cache", [])
