"""Streams JSON lines in one pass and bounded memory; a bad line costs only that line.

A byte order mark, CRLF, leading NUL bytes (left by a crash) and blank lines are skipped. Bytes that
are not UTF-8 and lone surrogates are replaced. An incomplete last line without a line end is a torn
tail. Everything else that cannot be decoded is a `Problem`, and reading continues.

`object_lines` supports decoders that take many lines at once, which is faster than one at a time
but ignores line ends. Inside a JSON object, no line ends with `}` before one that begins with `{`.
So if every line begins with `{` and ends with `}`, no object spans several lines; and if there are
as many objects as lines, each line is one object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from amux.adapters._kit.long_lines import PendingLine
from amux.adapters._kit.streams import DecoderMissingError, chunks, open_stream
from amux.host import os_error_message
from amux.model.problems import Problem, ProblemCode

T = TypeVar("T")
Buffer = bytes | bytearray

_TORN = "the last line is not whole: it is still being written, or its writer was stopped"
_BOM = b"\xef\xbb\xbf"
_UNREADABLE = frozenset({"unreadable", "decoder-missing"})
_NOISE = b" \t\r\x00"
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
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


def decode_line(
    piece: Buffer | memoryview,
    decoder: msgspec.json.Decoder[T],
    path: str,
    *,
    number: int,
    ended: bool,
) -> tuple[int, T, Buffer] | Problem | None:
    """Decode one line to (number, record, raw line) or a problem; None if it is blank."""
    line = bytes(piece) if isinstance(piece, memoryview) else piece
    if number == 1 and line.startswith(_BOM):
        line = line[len(_BOM) :]
    try:
        return number, decoder.decode(line), line
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason: Exception = error
    cleaned = clean_line(line)
    if not cleaned:
        return None
    if cleaned != line:
        try:
            return number, decoder.decode(cleaned), cleaned
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = error
    code, message = _describe(reason, ended=ended)
    return Problem(code=code, message=message, path=path, line=number)


def clean_line(line: Buffer) -> bytes:
    """Strip blanks and NUL bytes, and replace everything that is not valid Unicode."""
    text = bytes(line).strip(_NOISE)
    text = text.decode("utf-8", "replace").encode("utf-8")
    return _LONE_SURROGATE.sub(rb"\\ufffd", text)


def _describe(error: Exception, *, ended: bool) -> tuple[ProblemCode, str]:
    if isinstance(error, msgspec.ValidationError):
        return "bad-record", f"a record has an unexpected shape ({error})"
    if not ended:
        return "torn-tail", _TORN
    if isinstance(error, RecursionError):
        return "bad-line", "a record is nested too deeply"
    return "bad-line", f"a line is not valid JSON ({error})"


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
