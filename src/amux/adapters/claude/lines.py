"""Decodes the lines of a transcript one by one, from any offset.

The file is read in chunks of a megabyte that are not split: each line is decoded as a view of its
chunk, which costs less than searching the bytes for a second keyword. Hence every line is decoded,
whatever is requested. Bytes after the last line end may still grow; they are yielded last, by a
separate method.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer, decode_line
from amux.adapters._kit.long_lines import PendingLine
from amux.adapters._kit.streams import chunks
from amux.adapters.claude.records import LINES, Entry, Line, text_of
from amux.model.problems import Problem

_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class LineReader:
    """One pass over a stream that is positioned at `offset`, after `number` lines.

    `own_id` is the session that the lines should belong to; None if no line counts as foreign.
    Lines that `take_usual` takes are not yielded.
    """

    take_usual: Callable[[Line], bool] | None = None

    def __init__(
        self,
        path: str,
        decoder: msgspec.json.Decoder[Line],
        *,
        own_id: str | None,
        cut_texts: bool,
    ) -> None:
        self.offset = 0  # offset after the last whole line
        self.number = 0  # number of whole lines so far
        self._path = path
        self._decode: Callable[[Buffer | memoryview], Line] = decoder.decode
        self._own_id = own_id
        self._pending = PendingLine(cut_texts=cut_texts)

    def whole_lines(self, stream: BinaryIO) -> Iterator[Entry | Problem]:
        """Yield every line that has a line end."""
        chunk_start = self.offset
        for chunk in chunks(stream):
            start = 0
            if self._pending and (start := chunk.find(b"\n") + 1):
                self._pending.add(chunk[: start - 1])
                self.number += 1
                yield from self._entry(self._pending.take(), self.number)
            if start or not self._pending:
                start = yield from self._entries_of_chunk(chunk, start)
                self.offset = chunk_start + start
            self._pending.add(chunk[start:])
            chunk_start += len(chunk)

    def last_line(self) -> Iterator[Entry | Problem]:
        """Yield the record or the problem after the last line end, if there is one."""
        if self._pending:
            yield from self._entry(self._pending.take(), self.number + 1, ended=False)

    def _entries_of_chunk(self, chunk: bytes, start: int) -> Generator[Entry | Problem, None, int]:
        """Yield the lines that end in a chunk; return the offset after them."""
        view, number, own_id = memoryview(chunk), self.number, self._own_id
        decode, take_usual = self._decode, self.take_usual
        while (end := chunk.find(b"\n", start)) >= 0:
            raw = view[start:end]
            start = end + 1
            number += 1
            try:
                line = decode(raw)
            except _UNDECODABLE:
                yield from self._entry(raw, number)
                continue
            if take_usual is None or not take_usual(line):
                named = line.session_id
                foreign = None if named == own_id or own_id is None else text_of(named)
                yield Entry(number, line, raw, foreign)
        self.number = number
        return start

    def _entry(
        self, raw: Buffer | memoryview, number: int, *, ended: bool = True
    ) -> Iterator[Entry | Problem]:
        """Decode a line that spans chunks or could not be decoded; a blank line yields nothing."""
        found = decode_line(raw, LINES, self._path, number=number, ended=ended)
        if isinstance(found, Problem):
            yield found
        elif found is not None:
            _, line, cleaned = found
            named = None if self._own_id is None else text_of(line.session_id)
            yield Entry(number, line, cleaned, None if named == self._own_id else named)
