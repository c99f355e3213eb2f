"""`Session` and `SessionSummary`, as defined by the specification.

Fields without a default are always in the JSON; extensions are optional and omitted when empty.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from amux.model.annotation import Note
from amux.model.base import Model
from amux.model.cost import CostRecord
from amux.model.facts import Kind
from amux.model.message import Role, SessionMessage
from amux.model.problems import Problem
from amux.model.usage import Call


class SearchHit(Model, frozen=True, kw_only=True):
    """One message that matches a query.

    `message_number` counts from 1 in the session, or in its sub-agent `session_id`. The number and
    the role are absent if a text is so long that it is read separately from its message. `ranges`
    are the start and end offsets of the matching words in the snippet.
    """

    snippet: str
    message_number: int | None = None
    role: Role | None = None
    at: datetime | None = None
    session_id: str | None = None
    ranges: tuple[tuple[int, int], ...] = ()


class SessionSummary(Model, frozen=True, kw_only=True):
    """A session as shown in a list, without messages.

    `relevance_score`, `snippet`, `hits` and `hit_count` are set only in search results.
    """

    agent: str
    session_id: str
    unified_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    turn_count: int
    message_count: int
    tags: tuple[str, ...]
    model: str | None = None
    cost: CostRecord | None = None
    cwd: str | None = None
    forked_from: str | None = None
    relevance_score: float | None = None
    snippet: str | None = None
    hits: tuple[SearchHit, ...] = ()
    hit_count: int | None = None
    models: tuple[str, ...] = ()
    kind: Kind = "session"
    parent: str | None = None
    archived: bool = False
    starred: bool = False
    problems: tuple[Problem, ...] = ()
    unrecorded: tuple[str, ...] = ()  # why `cost` is missing although a model was called
    raw: dict[str, Any] = {}


class Session(Model, frozen=True, kw_only=True):
    """A session with its messages. `children` are its sub-agents; `cost` includes their cost."""

    agent: str
    session_id: str
    unified_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    turn_count: int
    tags: tuple[str, ...]
    messages: tuple[SessionMessage, ...]
    model: str | None = None
    cost: CostRecord | None = None
    cwd: str | None = None
    forked_from: str | None = None
    models: tuple[str, ...] = ()
    kind: Kind = "session"
    parent: str | None = None
    archived: bool = False
    starred: bool = False
    notes: tuple[Note, ...] = ()
    calls: tuple[Call, ...] = ()
    children: tuple[Session, ...] = ()
    problems: tuple[Problem, ...] = ()
    unrecorded: tuple[str, ...] = ()  # why `cost` is missing although a model was called
    raw: dict[str, Any] = {}
