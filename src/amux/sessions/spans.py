"""When a session began and when it last changed."""

from __future__ import annotations

from datetime import UTC, datetime

from amux.sessions.parts import Joined

_EPOCH = datetime.fromtimestamp(0, UTC)


def time_span(session: Joined) -> tuple[datetime, datetime]:
    """When it began and when it last changed: from its records, else from the file."""
    created = [part.facts.created_at for part in session.parts if part.facts.created_at]
    updated = [part.facts.updated_at for part in session.parts if part.facts.updated_at]
    first = min(created) if created else session.current.file_time or _EPOCH
    return first, max([*updated, first])
