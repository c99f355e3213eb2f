"""Unified ids: `<agent>:<native id>`. Native ids are opaque and may contain colons and slashes."""

from __future__ import annotations

from amux.model.base import Model


class NativeRef(Model, frozen=True, kw_only=True):
    """A reference to a session by its agent and the agent's own id."""

    agent: str
    native_session_id: str


def unified_id(agent: str, native_session_id: str) -> str:
    """Return the unified id of a session. Nothing is validated."""
    return f"{agent}:{native_session_id}"


def split_unified_id(text: str) -> tuple[str, str] | None:
    """Split a unified id at its first colon; return None if there is none or a part is empty."""
    agent, colon, native = text.partition(":")
    return (agent, native) if colon and agent and native else None
