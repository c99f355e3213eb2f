"""Where the lines of a piece of a file begin and end."""

from __future__ import annotations

Span = tuple[int, int]
"""From one byte up to another one, in the file."""


def line_spans(data: bytes, end: int, offset: int = 0) -> list[Span]:
    """All lines up to `end`, without what ends them; `offset` is where `data` lies in the file."""
    spans: list[Span] = []
    start, find = 0, data.find
    while start < end:
        stop = find(b"\n", start, end)
        spans.append((offset + start, offset + stop))
        start = stop + 1
    return spans
