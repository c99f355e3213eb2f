"""Text as lines of a terminal: styled segments that fit a width, folded or complete.

A line is a tuple of segments, each a text with the name of a style; the command line chooses the
colours. All content passes through `visible` and its tabs become spaces, so that a segment holds
no control character at all. Long texts are never split as a whole: lines are found one by one, and
a very long line is cut into chunks first, so that the first line of a huge text is there at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, NamedTuple
from unicodedata import category, east_asian_width

from amux.render.content import visible

# fmt: off
Style = Literal[
    "plain", "title", "label", "faint", "folded", "user", "agent", "thought", "heading", "tool",
    "done", "failed", "warning", "added", "removed", "hunk",
]
# fmt: on
Segment = tuple[str, Style]
Line = tuple[Segment, ...]

BLANK: Final[Line] = ()
ELLIPSIS: Final = "…"
INDENT: Final = 2
_LEAST_ROOM: Final = 10
_PROSE_WIDTH: Final = 100  # longer rows are hard to read
_CHUNK: Final = 65_536
_TAB: Final = 4
_WHITE: Final = " \t\r\n"
_FIRST_COMBINING: Final = 0x300
_LONGEST_ROW: Final = 8  # characters per cell: marks that take no room cannot make a row endless


def _to_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


class Layout(NamedTuple):
    """The room for a text, and how much of it is shown.

    `to_local` converts a moment to the time zone of the reader, by default UTC.
    """

    width: int
    full: bool = False
    to_local: Callable[[datetime], datetime] = _to_utc

    def room(self, indent: int) -> int:
        """Return the width that an indent leaves, at least a few characters."""
        return max(self.width - indent, _LEAST_ROOM)


@lru_cache(maxsize=4096)
def _cells_of(char: str) -> int:
    """Return the number of cells of one character; a variation selector may widen the last one."""
    if ord(char) < _FIRST_COMBINING or char == "\ufe0f":
        return 1
    if east_asian_width(char) in ("W", "F"):
        return 2
    return 0 if category(char) in ("Mn", "Me", "Cf") else 1


def cells(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _end_of_row(text: str, start: int, room: int) -> int:
    """Return the end of the longest part of a text that fits, of at least one character."""
    if text[start : start + room].isascii():
        return min(start + room, len(text))
    used, longest = 0, min(len(text), start + room * _LONGEST_ROW)
    for at in range(start, longest):
        used += _cells_of(text[at])
        if used > room:
            return max(at, start + 1)
    return longest


def cut(text: str, room: int) -> str:
    """Return the beginning of a text that fits; a cut is shown by an ellipsis."""
    text = text[: (room + 1) * _LONGEST_ROW]
    if cells(text) <= room:
        return text
    return text[: _end_of_row(text, 0, max(room - 1, 1))] + ELLIPSIS


def hard_rows(text: str, room: int) -> Iterator[str]:
    """Yield the parts of a line that fit, broken anywhere: code, output."""
    start = 0
    while True:
        end = _end_of_row(text, start, room)
        yield text[start:end]
        if end >= len(text):
            return
        start = end


_HANGING: Final = re.compile(r" *(?:(?:[-*+•]|\d{1,3}[.)]) +)?")


def soft_rows(text: str, room: int) -> Iterator[str]:
    """Yield the parts of a line that fit, broken at spaces; items of a list keep their indent."""
    if len(text) <= room and text.isascii():
        yield text.rstrip(" ")
        return
    match = _HANGING.match(text)
    hanging = match.end() if match and match.end() <= room // 3 else 0
    start, indent = 0, 0
    while True:
        end = _end_of_row(text, start, room - indent)
        if end < len(text):
            space = text.rfind(" ", start + 1, end + 1)
            if space > start and text[start:space].strip():
                end = space
        yield " " * indent + text[start:end].rstrip(" ")
        while end < len(text) and text[end] == " ":
            end += 1
        if end >= len(text):
            return
        start, indent = end, hanging


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without blank lines at both ends, made visible, without tabs."""
    start, end = _trimmed(text)
    while start < end:
        found = text.find("\n", start, end)
        stop = end if found < 0 else found
        for at in range(start, max(stop, start + 1), _CHUNK):
            line = text[at : min(at + _CHUNK, stop)]
            if not line.isprintable():  # most lines hold no control characters
                line = visible(line.removesuffix("\r")).expandtabs(_TAB)
            yield line
        if found < 0:
            return
        start = found + 1


