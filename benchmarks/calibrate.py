"""Measure NumPy's and the CPU engine's time per element; write pycudakit/_element_programs/measured_rates.py.

Run it alone on a quiet machine whose NumPy is at its fastest (AVX-512), so that `auto` never avoids NumPy
where NumPy would be faster. (`pycudakit tune` measures the same in seconds, for its machine alone.)

    python benchmarks/calibrate.py
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["PYCUDAKIT_THREADS"] = "1"

from pycudakit._cli import measure_rates

REPEATS = 40
TARGET = Path(__file__).parent.parent / "pycudakit" / "_element_programs" / "measured_rates.py"

HEADER = '''"""Measured rates of NumPy and the CPU engine on one core, with data in cache.

Each cell is NumPy's time / the CPU engine's, in ns per element, for one argument type (for a cast: the source
type).

Written by benchmarks/calibrate.py; the types are in the order of pk_type, "-" where NumPy has no loop.
"""

NANOSECONDS = {
'''


def main() -> None:
    """Measure the rates, and write the file."""
    lines = []
    for name, row in measure_rates.rows(REPEATS):
        lines.append(f'    "{name}": "{row}",')
        print(lines[-1], flush=True)
    TARGET.write_text(HEADER + "\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
