"""Makes states of managed sessions anew from their documents, when the database is damaged."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from amux.managed.documents import DocumentFolder
from amux.managed.state import SessionState, SessionStatus
from amux.rollout.ids import is_valid_session_id

_COMPANIONS: Final = ("-wal", "-shm", "-journal")


def set_aside(path: Path, now: datetime) -> Path:
    """Rename a damaged database and its companions; return the new path."""
    moved = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S%f}")
    for suffix in ("", *_COMPANIONS):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(moved.with_name(moved.name + suffix))
    return moved


def restored_states(folders: Iterable[DocumentFolder], now: datetime) -> list[SessionState]:
    """Return the sessions that documents tell of.

    A session with an id of its agent is idle and can be resumed; any other one has crashed.
    """
    found = [_restored(document, now) for folder in folders for document in folder]
    return list({state.id: state for state in found if state is not None}.values())


def _restored(document: dict[str, Any], now: datetime) -> SessionState | None:
    id, agent = document.get("id"), document.get("agent_type")
    if not isinstance(id, str) or not is_valid_session_id(id) or not isinstance(agent, str):
        return None
    native, cwd = document.get("agent_session_id"), document.get("cwd")
    is_known = isinstance(native, str)
    prompts = document.get("pairs")
    return SessionState(
        id=id,
        agent_type=agent,
        agent_session_id=native if is_known else None,
        created_at=_moment(document.get("created_at"), now),
        updated_at=now,
        status=SessionStatus.IDLE if is_known else SessionStatus.CRASHED,
        metadata={"cwd": cwd} if isinstance(cwd, str) else {},
        prompt_history=_prompts(prompts),
        last_error="restored from its file after the database was damaged",
    )


def _moment(value: object, now: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else now
    except ValueError:
        return now
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _prompts(pairs: object) -> tuple[str, ...]:
    if not isinstance(pairs, list):
        return ()
    found: list[str] = []
    for pair in cast("list[object]", pairs):
        prompt = cast("dict[str, Any]", pair).get("prompt") if isinstance(pair, dict) else None
        if isinstance(prompt, str):
            found.append(prompt)
    return tuple(found)