def has_text(text: str | None) -> bool:
    """Return whether a text is more than white space; control characters are text."""
    return bool(text and text.strip(_WHITE))


def _trimmed(text: str) -> tuple[int, int]:
    """Return the start of the first line and the end of the last line that are not blank."""
    first = len(text) - len(text.lstrip(_WHITE))
    return text.rfind("\n", 0, first) + 1, len(text.rstrip(_WHITE))


def count_lines(text: str) -> int:
    """Return the number of lines of a text without the blank lines at both ends."""
    start, end = _trimmed(text)
    return 0 if start >= end else text.count("\n", start, end) + 1


def more(count: int, noun: str = "line") -> str:
    """Return the note that replaces folded lines."""
    return f"{ELLIPSIS} {count:,} more {noun}{'' if count == 1 else 's'}"


def indented(row: str, indent: int, style: Style = "plain") -> Line:
    """Return a line with one row of content; a blank one has no segments."""
    return ((" " * indent + row, style),) if row.strip() else BLANK


def block(
    text: str, layout: Layout, *, indent: int, style: Style, head: int, tail: int = 0
) -> Iterator[Line]:
    """Yield a text line by line as it is; folded to its first and last lines, each cut to a row."""
    room = layout.room(indent)
    if layout.full:
        for line in lines_of(text):
            for row in soft_rows(line, room):
                yield indented(row, indent, style)
        return
    total = count_lines(text)
    if total <= head + tail + 1:
        head, tail = total, 0
    for line in islice(lines_of(text), head):
        yield indented(cut(line, room), indent, style)
    if total > head:
        yield indented(more(total - head - tail), indent, "folded")
    for line in _last_lines(text, tail):
        yield indented(cut(line, room), indent, style)


def _last_lines(text: str, count: int) -> Iterable[str]:
    start, end = _trimmed(text)
    at = end
    for _ in range(count):
        at = text.rfind("\n", start, at)
    return lines_of(text[at + 1 : end]) if count else ()


def one_row(text: str, room: int) -> str:
    """Return the beginning of a text on one row: white space folded, control characters visible."""
    head = text[: room * _LONGEST_ROW]
    row = " ".join(visible(head).split()) + ("" if len(head) == len(text) else ELLIPSIS)
    return cut(row, room)


_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"#{1,6} \S")


def prose(text: str, layout: Layout, *, indent: int = INDENT) -> Iterator[Line]:
    """Yield the words of people and models: wrapped at spaces, code blocks as they are."""
    whole = layout.room(indent)
    fence = ""
    for line in lines_of(text):
        match = _FENCE.match(line)
        style: Style = "faint" if match else "heading" if _HEADING.match(line) else "plain"
        if fence:
            is_end = match and match[1].startswith(fence) and not line[match.end() :].strip()
            fence, style = ("", "faint") if is_end else (fence, "plain")
            rows = hard_rows(line, whole)
        else:
            fence = match[1] if match else ""
            rows = soft_rows(line, min(whole, _PROSE_WIDTH))
        for row in rows:
            yield indented(row, indent, style)


def folded_prose(
    text: str, layout: Layout, *, label: str = "", indent: int = INDENT, style: Style, head: int
) -> Iterator[Line]:
    """Yield a text wrapped at spaces in one style, after a label, folded to its first rows."""
    margin = indent + len(label)
    room = min(layout.room(margin), _PROSE_WIDTH)
    rows = (row for line in lines_of(text) for row in soft_rows(line, room))
    if not layout.full:
        rows = (row for row in rows if row)
    shown = islice(rows, None if layout.full else head)
    for at, row in enumerate(shown):
        yield ((" " * indent + label + row, style),) if at == 0 else indented(row, margin, style)
    last = next(rows, "")
    rest = sum(1 for _ in rows) + 1
    if last:
        is_last = rest == 1
        yield indented(last if is_last else more(rest), margin, style if is_last else "folded")
