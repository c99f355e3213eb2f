"""Unified ids: `<agent>:<native id>`. Native ids are opaque and may hold colons and slashes."""

from __future__ import annotations

from amux.model.base import Model


class NativeRef(Model, frozen=True, kw_only=True):
    """One session named by its agent and the agent's own id."""

    agent: str
    native_session_id: str


def unified_id(agent: str, native_session_id: str) -> str:
    """Join agent and native id; checks nothing."""
    return f"{agent}:{native_session_id}"


def split_unified_id(text: str) -> tuple[str, str] | None:
    """Split at the first colon; None when there is none or a side is empty."""
    agent, colon, native = text.partition(":")
    return (agent, native) if colon and agent and native else None
