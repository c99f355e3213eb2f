"""Counts the colours of a PNG screenshot with eight bits per channel, RGB or RGBA."""

from __future__ import annotations

import struct
import zlib
from collections import Counter

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}


def count_colours(png: bytes) -> tuple[int, int, Counter[str]]:
    """Width, height, and how many pixels have each colour (`#rrggbb`)."""
    assert png.startswith(_SIGNATURE)
    chunks = _chunks(png)
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    size = _CHANNELS[kind]
    data = zlib.decompress(chunks[b"IDAT"])
    colours: Counter[str] = Counter()
    above = bytearray(width * size)
    for start in range(0, len(data), width * size + 1):
        row = bytearray(data[start + 1 : start + 1 + width * size])
        _undo_filter(data[start], row, above, size)
        colours.update(row[at : at + 3].hex() for at in range(0, len(row), size))
        above = row
    return width, height, Counter({f"#{name}": count for name, count in colours.items()})


def _chunks(png: bytes) -> dict[bytes, bytes]:
    """The content of all chunks, those of one type joined."""
    chunks: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        chunks[name] = chunks.get(name, b"") + png[at + 8 : at + 8 + length]
        at += length + 12
    return chunks


def _undo_filter(kind: int, row: bytearray, above: bytearray, size: int) -> None:
    for at in range(len(row)):
        left = row[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        row[at] = (row[at] + _predicted(kind, left, above[at], corner)) & 0xFF


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    match kind:
        case 0:
            return 0
        case 1:
            return left
        case 2:
            return up
        case 3:
            return (left + up) // 2
        case _:
            guess = left + up - corner
            return min((left, up, corner), key=lambda one: abs(guess - one))
