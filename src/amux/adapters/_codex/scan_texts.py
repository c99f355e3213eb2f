"""The texts of a rollout and the lines that each message lies in.

The rules are those of every reading; only what bears on texts is kept. A file with a line that is
not in the newest form, or too long to be held, is left to be read (None).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from amux.adapters._codex.conversation import NOWHERE, Lines
from amux.adapters._codex.entries import ENTRY, UNREADABLE, AnyEntry, Run
from amux.adapters._codex.rollout import Rollout, new_rollout
from amux.adapters._codex.rules import take_run
from amux.adapters._kit.line_spans import Span, line_spans
from amux.adapters._kit.long_lines import LONG_LINE
from amux.model.texts import Spot, TextDoc, text_doc

_LARGEST: Final = 32 << 20  # a file is held whole


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


def scan_texts(path: Path, *, tools: bool) -> tuple[str, list[TextDoc]] | None:
    """The session of a file and its documents; None where that is not so simple."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        lines = _lines(path.read_bytes())
    except OSError:
        return None
    if lines is None:
        return None
    rollout = new_rollout(path, bodies=True, traced=False)
    rollout.conversation.places = []
    scan = _Scan(rollout, tools=tools)
    session_id: str | None = None
    for number, (entry, span) in enumerate(lines, start=1):
        scan.spans.append(span)
        take_run(rollout, Run(number, [entry]))
        if session_id is None and rollout.begun:
            session_id = rollout.lineage.session_id
        if rollout.conversation.done:
            if session_id is None:
                return None
            scan.keep_finished()
    rollout.conversation.end_turn()
    scan.keep_finished()
    return None if session_id is None else (session_id, scan.docs)


def _lines(data: bytes) -> Iterator[tuple[AnyEntry, Span | None]] | None:
    """Every line with its place; None when one of them has another form."""
    end = data.rfind(b"\n") + 1
    spans = line_spans(data, end)
    if any(stop - start > LONG_LINE for start, stop in spans):
        return None
    try:
        entries: Sequence[AnyEntry] = ENTRY.decode_lines(data[:end])
        rest = [ENTRY.decode(data[end:])] if end < len(data) else []
    except UNREADABLE:
        return None
    if len(entries) != len(spans):
        return None
    return zip([*entries, *rest], [*spans, *([None] * len(rest))], strict=True)
