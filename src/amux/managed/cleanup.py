"""Which managed sessions a cleanup puts away: ended ones that are old, or too many.

Only records of amux are put away. Sessions that are active, idle or crashed stay, however many.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from amux.config import SessionManagementSettings
from amux.managed.state import SessionState, SessionStatus


def sessions_to_put_away(
    states: Iterable[SessionState], settings: SessionManagementSettings, now: datetime
) -> tuple[list[SessionState], tuple[str, ...]]:
    """Return the sessions to put away, and the agents that are over the limit even then."""
    chosen: list[SessionState] = []
    over_limit: list[str] = []
    for agent, kept in _by_agent(states).items():
        ended = [state for state in kept if state.status is SessionStatus.ENDED]
        ended.sort(key=lambda state: state.updated_at)
        patience = timedelta(days=_days(agent, settings))
        old = [state for state in ended if now - state.updated_at > patience]
        excess = len(kept) - settings.global_.max_sessions_per_agent
        gone = ended[: max(len(old), excess, 0)]
        chosen += gone
        if excess > len(gone):
            over_limit.append(agent)
    return chosen, tuple(over_limit)


def _by_agent(states: Iterable[SessionState]) -> dict[str, list[SessionState]]:
    found: dict[str, list[SessionState]] = {}
    for state in states:
        if state.status is not SessionStatus.ARCHIVED:
            found.setdefault(state.agent_type, []).append(state)
    return found


def _days(agent: str, settings: SessionManagementSettings) -> float:
    days = settings.global_.cleanup_after_days
    return (
        min(days, settings.agents.opencode.session.cleanup_after) if agent == "opencode" else days
    )
