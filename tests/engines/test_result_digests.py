"""The bits of the results of every family of functions stay as they were when the digests were written.

`result_digests.txt` holds a line for each case of `helpers/results/`: its family, its name, and 16
hexadecimal digits, which begin the SHA-256 of the bytes, the dtypes and the shapes of its results. One digest
serves both engines and every machine: docs/guarantees.md promises the same bits.

After an intended change of results, or with new cases, write the file again, and read the differences:

    cd tests
    python -m engines.test_result_digests --write
    git diff engines/result_digests.txt
"""

import hashlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.results import FAMILIES

import pycudakit as pk

DATA = Path(__file__).with_name("result_digests.txt")
# Functions whose result may be a zero of either sign where both zeros are among the operands.
FREE_ZERO = frozenset(
    [
        "amax", "amin", "clip", "cummax", "cummin", "fmax", "fmin", "max", "maximum", "maximum_filter", "min",
        "minimum", "minimum_filter", "nanmax", "nanmin", "ptp",
    ]
)  # fmt: skip


def canonical(value, is_zero_free):
    """Return an array of native byte order with one NaN, and with one zero where its sign is free."""
    array = np.asarray(value)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    if array.dtype.kind != "f":
        return array
    array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return np.where(array == 0, array.dtype.type(0), array) if is_zero_free else array


def digest(name, results):
    """Return 16 hexadecimal digits for the results of a case; a text is an exception's name."""
    whole = hashlib.sha256()
    for result in results:
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, str):
                whole.update(part.encode())
                continue
            array = canonical(part, name.split()[0] in FREE_ZERO)
            little = array.dtype.newbyteorder("<")
            whole.update(f"{little.str}{array.shape}".encode() + array.astype(little).tobytes())
    return whole.hexdigest()[:16]


def digests_of(family):
    """Return the digest of each case of a family, computed on the engine that is set."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {name: digest(name, results) for name, results in FAMILIES[family]()}


def written():
    """Return the digests of the file, by family and name."""
    known = {family: {} for family in FAMILIES}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        family, rest = line.split(": ", 1)
        name, value = rest.rsplit(" ", 1)
        known[family][name] = value
    return known


@pytest.mark.parametrize("family", FAMILIES)
def test_results_have_the_same_bits(engine, family):
    if family in ("kernels", "fuse"):
        _skip_without_compiler()
    want, got = written()[family], digests_of(family)
    assert want.keys() == got.keys(), "cases were added or removed: write result_digests.txt anew"
    different = [name for name, value in got.items() if want[name] != value]
    assert not different, f"{family} on {engine}: {len(different)} of {len(got)} cases differ: {different}"


def _skip_without_compiler():
    """Skip where user kernels cannot be compiled."""
    try:
        pk.SourceModule("__global__ void nothing(int *a) { a[0] = 1; }")
    except pk.errors.Error as error:
        pytest.skip(f"user kernels need a compiler: {error}")


def write():
    """Write the digests of all cases, computed on the engine `cpu`."""
    with pk.engine("cpu"):
        lines = [
            f"{family}: {name} {value}" for family in FAMILIES for name, value in digests_of(family).items()
        ]
    DATA.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
