"""Annotations of a session: tags, a star and notes. They come from the user, not from an agent."""

from __future__ import annotations

from datetime import datetime

from amux.model.base import Model


class Note(Model, frozen=True, kw_only=True):
    """One note. Its number identifies it within its session and is never reused."""

    number: int
    at: datetime
    text: str


class SessionAnnotations(Model, frozen=True, kw_only=True):
    """All annotations of one session, whether the session still exists or not."""

    unified_id: str
    tags: tuple[str, ...]
    starred: bool
    notes: tuple[Note, ...]
