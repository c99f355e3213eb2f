"""The texts of a rollout and the lines that each message lies in.

The rules are those of every reading; only what bears on texts is kept. A file with a line that is
not in the newest form, or too long to be held, is left to be read (None).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from amux.adapters._codex.conversation import NOWHERE, Lines
from amux.adapters._codex.entries import ENTRY, UNREADABLE, AnyEntry, Run
from amux.adapters._codex.rollout import Rollout, new_rollout
from amux.adapters._codex.rules import take_run
from amux.adapters._kit.line_spans import Span, object_lines
from amux.adapters._kit.long_lines import LONG_LINE
from amux.model.texts import Spot, TextDoc, text_doc

_CHUNK: Final = 2 << 20
_LARGEST: Final = 32 << 20  # the texts of a file are held at once


class _Scan:
    """Documents of messages as they get finished."""

    def __init__(self, rollout: Rollout, *, tools: bool) -> None:
        self.docs: list[TextDoc] = []
        self.spans: list[Span | None] = [None]  # by the number of the line, which begins at 1
        self._rollout = rollout
        self._tools = tools
        self._next = 0

    def keep_finished(self) -> None:
        """Keep the texts of the messages that are finished."""
        conversation = self._rollout.conversation
        places, conversation.places = conversation.places or [], []
        for message, lines in zip(conversation.drain(), places, strict=True):
            doc = text_doc(self._next, message, tools=self._tools)
            self._next += 1
            if doc.spoken or doc.tools:
                self.docs.append(doc._replace(spot=self._spot(lines)))

    def _spot(self, lines: Lines) -> Spot | None:
        first, last, kind = lines
        begin, end = self.spans[first], self.spans[last]
        if kind == NOWHERE or begin is None or end is None:
            return None
        return Spot(begin[0], end[1] - begin[0], kind)


class _SurpriseError(Exception):
    """The file holds something that only reading knows."""


def scan_texts(path: Path, *, tools: bool) -> tuple[str, list[TextDoc]] | None:
    """The session of a file and its documents; None where that is not so simple."""
    rollout = new_rollout(path, bodies=True, traced=False)
    rollout.conversation.places = []
    scan = _Scan(rollout, tools=tools)
    session_id: str | None = None
    try:
        for number, (entry, span) in enumerate(_lines(path), start=1):
            scan.spans.append(span)
            take_run(rollout, Run(number, [entry]))
            if session_id is None and rollout.begun:
                session_id = rollout.lineage.session_id
            if rollout.conversation.done:
                scan.keep_finished()
    except (_SurpriseError, OSError, *UNREADABLE):
        return None
    rollout.conversation.end_turn()
    scan.keep_finished()
    return None if session_id is None else (session_id, scan.docs)


def _lines(path: Path) -> Iterator[tuple[AnyEntry, Span | None]]:
    """Every line with its place; the last has none if it may still grow."""
    rest, offset = b"", 0
    with path.open("rb", buffering=0) as stream:
        if path.stat().st_size > _LARGEST:
            raise _SurpriseError
        while chunk := stream.read(_CHUNK):
            data = rest + chunk if rest else chunk
            end = data.rfind(b"\n") + 1
            spans = object_lines(data, 0, end, offset=offset)
            entries = ENTRY.decode_lines(data[:end]) if end else []
            if spans is None or len(entries) != len(spans):
                raise _SurpriseError
            longest = max((stop - start for start, stop in spans), default=0)
            if max(longest, len(data) - end) > LONG_LINE:
                raise _SurpriseError
            yield from zip(entries, spans, strict=True)
            rest, offset = data[end:], offset + end
    if rest:
        yield ENTRY.decode(rest), None
