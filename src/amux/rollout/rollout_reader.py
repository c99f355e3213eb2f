"""Reads rollouts in both directions.

Readers take no lock. A last line without its line break is a record if it is whole. A crash can
only cut off the end of a file, and the next writer marks its first line then. So a batch whose
last line is missing was cut off, and does not count, if it stands at the end of the file or before
such a mark. Anywhere else it was damaged, and the records that are left of it count; so are those
of the first batch, because a file is put in its place with all of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Generator, Iterable, Iterator
from itertools import chain
from typing import Final

from amux.errors import StoreError
from amux.model.problems import Problem
from amux.rollout.control import kind_of
from amux.rollout.records import Line, Record, decode_line

_CHUNK: Final = 64 * 1024


class MovedError(Exception):
    """The file is gone from its path: archived, brought back or deleted by another process."""


def read_forward(path: str, *, problems: list[Problem] | None = None) -> Iterator[Record]:
    """Yield the records of a file, oldest first. Bad lines become problems."""
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        for line in committed(lines_of(descriptor, 0, size, path, problems), path, problems):
            yield line.record


def read_first(path: str) -> Record | None:
    """Return the first record of a file; None if it has none."""
    with _opened(path) as descriptor:
        return first_of(descriptor, os.fstat(descriptor).st_size)


def first_of(descriptor: int, size: int) -> Record | None:
    """Return the first record of an open file, which no crash can have cut off."""
    first = next(lines_of(descriptor, 0, size, chunk=_CHUNK // 16), None)
    return None if first is None else first.record


def read_backward(path: str, *, kinds: Collection[str] | None = None) -> Iterator[Record]:
    """Yield the records of a file, newest first, reading only as far as they are taken.

    With `kinds` only records of these kinds are yielded, and few of the others are decoded.
    """
    names = None if kinds is None else [kind.encode() for kind in kinds]
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        for line, is_committed in lines_back(descriptor, size, names=names):
            if is_committed and (kinds is None or kind_of(line.record) in kinds):
                yield line.record


def lines_back(
    descriptor: int, size: int, *, names: Collection[bytes] | None = None
) -> Iterator[tuple[Line, bool]]:
    """Yield the lines that are records, last first, and whether they count.

    With `names` blocks of lines that contain none of these texts are left out.
    """
    later: Line | None = None
    counts = follows_gap = False
    for end, block in _blocks_back(descriptor, size):
        if names is not None and not any(name in block for name in names):
            follows_gap = True
            continue
        for raw in reversed(block.split(b"\n")):
            line = decode_line(raw) if raw else None
            if line is None:
                continue
            if follows_gap:
                counts = _counts(line, descriptor, end, size)
                follows_gap = False
            elif later is None or not later.continues(line):  # the last one of its batch
                is_cut = line.position < line.count and (later is None or later.after_cut)
                counts = not is_cut or line.is_of_first_batch
            yield line, counts
            later = line


def _counts(line: Line, descriptor: int, end: int, size: int) -> bool:
    """Return whether a line counts; the lines that follow it begin at `end`."""
    if line.position == line.count:
        return True
    following = lines_of(descriptor, end, size, chunk=_CHUNK // 16)
    return next(committed(chain((line,), following)), None) is line


def is_cut_off(descriptor: int, size: int) -> bool:
    """Return whether a file ends with anything else than the last line of a batch."""
    for _, block in _blocks_back(descriptor, size):
        for raw in reversed(block.split(b"\n")):
            if raw.strip():
                line = decode_line(raw)
                return line is None or line.position < line.count
    return False


@contextlib.contextmanager
def _opened(path: str) -> Generator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MovedError from None
    except OSError as error:
        raise StoreError(f"cannot read `{path}`: {error.strerror or error}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lines_of(
    descriptor: int,
    start: int,
    end: int,
    path: str = "",
    problems: list[Problem] | None = None,
    *,
    chunk: int = _CHUNK,
) -> Iterator[Line]:
    """Yield the lines between two offsets that are records, reading `chunk` bytes at a time."""
    parts: list[bytes] = []  # of a line that continues in the next chunk
    number = 0
    while start < end:
        data = os.pread(descriptor, min(chunk, end - start), start)
        if not data:
            break
        start += len(data)
        first, *others = data.split(b"\n")
        parts.append(first)
        if not others:
            continue
        whole = [b"".join(parts), *others[:-1]]
        parts = [others[-1]]
        for raw in whole:
            number += 1
            line = decode_line(raw) if raw else None
            if line is not None:
                yield line
            elif problems is not None and raw.strip():
                message = "the line is not a record"
                problems.append(Problem(code="bad-line", message=message, path=path, line=number))
    rest = b"".join(parts)
    last = decode_line(rest) if rest else None
    if last is not None:
        yield last
    elif problems is not None and rest.strip():
        message = "the last line is not whole: its writer was interrupted or is still writing"
        problems.append(Problem(code="torn-tail", message=message, path=path, line=number + 1))


def committed(
    lines: Iterable[Line], path: str = "", problems: list[Problem] | None = None
) -> Iterator[Line]:
    """Yield the lines that count; a batch that was cut off or damaged becomes one problem."""
    batch: list[Line] = []
    for line in lines:
        if batch and not line.continues(batch[-1]):
            yield from _readable(batch, path, problems, is_end=line.after_cut)
            batch.clear()
        if line.count == 1:
            yield line
        else:
            batch.append(line)
    if batch:
        yield from _readable(batch, path, problems, is_end=True)


def _readable(
    batch: list[Line], path: str, problems: list[Problem] | None, *, is_end: bool
) -> list[Line]:
    """Return the lines of a batch that count; `is_end`: a crash may have ended the file here."""
    first, last = batch[0], batch[-1]
    if len(batch) == last.count:
        return batch
    is_cut = is_end and last.position < last.count and not last.is_of_first_batch
    if problems is not None:
        missing = f"{last.count - len(batch)} of {last.count} records of a batch are missing"
        outcome = "it was cut off and does not count" if is_cut else "the others count"
        message = f"{missing}, of which `{first.record.id}` is there: {outcome}"
        problems.append(Problem(code="bad-record", message=message, path=path))
    return [] if is_cut else batch


def _blocks_back(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, the last one first, with the offsets at which they end.

    A line may be longer than a chunk: its chunks are joined once.
    """
    parts: list[bytes] = []  # of the line that continues to the left, last part first
    end = position = size
    while position > 0:
        start = max(0, position - _CHUNK)
        chunk = os.pread(descriptor, position - start, start)
        position = start
        begins = chunk.find(b"\n") + 1 if start else 0  # of the first whole line
        if start and not begins:
            parts.append(chunk)
            continue
        yield end, b"".join((chunk[begins:], *reversed(parts)))
        parts, end = [chunk[:begins]], start + begins
