"""Translation of a source to C++ for a host compiler: headers, code, and a table of the kernels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pycudakit.kernels.compiling import cuda_to_cpp, inline_ptx, thread_loops
from pycudakit.kernels.compiling.extern_c import directives, line_directive, preprocessing, wrapped
from pycudakit.kernels.compiling.source import Signature, Source, short_names

# Names in the C library that CUDA's headers do not declare: a source may define them itself, so they are
# renamed by macros. Names of Bessel functions, which kernels can call, only if a kernel has the name.
_RESERVED_NAMES = re.compile(
    r"abort|atexit|ato[fil]|clearerr|l?l?div|drem|exit|ffs|[fp]?[gp]et?[cs]|fput[cs]|gamma|(?:get|put)(?:c|env|w)"
    r"|index|[jy](?:0|1|n)|link|mktemp|perror|pipe|qsort|raise|s?rand|s?random|read|remove|rename|rewind|rindex"
    r"|scalb|select|setstate|signal|significand|swab|sync|system|tmpfile|ungetc|write"
)
_BESSEL = ("j0", "j1", "jn", "y0", "y1", "yn")


def translated(source: Source, *, splits_kernels: bool = False, has_lines: bool = False) -> str:
    """Translate a source to C++: the headers of the dialect, the source, and a table of its kernels.

    Parameters
    ----------
    splits_kernels
        Whether kernels with barriers also become loops over threads, where that is proven to be the same.
    has_lines
        Whether the loops of kernels without barriers have the lines of these, for the compiler's remarks.
    """
    text = inline_ptx.translated(cuda_to_cpp.translated(source.text, checked=source.debug))
    body = line_directive(1, source.name) + text if source.no_extern_c else wrapped(text, source.name)
    waits = cuda_to_cpp.kernels_with_barriers(source)
    loops, splits = "", dict[str, str]()
    if splits_kernels and not source.debug:
        loops, splits, _ = thread_loops.split(source, waits)
        loops = inline_ptx.translated(cuda_to_cpp.translated(loops, checked=False))
    entries = [
        f"    {_entry(kernel.name, waits, splits)}({json.dumps(kernel.name)})," for kernel in source.kernels
    ]
    symbols = [
        f"    {{{json.dumps(name)}, (void *)&{name}, sizeof({name})}},"
        for name in cuda_to_cpp.variables(source.text)
    ]
    lines = [
        *_prologue(source),
        body,
        loops,
        *(
            _located(kernel, source.name)
            for kernel in source.kernels
            if has_lines and kernel.name not in waits
        ),
        line_directive(1, "the table of kernels").rstrip(),
        "namespace {",
        "const pk_image_kernel pk_kernels[] = {",
        *entries,
        "    {}};",
        "const pk_image_symbol pk_symbols[] = {",
        *symbols,
        "    {}};",
        "const pk_image_table pk_table = {PK_IMAGE_VERSION,",
        f"    {int(source.debug)}, {len(entries)}, pk_kernels, {len(symbols)}, pk_symbols}};",
        "}",
        'extern "C" __attribute__((visibility("default"))) const pk_image_table *pk_image(void) {',
        "    return &pk_table;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _located(kernel: Signature, name: str) -> str:
    """Return a loop over a kernel's threads that has the line of the kernel."""
    loop = f"template <> struct pk_loop<(&{kernel.name})> {{ PK_LOOP({kernel.name}) }};"
    return line_directive(kernel.line, name) + loop.replace("\n", " ")


def _entry(kernel: str, waits: set[str], splits: dict[str, str]) -> str:
    """Return the function that makes a kernel's entry in the table."""
    entry = f"pk_entry<(&{kernel})>::"
    if kernel in splits:
        return f"{entry}pk_splits<(&{splits[kernel]})>"
    return f"{entry}pk_{'waits' if kernel in waits else 'loops'}"


def _prologue(source: Source) -> Iterator[str]:
    """Yield the lines before a source: our headers, then the user's macros, which must not affect these."""
    yield '#include "pycudakit_cuda.h"'
    yield from cuda_to_cpp.own_includes(source)
    yield from directives(preprocessing(source.options)[0])
    names = set(re.findall(r"\b[A-Za-z_]\w*", source.text)) - set(_BESSEL)
    names -= set(re.findall(r"(?:\.|->|::)\s*(\w+)", source.text))  # members do not conflict
    for name in sorted(names | {kernel.name for kernel in source.kernels}):
        if _RESERVED_NAMES.fullmatch(name):
            yield f"#define {name} pk_own_{name}"
    for name in sorted(short_names(source.text)):
        yield f"#define {name} pk_own_{name}"
