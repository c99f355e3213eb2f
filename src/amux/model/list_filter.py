"""The rules by which a list shows or leaves out a session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amux.model.directories import plain_directory
from amux.model.session import SessionSummary


def in_span(moment: datetime, since: datetime | None, until: datetime | None) -> bool:
    """Inclusive on both sides."""
    return (since is None or moment >= since) and (until is None or moment <= until)


def same_directory(cwd: str | None, wanted: str | None) -> bool:
    """Whether a session was started in the wanted directory; slashes of either kind are equal."""
    if wanted is None:
        return True
    return cwd is not None and plain_directory(cwd) == plain_directory(wanted)


def has_any_tag(tags: Sequence[str], wanted: Sequence[str] | None) -> bool:
    """OR: one shared tag is enough; no wanted tags = everything."""
    return not wanted or not set(tags).isdisjoint(wanted)


def used_model(summary: SessionSummary, model: str | None) -> bool:
    """Whether the session used that model at all."""
    return model is None or model in summary.models
