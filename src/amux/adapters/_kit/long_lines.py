"""Collects a line from chunks, and truncates the texts of a line that is too long for memory.

One pasted log makes a line of 50 megabytes, and decoding it takes up to five times as much memory.
Unless whole messages are wanted, the long texts of such a line are truncated while it is read: no
rule looks further into a text than its beginning. The shortened line is valid JSON exactly if the
whole line was. `read_long_texts` returns the removed texts in windows, for search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from amux.adapters._kit.streams import open_stream

LONG_LINE: Final = 4 << 20
"""Size in bytes up to which a line is never shortened."""

KEPT_TEXT: Final = 1 << 18
"""Bytes that remain of each text of a longer line."""

_LOGS: Final = frozenset({".jsonl", ".zst"})

WINDOW: Final = 1 << 20
OVERLAP: Final = 1 << 12
"""Removed texts are searched in windows of this size, which overlap so that no phrase is missed."""

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_U: Final = ord("u")
_FIRST_HALF: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_NEAR: Final = 64
_LONGEST_ESCAPE: Final = 6
# Both stop at the closing quote and at invalid JSON. The first matches an escape whole or not at
# all, so that no escape is split; the second only has to skip everything.
_KEPT: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\u[0-9a-fA-F]{4}|\\[^u\x00-\x1f])*+')
_SKIPPED: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+')


class PendingLine:
    """Collects the chunks of a line until its end is found."""

    def __init__(self, *, cut_texts: bool, cut: CutTexts | None = None) -> None:
        self._cut_texts = cut_texts
        self._cut = cut
        self._whole = bytearray()
        self._long: _LongLine | None = None

    def __bool__(self) -> bool:
        return bool(self._whole) or self._long is not None

    def add(self, piece: bytes) -> None:
        """Append bytes."""
        if self._long is not None:
            self._long.add(piece)
            return
        self._whole += piece
        if self._cut_texts and len(self._whole) > LONG_LINE:
            self._long = _LongLine(self._cut)
            self._long.add(bytes(self._whole))
            self._whole = bytearray()

    def take(self) -> bytearray:
        """Return the line collected so far, shortened if it is a long one, and start a new one."""
        line = self._whole if self._long is None else self._long.kept()
        self._whole, self._long = bytearray(), None
        return line


class CutTexts:
    """Collects the removed texts of long lines, decoded in overlapping windows."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._size = 0
        self._windows: list[tuple[int, str]] = []
        self._number = 0

    def add(self, raw: bytes) -> None:
        """Append bytes of the current text."""
        self._raw += raw
        self._size += len(raw)
        while len(self._raw) >= WINDOW + OVERLAP:
            self._emit(safe_cut(self._raw, WINDOW))

    def close(self) -> None:
        """End the current text; drop it if it was short enough to remain in the line."""
        if self._size > KEPT_TEXT:
            self._emit(len(self._raw))
        self._number += 1
        self._raw, self._size = bytearray(), 0

    def drain(self) -> list[tuple[int, str]]:
        """Return and clear the windows so far, as (number of the text, window)."""
        windows, self._windows = self._windows, []
        return windows

    def _emit(self, end: int) -> None:
        self._windows.append((self._number, decoded(bytes(self._raw[:end]))))
        del self._raw[: safe_cut(self._raw, max(0, end - OVERLAP))]


def read_long_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the removed texts of a JSON lines file; nothing if it is another or unreadable file."""
    if path.suffix not in _LOGS:
        return
    try:
        if path.suffix == ".zst" or path.stat().st_size > LONG_LINE:
            with open_stream(path) as stream:
                yield from iter_long_texts(stream)
    except OSError:
        return  # reading the messages of this file has reported the problem


def iter_long_texts(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield the texts removed from the long lines of a log, as (number of the text, window)."""
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
    """Return the last position up to `end` that is inside neither an escape nor a character."""
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
    """Return whether an escape begins here: at every other one of consecutive backslashes."""
    if position < 0 or raw[position] != _BACKSLASH:
        return False
    reach = _NEAR
    while True:  # there may be as many as the text is long, so they are not counted one by one
        before = raw[max(0, position - reach) : position]
        row = len(before) - len(before.rstrip(b"\\"))
        if row < reach:
            return row % 2 == 0
        reach *= 16


def decoded(raw: bytes) -> str:
    """Decode a part of a JSON string; invalid JSON is returned as it is."""
    try:
        return str(msgspec.json.decode(b'"' + raw + b'"'))
    except (msgspec.DecodeError, UnicodeError):
        return raw.decode("utf-8", "replace")


class _LongLine:
    """Copies a line of JSON without the part of each text that exceeds `KEPT_TEXT`."""

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
        """Copy everything up to and including the next opening quote."""
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
        self._kept.append(stop)  # the closing quote; or a byte that the decoder has to reject
        self._in_text = stop != _QUOTE
        if self._cut is not None and not self._in_text:
            self._cut.close()
        return end + 1

    def _pass_text(self, data: bytes, start: int) -> int:
        """Return the position of the next byte to examine, having copied or skipped up to it."""
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
