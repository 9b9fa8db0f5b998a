"""Pictures, bars and tables as text, for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webdataset.redact import printable

_UPPER_HALF, _RESET = "▀", "\x1b[0m"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def half_blocks(pixels: Any) -> str:
    r"""A picture with two pixels in each character: one in the colour of the foreground, one in that of the background.

    >>> half_blocks([[(255, 0, 0)], [(0, 0, 255)]])
    '\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m'
    """
    lines = []
    rows = list(pixels)
    for top in range(0, len(rows), 2):
        upper, lower = rows[top], rows[top + 1] if top + 1 < len(rows) else None
        cells = []
        for column, (red, green, blue) in enumerate(upper):
            below = "" if lower is None else ";48;2;{};{};{}".format(*map(int, lower[column]))
            cells.append(f"\x1b[38;2;{int(red)};{int(green)};{int(blue)}{below}m{_UPPER_HALF}")
        lines.append("".join(cells) + _RESET)
    return "\n".join(lines)


def bar(value: float, most: float, width: int) -> str:
    """A bar whose length is `value / most` of the width, in eighths of a character.

    >>> bar(1, 4, 2)
    '▌'
    """
    eighths = round(8 * width * value / most) if most else 0
    if value and not eighths:
        eighths = 1
    return (_EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as aligned columns; numbers to the right.

    >>> print(table([("key", "size"), ("a", 10)]))
    key  size
    a      10
    """
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)] if texts else []
    aligned_as = [rows[1], *rows[1:]] if len(rows) > 1 else rows  # headings as the values below them
    lines = []
    for values, words in zip(aligned_as, texts, strict=True):
        cells = [
            word.rjust(width) if isinstance(value, int | float) else word.ljust(width)
            for value, word, width in zip(values, words, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return printable(str(value).replace("\n", " "))
