"""Lets an agent work on a managed session: the strategy, and the state before and after.

If the agent cannot resume its session, the strategy decides. A failed resume changes nothing; any
other failure is a crash, after which nothing is repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amux.errors import AmuxError, ErrorCode
from amux.managed.agents.base import PROPOSED, AgentParts, ManagedAgent, TurnsAgent
from amux.managed.requests import decision_required
from amux.managed.state import ResumeStrategy, SessionInfo, SessionState, SessionStatus, info_of
from amux.managed.supervisor import SessionSupervisor, SupervisedWork, partial_document

_OVER: Final = frozenset({SessionStatus.ENDED, SessionStatus.ARCHIVED})
_LOGGER = logging.getLogger("amux")


class SessionWorker:
    """Runs agents under the supervisor; `agent_of` returns the integration of an agent."""

    def __init__(
        self,
        parts: AgentParts,
        supervisor: SessionSupervisor,
        agent_of: Callable[[str], ManagedAgent],
    ) -> None:
        self._host, self._store, self._settings = parts.host, parts.store, parts.settings
        self._supervisor = supervisor
        self._agent_of = agent_of
        supervisor.save = self._save_work

    def run(
        self,
        state: SessionState,
        prompts: Sequence[str],
        *,
        strategy: ResumeStrategy | None,
        is_recorded: bool = False,
    ) -> SessionInfo:
        """Let the agent work and return the session with its answer.

        `strategy` None starts a new session. `is_recorded` says that the prompts are already in the
        history.
        """
        with self._supervisor.working(state) as work:
            before = state.status
            if prompts or strategy is not None:
                state = self._activate(state, () if is_recorded else prompts)
            try:
                native, is_new = self._attempt(state, prompts, strategy, work)
            except BaseException as error:
                self._settle_failure(state, before, error, work)
                raise
            done = self._settle(state, native, is_new=is_new, counts=strategy is not None)
            self.persist(done)
            return info_of(done, text=work.text, is_new=is_new, warnings=tuple(work.warnings))

    def _attempt(
        self,
        state: SessionState,
        prompts: Sequence[str],
        strategy: ResumeStrategy | None,
        work: SupervisedWork,
    ) -> tuple[str | None, bool]:
        """Return the agent's id of the session, and whether the session is new."""
        engine = self._agent_of(state.agent_type)
        if strategy in {None, ResumeStrategy.ALWAYS_NEW} or state.agent_session_id is None:
            return self._send(engine, state.replace(agent_session_id=None), prompts), True
        try:
            return self._send(engine, state, prompts), False
        except AmuxError as error:
            if error.code is not ErrorCode.RESUME_FAILED:
                raise
            proposal = engine.on_resume_failure(state, error)
            if strategy is ResumeStrategy.ALWAYS or not proposal.can_start_new:
                raise
            if strategy is ResumeStrategy.MANUAL:
                self._note(state, {PROPOSED: proposal.new_id})
                raise decision_required(state, str(error), proposal.new_id) from error
            _LOGGER.warning("%s; a new session is started", error)
            work.warnings.append(str(error))
            fresh = state.replace(agent_session_id=None)
            if proposal.new_id is not None:
                fresh = fresh.replace(metadata={**fresh.metadata, PROPOSED: proposal.new_id})
            return self._send(engine, fresh, prompts), True

    def _send(
        self, engine: ManagedAgent, state: SessionState, prompts: Sequence[str]
    ) -> str | None:
        """Send the prompts, the first to a new session if the state has none of the agent."""
        if len(prompts) > 1 and isinstance(engine, TurnsAgent):
            return engine.run_turns(state, prompts)
        first = prompts[0] if prompts else None
        begin = engine.start if state.agent_session_id is None else engine.resume
        native = begin(state, first)
        for prompt in prompts[1:]:
            native = engine.resume(state.replace(agent_session_id=native), prompt)
        return native

    def _activate(self, state: SessionState, prompts: Sequence[str]) -> SessionState:
        def change(before: SessionState) -> SessionState:
            history = (*before.prompt_history, *prompts)
            return before.replace(
                status=SessionStatus.ACTIVE,
                prompt_history=self.bounded(history),
                updated_at=self._host.now(),
            )

        return self._store.update(state.id, change)

    def _settle(
        self, state: SessionState, native: str | None, *, is_new: bool, counts: bool
    ) -> SessionState:
        """Store the state after the agent has answered; a session that was ended stays so."""
        now = self._host.now()

        def change(before: SessionState) -> SessionState:
            resumed = before.resume_count + (1 if counts and not is_new else 0)
            metadata = {k: v for k, v in before.metadata.items() if k != PROPOSED}
            after = before.replace(
                agent_session_id=native or before.agent_session_id,
                resume_count=resumed,
                metadata=metadata,
                last_error=None,
                updated_at=now,
            )
            if before.status is SessionStatus.ACTIVE or native is not None:
                is_over = before.status in _OVER
                return after if is_over else after.replace(status=SessionStatus.IDLE)
            return after

        return self._store.update(state.id, change)

    def _settle_failure(
        self, state: SessionState, before: SessionStatus, error: BaseException, work: SupervisedWork
    ) -> None:
        """Store the failure: the agent crashed, or it could not resume and nothing happened."""
        code = error.code if isinstance(error, AmuxError) else ErrorCode.ABORTED
        status = SessionStatus.CRASHED
        if code in {ErrorCode.RESUME_FAILED, ErrorCode.DECISION_REQUIRED}:
            status = SessionStatus.IDLE
            if before in _OVER:
                status = SessionStatus.ENDED
            elif before is SessionStatus.CRASHED:
                status = before
        message = str(error) or type(error).__name__
        if isinstance(error, KeyboardInterrupt):
            message = "amux was interrupted"

        def change(current: SessionState) -> SessionState:
            is_over = current.status in _OVER  # another process has stopped it meanwhile
            return current.replace(
                status=current.status if is_over else status,
                last_error=message,
                updated_at=self._host.now(),
            )

        self.persist(self._store.update(state.id, change), work.text)

    def persist(self, state: SessionState, text: str | None = None) -> None:
        """Let the agent store what it knows, with the text of an unfinished answer."""
        self._agent_of(state.agent_type).persist(state)
        known = self._store.document(state.agent_type, state.id)
        if known.get("partial") != text:
            self._store.save_document(state, partial_document(known, text))

    def bounded(self, prompts: Sequence[str]) -> tuple[str, ...]:
        """Return the newest prompts, as many as a history may have."""
        return tuple(prompts)[-self._settings.agents.opencode.session.history_limit :]

    def _note(self, state: SessionState, extra: Mapping[str, Any]) -> None:
        known = {key: value for key, value in extra.items() if value is not None}
        self._store.update(state.id, lambda each: each.replace(metadata={**each.metadata, **known}))

    def _save_work(self, work: SupervisedWork) -> None:
        now = self._host.now()
        state = self._store.update(work.session_id, lambda each: each.replace(updated_at=now))
        self.persist(state, work.text)
