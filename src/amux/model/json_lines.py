"""Decodes one line of a file of JSON lines; a bad line costs only that line.

A byte order mark, CRLF, NUL bytes at the edges (left by a crash) and blank lines are skipped. Bytes
that are not UTF-8 and lone surrogates are replaced. An incomplete last line without a line end is a
torn tail. Everything else that cannot be decoded is a `Problem`.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from amux.model.problems import Problem, ProblemCode

T = TypeVar("T")
Buffer = bytes | bytearray

_TORN = "the last line is not whole: it is still being written, or its writer was stopped"
_BOM = b"\xef\xbb\xbf"
_NOISE = b" \t\r\x00"
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


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
