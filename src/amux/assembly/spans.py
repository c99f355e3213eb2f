"""When a session began and when it last changed."""

from __future__ import annotations

from datetime import UTC, datetime

from amux.assembly.session import AssembledSession

_EPOCH = datetime.fromtimestamp(0, UTC)


def time_span(session: AssembledSession) -> tuple[datetime, datetime]:
    """When it began and when it last changed: from its records, else from the file."""
    created = [part.facts.created_at for part in session.sources if part.facts.created_at]
    updated = [part.facts.updated_at for part in session.sources if part.facts.updated_at]
    first = min(created) if created else session.primary.file_time or _EPOCH
    return first, max([*updated, first])
