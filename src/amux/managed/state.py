"""The state of a managed session: its fields, its status, and the legal changes of status.

The internal id is a UUID that amux makes; `agent_session_id` is the agent's own id, unknown until
the agent has named it. The names and values are those of the specification of managed sessions, in
Python, in the database and in JSON.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from amux.errors import AmuxError, ErrorCode
from amux.model.base import Model
from amux.model.ids import NativeRef, unified_id


class SessionStatus(StrEnum):
    """The status of a managed session.

    `created`: the agent has not been started. `active`: the agent works on a prompt. `idle`: it
    waits for the next one. `ended`: the session was stopped. `crashed`: the agent or the process
    that managed it died, or the agent could not be started. `archived`: put away.
    """

    CREATED = "created"
    ACTIVE = "active"
    IDLE = "idle"
    ENDED = "ended"
    CRASHED = "crashed"
    ARCHIVED = "archived"


class ResumeStrategy(StrEnum):
    """The rule for a session that shall be resumed.

    `always`: resume it or fail. `resume_or_new`: resume it, else start a new session of the agent.
    `always_new`: never resume. `manual`: ask the caller.
    """

    ALWAYS = "always"
    RESUME_OR_NEW = "resume_or_new"
    ALWAYS_NEW = "always_new"
    MANUAL = "manual"


_S = SessionStatus
TRANSITIONS: Final = {
    _S.CREATED: frozenset({_S.ACTIVE, _S.IDLE, _S.ENDED, _S.CRASHED}),
    _S.ACTIVE: frozenset({_S.IDLE, _S.ENDED, _S.CRASHED}),
    _S.IDLE: frozenset({_S.ACTIVE, _S.ENDED, _S.CRASHED}),
    _S.ENDED: frozenset({_S.ACTIVE, _S.ARCHIVED}),
    _S.CRASHED: frozenset({_S.ACTIVE, _S.ENDED, _S.ARCHIVED}),
    _S.ARCHIVED: frozenset({_S.ACTIVE, _S.ENDED}),
}
"""The legal next statuses of each status; keeping the status is always legal."""


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that amux stores about a managed session.

    `metadata` holds the working directory (`cwd`), the `model` and the options of the session, and
    everything that callers save. `prompt_history` is bounded; the newest prompt is the last.
    """

    id: str
    agent_type: str
    agent_session_id: str | None = None
    created_at: datetime
    updated_at: datetime
    status: SessionStatus = SessionStatus.CREATED
    metadata: dict[str, Any] = {}
    prompt_history: tuple[str, ...] = ()
    resume_count: int = 0
    last_error: str | None = None

    @property
    def native_ref(self) -> NativeRef | None:
        """The address of the agent's session; None while its id is unknown."""
        if self.agent_session_id is None:
            return None
        return NativeRef(agent=self.agent_type, native_session_id=self.agent_session_id)

    @property
    def unified_id(self) -> str | None:
        """The unified id of the agent's session; None while its id is unknown."""
        if self.agent_session_id is None:
            return None
        return unified_id(self.agent_type, self.agent_session_id)

    @property
    def cwd(self) -> str | None:
        """The working directory of the agent; None means that of this process."""
        found = self.metadata.get("cwd")
        return found if isinstance(found, str) else None

    @property
    def model(self) -> str | None:
        """The model that was asked for; None means the agent's own choice."""
        found = self.metadata.get("model")
        return found if isinstance(found, str) else None

    def replace(self, **changes: Any) -> SessionState:
        """Return a copy with some fields replaced.

        Raises:
            AmuxError: The change of status is not legal (INVALID_STATE_TRANSITION).
        """
        status: SessionStatus = changes.get("status", self.status)
        if status != self.status and status not in TRANSITIONS[self.status]:
            raise AmuxError(
                f"managed session `{self.id}` is {self.status} and cannot become {status}",
                code=ErrorCode.INVALID_STATE_TRANSITION,
                hint=f"it can become {', '.join(sorted(TRANSITIONS[self.status]))}",
            )
        return msgspec.structs.replace(self, **changes)


class SessionInfo(Model, frozen=True, kw_only=True):
    """A managed session as lists and operations return it.

    `text` is the answer of the agent, if the operation sent a prompt. `is_new` says that the
    operation started a new session of the agent, `warnings` why it did not resume the former one.
    """

    id: str
    agent: str
    status: SessionStatus
    created_at: datetime
    updated_at: datetime
    agent_session_id: str | None = None
    unified_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    last_prompt: str | None = None
    resume_count: int = 0
    last_error: str | None = None
    text: str | None = None
    is_new: bool = False
    warnings: tuple[str, ...] = ()


def info_of(
    state: SessionState,
    *,
    text: str | None = None,
    is_new: bool = False,
    warnings: tuple[str, ...] = (),
) -> SessionInfo:
    """Return the public view of a state."""
    return SessionInfo(
        id=state.id,
        agent=state.agent_type,
        status=state.status,
        created_at=state.created_at,
        updated_at=state.updated_at,
        agent_session_id=state.agent_session_id,
        unified_id=state.unified_id,
        cwd=state.cwd,
        model=state.model,
        last_prompt=state.prompt_history[-1] if state.prompt_history else None,
        resume_count=state.resume_count,
        last_error=state.last_error,
        text=text,
        is_new=is_new,
        warnings=warnings,
    )
