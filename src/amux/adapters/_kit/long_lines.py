"""A line that arrives in pieces, and what is kept of one too long to be held.

One pasted log makes a line of 50 megabytes, and decoding it costs up to five times as much. Unless
whole messages are wanted, the long texts of such a line are cut while it is read: no rule looks
further into a text than its beginning. What is kept is JSON exactly where the whole line was. Who
searches gets the cut texts piece by piece from `read_long_texts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from amux.adapters._kit.streams import open_stream

LONG_LINE: Final = 4 << 20
"""Shorter lines, in bytes, are kept as they are."""

KEPT_TEXT: Final = 1 << 18
"""Bytes kept of each text of a longer line."""

_LOGS: Final = frozenset({".jsonl", ".zst"})

WINDOW: Final = 1 << 20
OVERLAP: Final = 1 << 12
"""Cut texts are searched in pieces of this size, which overlap so that no phrase is missed."""

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_U: Final = ord("u")
_FIRST_HALF: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_NEAR: Final = 64
_LONGEST_ESCAPE: Final = 6
# Both stop at the closing quote and at what is no JSON. The first takes an escape whole or not at
# all, so that a cut is never inside one; the second only has to get past everything.
_KEPT: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\u[0-9a-fA-F]{4}|\\[^u\x00-\x1f])*+')
_SKIPPED: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+')


class PendingLine:
    """The beginning of a line, until its end comes."""

    def __init__(self, *, cut_texts: bool, cut: CutTexts | None = None) -> None:
        self._cut_texts = cut_texts
        self._cut = cut
        self._whole = bytearray()
        self._long: _LongLine | None = None

    def __bool__(self) -> bool:
        return bool(self._whole) or self._long is not None

    def add(self, piece: bytes) -> None:
        """Append some bytes."""
        if self._long is not None:
            self._long.add(piece)
            return
        self._whole += piece
        if self._cut_texts and len(self._whole) > LONG_LINE:
            self._long = _LongLine(self._cut)
            self._long.add(bytes(self._whole))
            self._whole = bytearray()

    def take(self) -> bytearray:
        """What there is of the line, without its long texts if it is a long one."""
        line = self._whole if self._long is None else self._long.kept()
        self._whole, self._long = bytearray(), None
        return line


class CutTexts:
    """The texts that a long line is too long for, decoded in windows that overlap."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._size = 0
        self._windows: list[tuple[int, str]] = []
        self._number = 0

    def add(self, raw: bytes) -> None:
        """Some more bytes of the text that is being passed."""
        self._raw += raw
        self._size += len(raw)
        while len(self._raw) >= WINDOW + OVERLAP:
            self._emit(safe_cut(self._raw, WINDOW))

    def close(self) -> None:
        """The text ends; one that was short enough to be kept whole is of no interest."""
        if self._size > KEPT_TEXT:
            self._emit(len(self._raw))
        self._number += 1
        self._raw, self._size = bytearray(), 0

    def drain(self) -> list[tuple[int, str]]:
        """The windows so far: the number of the text, and a piece of it."""
        windows, self._windows = self._windows, []
        return windows

    def _emit(self, end: int) -> None:
        self._windows.append((self._number, decoded(bytes(self._raw[:end]))))
        del self._raw[: safe_cut(self._raw, max(0, end - OVERLAP))]


def read_long_texts(path: Path) -> Iterator[tuple[int, str]]:
    """`iter_long_texts` of a line log; nothing from what is none or cannot be read."""
    if path.suffix not in _LOGS:
        return
    try:
        if path.suffix == ".zst" or path.stat().st_size > LONG_LINE:
            with open_stream(path) as stream:
                yield from iter_long_texts(stream)
    except OSError:
        return  # the same file gave a problem when its messages were read


