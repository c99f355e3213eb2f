"""Streams JSON lines in one pass and bounded memory; a bad line costs only that line.

`model.json_lines` decodes a line and says what is wrong with it; reading continues after a problem.

`object_lines` supports decoders that take many lines at once, which is faster than one at a time
but ignores line ends. Inside a JSON object, no line ends with `}` before one that begins with `{`.
So if every line begins with `{` and ends with `}`, no object spans several lines; and if there are
as many objects as lines, each line is one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from amux.adapters._kit.long_lines import PendingLine
from amux.adapters._kit.streams import DecoderMissingError, chunks, open_stream
from amux.host import os_error_message
from amux.model.json_lines import Buffer, clean_line, decode_line
from amux.model.problems import Problem

__all__ = [
    "Buffer",
    "Span",
    "clean_line",
    "decode_line",
    "decode_lines",
    "iter_lines",
    "no_session",
    "object_lines",
    "read_records",
    "unreadable",
]

T = TypeVar("T")

_UNREADABLE = frozenset({"unreadable", "decoder-missing"})
Span = tuple[int, int]
"""The offsets of the first byte and of the byte after the last, in the file."""

_BEGIN: Final = ord("{")
_END: Final = ord("}")


def iter_lines(stream: BinaryIO, *, cut_texts: bool = False) -> Iterator[tuple[Buffer, bool]]:
    """Yield (line, ended): the bytes without the line end, and whether there was a line end.

    With `cut_texts` the texts of very long lines are truncated, see `long_lines`.
    """
    pending = PendingLine(cut_texts=cut_texts)
    for chunk in chunks(stream):
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            pending.add(head)
            continue
        if pending:
            pending.add(head)
            yield pending.take(), True
        else:
            yield head, True
        lines = rest.split(b"\n")
        tail = lines.pop()
        for line in lines:
            yield line, True
        pending.add(tail)
    if pending:
        yield pending.take(), False


def read_records(
    path: Path, decoder: msgspec.json.Decoder[T], *, cut_texts: bool = False
) -> Iterator[tuple[int, T, Buffer] | Problem]:
    """Yield (line number from 1, record, raw line) or a problem for each line of a file.

    With `cut_texts` long texts are truncated, which keeps memory bounded.
    """
    try:
        with open_stream(path) as stream:
            yield from decode_lines(stream, decoder, str(path), cut_texts=cut_texts)
    except DecoderMissingError as error:
        yield Problem(code="decoder-missing", message=str(error), path=str(path))
    except OSError as error:
        yield unreadable(path, error)


def decode_lines(
    stream: BinaryIO, decoder: msgspec.json.Decoder[T], path: str, *, cut_texts: bool = False
) -> Iterator[tuple[int, T, Buffer] | Problem]:
    """Yield (line number from 1, record, raw line) or a problem for each line of a stream."""
    for number, (line, ended) in enumerate(iter_lines(stream, cut_texts=cut_texts), start=1):
        found = decode_line(line, decoder, path, number=number, ended=ended)
        if found is not None:
            yield found


def no_session(path: Path | str, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield a problem for a file without a session, unless it is empty or unreadable."""
    codes = {problem.code for problem in problems}
    if codes and not codes & _UNREADABLE:
        message = "no line of the file belongs to a session"
        yield Problem(code="unknown-format", message=message, path=str(path))


def unreadable(path: Path, error: OSError) -> Problem:
    """Return the problem of a source that the operating system does not allow to read.

    Below an unreadable directory, the path is that of the directory, so that it is reported once.
    """
    message, location = os_error_message(path, error)
    return Problem(code="unreadable", message=message, path=str(location))


def object_lines(data: bytes, start: int, end: int, *, offset: int = 0) -> list[Span] | None:
    """Return the spans of the lines between two positions, without line ends.

    Return None if a line is not a whole object. `offset` is the position of `data` in the file.
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
