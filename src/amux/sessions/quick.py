"""A list straight from the index, when nothing has changed since the last one.

Imports as little as possible: most commands ask what an earlier one has answered already, and then
starting Python is most of the work. Whoever gets None asks the long way, with the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from amux.index.answers import Answers
from amux.index.faults import IndexUnavailableError
from amux.index.listing import Listed, Row, Wanted, find_sessions
from amux.index.store import Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class QuickCost:
    """What a session cost, as far as a list shows it."""

    __slots__ = ("incomplete", "total_usd")

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.total_usd: float = record["totalUsd"]
        self.incomplete: tuple[str, ...] = tuple(record.get("incomplete", ()))


class QuickSummary:
    """A session as a list shows it; `body` is its summary as JSON."""

    __slots__ = (
        "agent", "archived", "body", "cost", "created_at", "kind", "model", "session_id", "title",
        "turn_count", "unified_id", "updated_at",
    )  # fmt: skip

    starred = False  # where anything is starred, the long way is taken

    def __init__(self, row: Row) -> None:
        self.agent, self.session_id, _, created, updated, self.turn_count = row[:6]
        self.title, self.body = row[6:]
        said = json.loads(self.body)  # noqa: TID251 - our own text, and msgspec is slow to load
        self.unified_id = f"{self.agent}:{self.session_id}"
        self.created_at = _EPOCH + timedelta(microseconds=created)
        self.updated_at = _EPOCH + timedelta(microseconds=updated)
        self.model: str | None = said.get("model")
        self.cost = QuickCost(said["cost"]) if "cost" in said else None
        self.kind: str = said.get("kind", "session")
        self.archived: bool = said.get("archived", False)


class QuickReport:
    """A list, and what it leaves out; as a `ListReport`, but that problems are still encoded."""

    __slots__ = ("hidden_archived", "hidden_children", "kept_problems", "sessions", "truncated")

    def __init__(self, listed: Listed, kept_problems: Sequence[bytes]) -> None:
        self.sessions = tuple(QuickSummary(row) for row in listed.rows)
        self.hidden_children = listed.hidden_children
        self.hidden_archived = listed.hidden_archived
        self.truncated = listed.truncated
        self.kept_problems = kept_problems


def quick_list(
    store: Store,
    basis: bytes,
    env: Mapping[str, str],
    *,
    agents: Sequence[str] | None,
    wanted: Mapping[str, Any],
) -> QuickReport | None:
    """The list, if what is kept still holds for every agent (None: for all there are)."""
    if not store.exists():
        return None
    answers = Answers(store, "sessions", basis)
    try:
        names = answers.everybody() if agents is None else agents
        if names is None or not answers.still_hold(names, env):
            return None
        listed = find_sessions(store, Wanted(agents=names, **_in_microseconds(wanted)))
        if any(row[-1][:1] != b"{" for row in listed.rows):
            return None  # a name that is no Unicode: for the long way
        return QuickReport(listed, answers.payloads(names))
    except IndexUnavailableError:
        return None


def _in_microseconds(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: (value - _EPOCH) // timedelta(microseconds=1)
        if isinstance(value, datetime)
        else value
        for name, value in wanted.items()
    }
