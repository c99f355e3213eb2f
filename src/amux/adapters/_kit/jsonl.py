"""JSON lines, streamed: one pass, bounded memory, one bad line costs one line.

A byte order mark, CRLF, leading NUL bytes (left by a crash) and blank lines are passed over; bytes
that are not UTF-8 and lone surrogates are replaced. A last line without an end that is not whole
JSON is a torn tail. Everything else that cannot be decoded is a `Problem`, and reading goes on.

Where the lines of a piece of a file begin and end, if each is an object.

Many lines are decoded at once sooner than one by one, but what decodes them does not mind where a
line ends. No object holds `}` and `{` next to each other: where every line begins with one and ends
with the other, none is cut by a line end, and as many objects as lines are one on each.
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
_CLOSED = frozenset({"unreadable", "decoder-missing"})
_NOISE = b" \t\r\x00"
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def iter_lines(stream: BinaryIO, *, cut_texts: bool = False) -> Iterator[tuple[Buffer, bool]]:
    """Yield (line, ended): the bytes without the line end, and whether the end was there.

    With `cut_texts` the texts of very long lines are cut, see `long_lines`.
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
    """Decode a file line by line: (line number from 1, record, raw line), or a problem.

    `cut_texts`: only the beginnings of texts are wanted, which keeps memory bounded.
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
    """The same for an open stream."""
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
    """The same for one line; None when there is nothing in it."""
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
    code = _problem_code(reason, ended=ended)
    message = _TORN if code == "torn-tail" else _describe(reason)
    return Problem(code=code, message=message, path=path, line=number)


def clean_line(line: Buffer) -> bytes:
    """Strip crash noise and replace what is not valid Unicode."""
    text = bytes(line).strip(_NOISE)
    text = text.decode("utf-8", "replace").encode("utf-8")
    return _LONE_SURROGATE.sub(rb"\\ufffd", text)


def _problem_code(error: Exception, *, ended: bool) -> ProblemCode:
    if isinstance(error, msgspec.ValidationError):
        return "bad-record"
    return "bad-line" if ended else "torn-tail"


def _describe(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"a record has an unexpected shape ({error})"
    if isinstance(error, RecursionError):
        return "a record is nested too deeply"
    return f"a line is not valid JSON ({error})"


def no_session(path: Path | str, problems: Iterable[Problem]) -> Iterator[Problem]:
    """What to add of a file none of whose lines belongs to a session; an empty one is no news."""
    codes = {problem.code for problem in problems}
    if codes and not codes & _CLOSED:
        message = "no line of the file belongs to a session"
        yield Problem(code="unknown-format", message=message, path=str(path))


def unreadable(path: Path, error: OSError) -> Problem:
    """The problem of a source that the operating system would not let us read.

    Behind a closed folder nothing can be told apart, so that folder is named, and named once.
    """
    message, place = os_error_message(path, error)
    return Problem(code="unreadable", message=message, path=str(place))


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
