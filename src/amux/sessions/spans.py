"""When a session began and when it last changed."""

from __future__ import annotations

from datetime import UTC, datetime

from amux.adapters._base import SourceRef
from amux.sessions.parts import Joined


def time_span(session: Joined) -> tuple[datetime, datetime]:
    """When it began and when it last changed: from its records, else from the file."""
    created = [part.facts.created_at for part in session.parts if part.facts.created_at]
    updated = [part.facts.updated_at for part in session.parts if part.facts.updated_at]
    first = min(created) if created else _file_time(session.current.source)
    return first, max([*updated, first])


def _file_time(source: SourceRef) -> datetime:
    try:
        return datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
    except OSError:
        return datetime.fromtimestamp(0, UTC)
