"""What a person adds to a session: tags, a star, notes. None of it comes from an agent."""

from __future__ import annotations

from datetime import datetime

from amux.model.base import Model


class Note(Model, frozen=True, kw_only=True):
    """One note. Its number names it within its session and is never given twice."""

    number: int
    at: datetime
    text: str


class SessionAnnotations(Model, frozen=True, kw_only=True):
    """Everything a person has added to one session, whether the session still exists or not."""

    unified_id: str
    tags: tuple[str, ...]
    starred: bool
    notes: tuple[Note, ...]
