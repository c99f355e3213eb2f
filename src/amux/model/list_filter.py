"""The rules by which a list shows or leaves out a session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amux.model.directories import plain_directory
from amux.model.session import SessionSummary


def in_span(moment: datetime, since: datetime | None, until: datetime | None) -> bool:
    """Return whether a moment lies between two others, both inclusive; None is no bound."""
    return (since is None or moment >= since) and (until is None or moment <= until)


def same_directory(cwd: str | None, wanted: str | None) -> bool:
    """Return whether a session was started in a directory; slashes of either kind are equal."""
    if wanted is None:
        return True
    return cwd is not None and plain_directory(cwd) == plain_directory(wanted)


def has_any_tag(tags: Sequence[str], wanted: Sequence[str] | None) -> bool:
    """Return whether a session has one of the wanted tags, or no tag is wanted."""
    return not wanted or not set(tags).isdisjoint(wanted)


def used_model(summary: SessionSummary, model: str | None) -> bool:
    """Return whether the session used a model; None is any model."""
    return model is None or model in summary.models