def iter_long_texts(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The texts that were cut from the long lines of a log, in windows: (which text, a piece)."""
    cut = CutTexts()
    line = PendingLine(cut_texts=True, cut=cut)
    while chunk := stream.read(WINDOW):
        *ended, tail = chunk.split(b"\n")
        for piece in ended:
            line.add(piece)
            line.take()
            yield from cut.drain()
        line.add(tail)
        yield from cut.drain()


def safe_cut(raw: bytearray, end: int) -> int:
    """The last place up to `end` that is inside neither an escape nor a character."""
    if end >= len(raw):
        return len(raw)
    while end > 0 and raw[end] & 0xC0 == 0x80:  # noqa: PLR2004 - the middle of a UTF-8 character
        end -= 1
    for start in range(max(0, end - _LONGEST_ESCAPE + 1), end):
        if _is_escape(raw, start) and (start == end - 1 or raw[start + 1] == _U):
            end = start
            break
    half = end - _LONGEST_ESCAPE  # the first half of a surrogate pair goes with the second
    if half >= 0 and _is_escape(raw, half) and _FIRST_HALF.fullmatch(raw, half, end):
        return half
    return end


def _is_escape(raw: bytearray, position: int) -> bool:
    """Whether an escape begins here: at every other backslash of a row."""
    if position < 0 or raw[position] != _BACKSLASH:
        return False
    reach = _NEAR
    while True:  # a row may be as long as the text: it is not counted one by one
        before = raw[max(0, position - reach) : position]
        row = len(before) - len(before.rstrip(b"\\"))
        if row < reach:
            return row % 2 == 0
        reach *= 16


def decoded(raw: bytes) -> str:
    """The text of a piece of a JSON string; what is none is shown as it is."""
    try:
        return str(msgspec.json.decode(b'"' + raw + b'"'))
    except (msgspec.DecodeError, UnicodeError):
        return raw.decode("utf-8", "replace")


class _LongLine:
    """Copies JSON, leaving out what exceeds the room of each text."""

    def __init__(self, cut: CutTexts | None) -> None:
        self._cut = cut
        self._kept = bytearray()
        self._in_text = False
        self._room = 0
        self._rest = b""  # an escape of which the second half is still to come

    def kept(self) -> bytearray:
        return self._kept + self._rest

    def add(self, piece: bytes) -> None:
        data, self._rest = self._rest + piece, b""
        position = 0
        while position < len(data):
            take = self._take_text if self._in_text else self._take_frame
            position = take(data, position)

    def _take_frame(self, data: bytes, start: int) -> int:
        """Keep everything up to and including the next opening quote."""
        quote = data.find(b'"', start)
        end = len(data) if quote < 0 else quote + 1
        self._kept += data[start:end]
        self._in_text, self._room = quote >= 0, KEPT_TEXT
        return end

    def _take_text(self, data: bytes, start: int) -> int:
        end = self._pass_text(data, start)
        if self._cut is not None:
            self._cut.add(data[start:end])
        if end == len(data):
            return end
        stop = data[end]
        if stop == _BACKSLASH and len(data) - end < _LONGEST_ESCAPE:
            self._rest = data[end:]
            return len(data)
        self._kept.append(stop)  # the closing quote; or a byte the decoder has to complain about
        self._in_text = stop != _QUOTE
        if self._cut is not None and not self._in_text:
            self._cut.close()
        return end + 1

    def _pass_text(self, data: bytes, start: int) -> int:
        """The place of the next byte that needs a decision; what is before it, kept or not."""
        if self._room:
            limit = start + self._room
            end = _end(_KEPT, data, start, limit)
            self._kept += data[start:end]
            self._room -= end - start
            if end == len(data) or limit - end >= _LONGEST_ESCAPE:
                return end
            self._room = 0
            start = end
        return _end(_SKIPPED, data, start, len(data))


def _end(pattern: re.Pattern[bytes], data: bytes, start: int, limit: int) -> int:
    match = pattern.match(data, start, limit)
    return start if match is None else match.end()
