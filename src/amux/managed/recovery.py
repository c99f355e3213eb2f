"""Recovery of managed sessions: how a crash is noticed, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable

from amux.managed.database import Activity
from amux.managed.reports import RecoveryWay
from amux.managed.state import SessionState, SessionStatus
from amux.model.session import Session
from amux.render import render


def crash_reason(
    state: SessionState, activity: Activity | None, is_valid: Callable[[Activity], bool]
) -> str | None:
    """Return why a session must have crashed; None if it has not.

    A session is active as long as its lease is valid. One that was created with a prompt and has
    no lease was never started.
    """
    if activity is not None and is_valid(activity):
        return None
    if state.status is SessionStatus.ACTIVE:
        if activity is None:
            return "the process that managed it ended"
        return f"process {activity.pid} on {activity.host}, which managed it, ended or hangs"
    if state.status is SessionStatus.CREATED and state.prompt_history:
        return "the process that created it ended before the agent was started"
    return None


def ways_of(state: SessionState) -> tuple[RecoveryWay, ...]:
    """Return the ways to recover a session; only a session of the agent can be resumed."""
    if state.agent_session_id is None:
        return ("new", "export", "discard")
    return ("resume", "new", "export", "discard")


def exported(state: SessionState, history: Session | None, partial: object) -> str:
    """Return a session as Markdown: its history, else the prompts and the unfinished answer."""
    text = _prompts_of(state) if history is None else render(history, "markdown")
    if isinstance(partial, str) and partial.strip() and partial.strip() not in text:
        text = f"{text.rstrip()}\n\n## Unfinished answer\n\n{partial.strip()}\n"
    return text


def _prompts_of(state: SessionState) -> str:
    prompts = "".join(f"## User\n\n{prompt}\n\n" for prompt in state.prompt_history)
    return f"# Managed session {state.id} ({state.agent_type})\n\n{prompts}"
