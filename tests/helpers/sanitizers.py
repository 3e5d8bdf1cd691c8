"""Detection of sanitizer builds, which are several times slower."""

import pycudakit as pk

SANITIZED = any(pk.build_info().get(name, {}).get("sanitizers") for name in ("cpu", "cuda"))
