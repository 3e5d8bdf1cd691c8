"""Tables for notebooks, and times with their units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_seconds(seconds: float) -> str:
    """Format a time with three digits and its unit.

    Examples
    --------
    >>> from pycudakit._native.formatting import format_seconds
    >>> format_seconds(0.00123), format_seconds(4.5e-7)
    ('1.23 ms', '450 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], foot: str = "") -> str:
    """Return an HTML table of text, and a line below it.

    Examples
    --------
    >>> from pycudakit._native.formatting import html_table
    >>> html_table(["engine"], [["<cpu>"]])
    '<table><thead><tr><th>engine</th></tr></thead><tbody><tr><td>&lt;cpu&gt;</td></tr></tbody></table>'
    """
    from html import escape  # noqa: PLC0415 - for notebooks only

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    thead = f"<thead>{line('th', head)}</thead>" if head else ""
    below = f"<p>{escape(foot)}</p>" if foot else ""
    return f"<table>{thead}<tbody>{''.join(line('td', row) for row in rows)}</tbody></table>{below}"
