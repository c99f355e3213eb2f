"""How many lines a piece of a file has and where they begin and end, if each is an object.

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


def count_objects(data: bytes, start: int, end: int) -> int:
    """How many lines stand between two places, the last one ended; 0: one is no whole object."""
    find = data.find
    last = end - 1
    if data[start] != _BEGIN or data[last - 1] != _END:
        return 0
    lines = 1
    stop = find(b"\n", start, last)
    while stop >= 0:
        if data[stop - 1] != _END or data[stop + 1] != _BEGIN:
            return 0
        lines += 1
        stop = find(b"\n", stop + 1, last)
    return lines
