"""Finds the rows that compaction in place wrote a second time.

The agent flags all earlier messages as compacted and writes the head, a summary and the tail again,
in one transaction, as rows with consecutive ids and times microseconds apart. Each message should
be shown once, so the rows around a summary are skipped as far as they repeat earlier rows in order.
The block ends at the first row that repeats none: a prompt that is typed again later stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from amux.adapters._kit.values import number, text
from amux.adapters.hermes.rows import Row
from amux.adapters.hermes.texts import decoded, flat_text, is_summary, split_summary

COLUMNS: Final[tuple[str, ...]] = (
    "rowid",
    "session_id",
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "timestamp",
)

_BURST_S: Final = 0.001  # rows of one block follow each other faster than any model answers


@dataclass(slots=True)
class Replays:
    """The rows written by compaction in place, over all sessions."""

    repeated: set[int] = field(default_factory=set[int])  # rows that repeat an earlier one
    only_summary: set[int] = field(default_factory=set[int])  # summaries with a repeated message
    compactions: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True, frozen=True)
class _ComparableRow:
    """The parts of a row to compare. `content` is a digest, since texts may be long."""

    id: int
    at: float
    content: bytes
    summary: bool
    behind_summary: bytes | None  # digest of the message a summary was put in front of


def find_replays(rows: Iterable[Row]) -> Replays:
    """Return the repeated rows of compacted sessions; `rows` have COLUMNS, in order of id."""
    lines: dict[str, list[_ComparableRow]] = {}
    for row in rows:
        session_id = text(row.get("session_id"))
        if session_id is not None and isinstance(row.get("rowid"), int):
            lines.setdefault(session_id, []).append(_comparable(row))
    found = Replays()
    for session_id, session in lines.items():
        _find_in_session(session_id, session, found)
    return found


def _comparable(row: Row) -> _ComparableRow:
    said = flat_text(decoded(row.get("content")))
    summary = row.get("role") in ("user", "assistant") and is_summary(said)
    behind = split_summary(said)[1] if summary else ""
    return _ComparableRow(
        id=row["rowid"],
        at=number(row.get("timestamp")) or 0.0,
        content=_digest(row, said.strip()),
        summary=summary,
        behind_summary=_digest(row, behind) if behind else None,
    )


def _digest(row: Row, said: str) -> bytes:
    parts = (row.get("role"), said, row.get("tool_calls") or "", row.get("tool_call_id") or "")
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).digest()


def _find_in_session(session_id: str, lines: list[_ComparableRow], found: Replays) -> None:
    for position, line in enumerate(lines):
        if not line.summary:
            continue
        start = _block_start(lines, position)
        earlier = [one.content for one in lines[:start] if one.id not in found.repeated]
        if not earlier:
            continue  # the session begins with the block, so it continues another session
        found.compactions[session_id] = found.compactions.get(session_id, 0) + 1
        history = _OrderedHistory(earlier)
        history.has_all(lines[start:position])
        found.repeated.update(one.id for one in lines[start:position])
        if line.behind_summary is not None and history.has(line.behind_summary):
            found.only_summary.add(line.id)
        for one in _burst(lines[position:]):
            if not history.has(one.content):
                break
            found.repeated.add(one.id)
    found.compactions.setdefault(session_id, 1)  # the rows are flagged, even if no summary matches


def _block_start(lines: list[_ComparableRow], position: int) -> int:
    """Return the start of the block around a summary: preceding rows that repeat earlier ones."""
    start = position
    for _ in _burst(lines[position::-1]):
        history = _OrderedHistory([one.content for one in lines[: start - 1]])
        if not history.has_all(lines[start - 1 : position]):
            break
        start -= 1
    return start


def _burst(lines: Sequence[_ComparableRow]) -> Iterator[_ComparableRow]:
    """Yield the rows after the first that were written in the same transaction."""
    for previous, line in pairwise(lines):
        if abs(line.id - previous.id) != 1 or abs(line.at - previous.at) > _BURST_S:
            return
        yield line


class _OrderedHistory:
    """Searches a history for contents, each after the previous match."""

    def __init__(self, history: list[bytes]) -> None:
        self._history = history
        self._next = 0

    def has_all(self, lines: Sequence[_ComparableRow]) -> bool:
        return all(self.has(line.content) for line in lines)

    def has(self, content: bytes) -> bool:
        try:
            self._next = self._history.index(content, self._next) + 1
        except ValueError:
            return False
        return True
