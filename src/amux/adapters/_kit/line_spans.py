"""Where the lines of a piece of a file begin and end, if each is an object.

Many lines are decoded at once sooner than one by one, but what decodes them does not mind where a
line ends. No object holds `}` and `{` next to each other: where every line begins with one and ends
with the other, none is cut by a line end, and as many objects as lines are one on each.
"""

from __future__ import annotations

from typing import Final

Span = tuple[int, int]
"""From one byte up to another one, in the file."""

_BEGIN: Final = ord("{")
_END: Final = ord("}")


def object_lines(data: bytes, start: int, end: int, *, offset: int = 0) -> list[Span] | None:
    """The lines between two places, without what ends them; None: one of them is no whole object.

    `offset` is where `data` lies in the file.
    """
    spans: list[Span] = []
    find = data.find
    while start < end:
        stop = find(b"\n", start, end)
        if data[start] != _BEGIN or data[stop - 1] != _END:
            return None
        spans.append((offset + start, offset + stop))
        start = stop + 1
    return spans
