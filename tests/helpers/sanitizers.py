"""Whether a library was built with sanitizers, under which all takes several times as long."""

import pycudakit as pk

SANITIZED = any(pk.build_info().get(name, {}).get("sanitizers") for name in ("cpu", "cuda"))
