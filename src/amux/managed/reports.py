"""The reports of managed sessions: recovery offers, cleanups, health, profiles, proposals."""

from __future__ import annotations

from typing import Literal

from amux.managed.state import SessionInfo
from amux.model.base import Model

RecoveryWay = Literal["resume", "new", "export", "discard"]
"""Ways to deal with a crashed session: resume it, start a new session of the agent, write what it
has recorded, or delete the record of amux."""

CleanupAction = Literal["archive", "delete"]


class RecoveryOffer(Model, frozen=True, kw_only=True):
    """A crashed session with the ways to recover it. `partial` is the text it had produced."""

    session: SessionInfo
    reason: str
    choices: tuple[RecoveryWay, ...]
    partial: str | None = None


class RecoveryReport(Model, frozen=True, kw_only=True):
    """The result of one recovery: the session (None if it was discarded) and an export."""

    choice: RecoveryWay
    session: SessionInfo | None = None
    export: str | None = None


class CleanupReport(Model, frozen=True, kw_only=True):
    """The sessions that a cleanup put away, or would put away, and what it does with them.

    `over_limit` names the agents that still have more sessions than the settings allow: only ended
    sessions are put away.
    """

    action: CleanupAction
    sessions: tuple[SessionInfo, ...]
    over_limit: tuple[str, ...] = ()
    dry_run: bool = False


class Health(Model, frozen=True, kw_only=True):
    """Whether an agent can be used now. `detail` is its version, or the reason why not."""

    agent: str
    is_healthy: bool
    detail: str | None = None


class ResumeProposal(Model, frozen=True, kw_only=True):
    """The agent's advice after a failed resume: whether a new session can be started.

    `reason` is one sentence about the failure. `new_id` is the id that a new session would have, if
    amux makes the ids of the agent.
    """

    can_start_new: bool
    reason: str
    new_id: str | None = None


class AgentSessionProfile(Model, frozen=True, kw_only=True):
    """How an agent handles sessions; `managed.profile(agent)` returns it."""

    agent: str
    storage_format: str
    storage_location: str
    session_id_format: str
    auto_persist: bool
    resume_method: str
    multi_session: str
    api_type: str
    streaming: str
    session_validation: str
    prompt_required_for_resume: bool
