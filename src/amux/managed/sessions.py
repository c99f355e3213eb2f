"""`ManagedSessions`: create, resume, list, save, hand off, end and recover sessions of all agents.

Every operation blocks until the agent has answered; `amux.aio` has awaitable twins. A session is
worked on by one process at a time, and every change of its state is stored at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from amux.config import SessionManagementSettings
from amux.errors import (
    AmbiguousIdError,
    AmuxError,
    DecisionRequiredError,
    ErrorCode,
    SessionNotFoundError,
    ValidationError,
)
from amux.host import Host
from amux.managed.agents.base import (
    PROPOSED,
    AgentParts,
    LastSessionAgent,
    ManagedAgent,
    StoppableAgent,
    resume_failed,
)
from amux.managed.agents.choice import managed_agent
from amux.managed.cleanup import sessions_to_put_away
from amux.managed.handoff import handoff_prompt
from amux.managed.processes import end_processes
from amux.managed.profiles import profile_of
from amux.managed.recovery import crash_reason, exported, ways_of
from amux.managed.reports import (
    AgentSessionProfile,
    CleanupReport,
    Health,
    RecoveryOffer,
    RecoveryReport,
    RecoveryWay,
)
from amux.managed.requests import (
    Prompt,
    changes_of,
    decision_required,
    directory_of,
    prompts_of,
    status_of,
)
from amux.managed.state import ResumeStrategy, SessionInfo, SessionState, SessionStatus, info_of
from amux.managed.store import UnifiedSessionStore
from amux.managed.supervisor import SessionSupervisor
from amux.managed.work import SessionWorker
from amux.model.ids import NativeRef, split_unified_id
from amux.model.session import Session
from amux.reading.registry import AdapterRegistry
from amux.rollout.ids import is_valid_session_id
from amux.runs.manager import RunManager

_SHORTEST_PREFIX: Final = 4
_LOGGER = logging.getLogger("amux")


class ManagedSessions:
    """The managed sessions of one home, of all agents.

    Nothing is read or written before the first call. A session is named by its id, by the beginning
    of it, or by the unified id of the agent's session. `store` holds their states.
    """

    def __init__(
        self,
        host: Host,
        settings: SessionManagementSettings,
        registry: AdapterRegistry,
        runs: Callable[[], RunManager],
        history: Callable[[NativeRef], Session],
        *,
        alert: Callable[[str], None] = _LOGGER.warning,
    ) -> None:
        self._host = host
        self._settings = settings
        self._registry = registry
        self._history = history
        self.store = UnifiedSessionStore(host, settings, alert=alert)
        self._supervisor = SessionSupervisor(host, self.store, settings)
        self._parts = AgentParts(host, settings, self.store, runs, registry, self._supervisor)
        self._agents: dict[str, ManagedAgent] = {}
        self._worker = SessionWorker(self._parts, self._supervisor, self._agent)

    # Creating and resuming

    def create_session(
        self,
        agent: str,
        prompt: Prompt = None,
        *,
        cwd: str | None = None,
        model: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SessionInfo:
        """Start a new session of an agent, send the prompt and wait for the answer.

        Without a prompt, the session begins with the first prompt of `resume_session`, unless the
        agent has empty sessions. `options` are those of the agent, such as `permission_mode` for
        Claude or `autonomy` for Droid.

        Raises:
            AgentNotFoundError: No agent has that name.
            ValidationError: An option is unknown or has a wrong value; nothing was stored.
            AmuxError: The agent failed (its code says how); the session is stored as crashed.
        """
        prompts, engine, now = prompts_of(prompt), self._agent(agent), self._host.now()
        known = {"cwd": directory_of(cwd), "model": model, "options": options or None}
        state = SessionState(
            id=str(uuid4()),
            agent_type=agent,
            created_at=now,
            updated_at=now,
            metadata={**(metadata or {}), **{k: v for k, v in known.items() if v is not None}},
            prompt_history=self._worker.bounded(prompts),
        )
        engine.check(state, prompts[0] if prompts else None, resumes=False)
        self.store.add(state)
        info = self._worker.run(state, prompts, strategy=None, is_recorded=True)
        self._put_away(dry_run=False)
        return info

    def resume_session(
        self,
        session_id: str,
        prompt: Prompt = None,
        *,
        strategy: ResumeStrategy | str | None = None,
        **options: Any,
    ) -> SessionInfo:
        """Continue a session with a prompt and wait for the answer.

        The strategy, by default that of the settings, says what happens if the agent cannot resume
        its session. `options` replace those of the session from now on.

        Raises:
            SessionNotFoundError: There is no such session.
            ValidationError: The agent needs a prompt; nothing was started.
            DecisionRequiredError: The strategy is `manual` and the agent could not resume.
            TurnInProgressError: The session is active.
            AmuxError: The agent could not resume (RESUME_FAILED), or failed (its code says how).
        """
        prompts, state = prompts_of(prompt), self._find(session_id)
        chosen = self._strategy(state.agent_type, strategy)
        if options:
            known: dict[str, Any] = dict(state.metadata.get("options") or {})
            state = state.replace(metadata={**state.metadata, "options": {**known, **options}})
        can_resume = state.agent_session_id is not None and chosen != ResumeStrategy.ALWAYS_NEW
        engine = self._agent(state.agent_type)
        engine.check(state, prompts[0] if prompts else None, resumes=can_resume)
        if state.agent_session_id is None and chosen == ResumeStrategy.ALWAYS:
            raise resume_failed(state, "the agent has no session yet")
        if state.agent_session_id is None and chosen == ResumeStrategy.MANUAL:
            raise decision_required(state, "it has no session of the agent yet")
        if options:
            metadata = state.metadata
            self.store.update(state.id, lambda each: each.replace(metadata=metadata))
        return self._worker.run(state, prompts, strategy=chosen)

    def open_session(
        self,
        agent: str,
        prompt: Prompt = None,
        *,
        strategy: ResumeStrategy | str | None = None,
        cwd: str | None = None,
        **options: Any,
    ) -> SessionInfo:
        """Continue the last session of an agent, or start one, as the strategy says.

        Raises the errors of `create_session` and `resume_session`.
        """
        chosen = self._strategy(agent, strategy)
        last = None if chosen == ResumeStrategy.ALWAYS_NEW else self._last(agent, cwd)
        if chosen == ResumeStrategy.MANUAL:
            ways = ("new",) if last is None else ("resume", "new")
            hint = "start a new one" if last is None else f"resume `{last.id}`, or start a new one"
            raise DecisionRequiredError(
                f"the strategy for {agent} is manual", kind="session", choices=ways, hint=hint
            )
        if last is not None:
            return self.resume_session(last.id, prompt, strategy=chosen, **options)
        if chosen == ResumeStrategy.ALWAYS:
            raise AmuxError(
                f"there is no session of {agent} to resume", code=ErrorCode.RESUME_FAILED
            )
        return self.create_session(agent, prompt, cwd=cwd, **options)

    def handoff(
        self, session_id: str, to_agent: str, *, prompt: Prompt = None, **options: Any
    ) -> SessionInfo:
        """Continue a session with another agent: a new session that begins with the history.

        The model is that of the other agent. The first session is left as it is.

        Raises:
            SessionNotFoundError: There is no such session.
            ValidationError: The session already belongs to that agent.
        """
        state = self._find(session_id)
        if state.agent_type == to_agent:
            raise ValidationError(
                f"managed session `{state.id}` already belongs to {to_agent}", fields=("to_agent",)
            )
        self._agent(to_agent)
        prompts = prompts_of(prompt)
        first = prompts[0] if prompts else None
        text = handoff_prompt(state, self._history_of(state), first)
        kept = {k: v for k, v in state.metadata.items() if k not in {"model", "options", PROPOSED}}
        cwd = kept.pop("cwd", None)
        return self.create_session(
            to_agent,
            [text, *prompts[1:]],
            cwd=cwd,
            metadata={**kept, "handoff_from": state.id, "handoff_agent": state.agent_type},
            **options,
        )

    # Reading and changing records

    def list_sessions(
        self, agent: str | None = None, status: SessionStatus | str | None = None
    ) -> list[SessionInfo]:
        """Return the sessions, the one that changed last first; archived ones only if asked for."""
        wanted = None if status is None else status_of(status)
        return [
            info_of(state)
            for state in self.store.list()
            if (agent is None or state.agent_type == agent)
            and (
                state.status is not SessionStatus.ARCHIVED
                if wanted is None
                else state.status is wanted
            )
        ]

    def get(self, session_id: str) -> SessionState:
        """Return the state of a session.

        Raises:
            SessionNotFoundError: There is no such session, or several match (AMBIGUOUS_ID).
        """
        return self._find(session_id)

    def map(self, agent: str, agent_session_id: str) -> str | None:
        """Return the id of the session that has, or had, this id of the agent; None without one."""
        return self.store.find_native(agent, agent_session_id)

    def translate(self, session_id: str) -> NativeRef | None:
        """Return the agent's own session; None while the agent has not named it."""
        return self._find(session_id).native_ref

    def save_session_state(self, session_id: str, state: Mapping[str, Any]) -> None:
        """Change fields of a state; keys that are no fields go into `metadata`.

        Raises:
            SessionNotFoundError: There is no such session.
            ValidationError: A field has a wrong type or cannot be set.
            AmuxError: The change of status is not legal (INVALID_STATE_TRANSITION).
        """
        changes = changes_of(state)
        extra: Mapping[str, Any] = changes.pop("metadata", {})

        def change(before: SessionState) -> SessionState:
            metadata = {**before.metadata, **extra}
            return before.replace(**changes, metadata=metadata, updated_at=self._host.now())

        saved = self.store.update(self._find(session_id).id, change)
        self._worker.persist(saved)

    def delete_session(self, session_id: str) -> bool:
        """Delete the record and the file of amux; return whether there was a record.

        The data of the agent are never touched.

        Raises:
            AmuxError: The session is active (INVALID_STATE_TRANSITION).
        """
        try:
            state = self._find(session_id)
        except SessionNotFoundError as error:
            if isinstance(error, AmbiguousIdError):
                raise
            return False
        if self._is_active(state):
            raise AmuxError(
                f"managed session `{state.id}` is active and cannot be deleted",
                code=ErrorCode.INVALID_STATE_TRANSITION,
                hint="stop it with `amux managed stop`",
            )
        return self.store.delete(state.id)

    # Ending, recovering, cleaning up

    def terminate(self, session_id: str, *, archive: bool | None = None) -> None:
        """Stop the agent, end the session and store its last state.

        `archive` puts it away as well; by default the setting `archive_on_end` decides.
        """
        state = self._find(session_id)
        if state.status is SessionStatus.ARCHIVED:
            return
        ended = self._set_status(state, SessionStatus.ENDED)
        work = self._supervisor.work_on(state.id)
        if work is not None:
            work.is_stopped = True
            work.stop()
        if state.status is SessionStatus.ACTIVE:
            self._stop_agent(ended)
        else:
            end_processes(state.id)  # a daemon that the agent left behind
        self._worker.persist(ended)
        if work is None:
            self.store.release(state.id)
        if self._settings.global_.archive_on_end if archive is None else archive:
            self._set_status(ended, SessionStatus.ARCHIVED)
        self._put_away(dry_run=False)

    def recover(self) -> list[RecoveryOffer]:
        """Find sessions whose process died, end what they left behind, and offer ways to go on."""
        offers: list[RecoveryOffer] = []
        for state in self.store.list():
            reason = self._crash_reason(state)
            crashed = state if reason is None else self._crash(state, reason)
            if crashed.status is SessionStatus.CRASHED:
                partial = self.store.document(state.agent_type, state.id).get("partial")
                offers.append(
                    RecoveryOffer(
                        session=info_of(crashed),
                        reason=crashed.last_error or "unknown",
                        choices=ways_of(crashed),
                        partial=partial if isinstance(partial, str) else None,
                    )
                )
        return offers

    def recover_session(
        self, session_id: str, choice: RecoveryWay, prompt: Prompt = None
    ) -> RecoveryReport:
        """Recover a crashed session in one of the ways that `recover` offers.

        Raises:
            ValidationError: The session has not crashed, or this way is not offered.
        """
        state = self._find(session_id)
        if (reason := self._crash_reason(state)) is not None:
            state = self._crash(state, reason)
        ways = ways_of(state) if state.status is SessionStatus.CRASHED else ()
        if choice not in ways:
            hint = f"possible: {', '.join(ways)}" if ways else f"the session is {state.status}"
            raise ValidationError(
                f"managed session `{state.id}` cannot be recovered by `{choice}`",
                fields=("choice",),
                hint=hint,
            )
        if choice == "discard":
            self.store.delete(state.id)
            return RecoveryReport(choice=choice)
        if choice == "export":
            partial = self.store.document(state.agent_type, state.id).get("partial")
            text = exported(state, self._history_of(state), partial)
            return RecoveryReport(choice=choice, session=info_of(state), export=text)
        ways_to_go = {"resume": ResumeStrategy.ALWAYS, "new": ResumeStrategy.ALWAYS_NEW}
        info = self.resume_session(state.id, prompt, strategy=ways_to_go[choice])
        return RecoveryReport(choice=choice, session=info)

    def cleanup(self, *, dry_run: bool = False) -> CleanupReport:
        """Put away ended sessions that are old or too many; the agents' data stay."""
        return self._put_away(dry_run=dry_run)

    def profile(self, agent: str) -> AgentSessionProfile:
        """Return how an agent stores, names, resumes and streams its sessions."""
        able = self._registry.capabilities(agent)
        return profile_of(agent, persistence=able.session_persistence, can_resume=able.can_resume)

    def health(self, agent: str) -> Health:
        """Return whether an agent can be used now: its program, SDK or server is asked."""
        return self._agent(agent).health()

    def close(self) -> None:
        """Stop the agents of this process, write what is not yet stored, and close the files."""
        self._supervisor.close()
        self.store.close()

    # Crashes

    def _crash_reason(self, state: SessionState) -> str | None:
        if self._supervisor.work_on(state.id) is not None:
            return None
        return crash_reason(
            state,
            self.store.activity(state.id),
            lambda each: self._supervisor.is_valid(each, state.agent_type),
        )

    def _crash(self, state: SessionState, reason: str) -> SessionState:
        """End what the process of a session left behind, and store the crash.

        Nothing is stored if another process has taken the session over meanwhile.
        """
        self._stop_agent(state)

        def change(before: SessionState) -> SessionState:
            if before.status is not state.status or before.updated_at != state.updated_at:
                return before
            return before.replace(
                status=SessionStatus.CRASHED, last_error=reason, updated_at=self._host.now()
            )

        crashed = self.store.update(state.id, change)
        if crashed.status is SessionStatus.CRASHED:
            self.store.release(state.id)
        return crashed

    def _stop_agent(self, state: SessionState) -> None:
        """Stop whatever works on a session, in whichever process; a failure is logged."""
        end_processes(state.id)
        try:
            engine = self._agent(state.agent_type)
            if isinstance(engine, StoppableAgent):
                engine.stop(state)
        except AmuxError as error:  # its server is gone, or the agent itself
            _LOGGER.info("%s", error)

    def _is_active(self, state: SessionState) -> bool:
        if self._supervisor.work_on(state.id) is not None:
            return True
        activity = self.store.activity(state.id)
        return activity is not None and self._supervisor.is_valid(activity, state.agent_type)

    # Records

    def _agent(self, agent: str) -> ManagedAgent:
        if agent not in self._agents:
            self._agents[agent] = managed_agent(agent, self._parts)
        return self._agents[agent]

    def _find(self, reference: str) -> SessionState:
        """Return the session with this id, beginning of an id, or unified id of the agent's."""
        if is_valid_session_id(reference):
            return self.store.get(reference.lower())
        split = split_unified_id(reference)
        if split is not None:
            found = self.store.find_native(*split)
            if found is not None:
                return self.store.get(found)
        prefix = reference.lower()
        is_long_enough = len(prefix) >= _SHORTEST_PREFIX
        found_states = [
            state for state in self.store.list() if is_long_enough and state.id.startswith(prefix)
        ]
        if len(found_states) > 1:
            raise AmbiguousIdError(
                f"`{reference}` is the beginning of {len(found_states)} managed sessions",
                candidates=[state.id for state in found_states],
                hint="give more of the id",
            )
        return found_states[0] if found_states else self.store.get(reference)

    def _last(self, agent: str, cwd: str | None) -> SessionState | None:
        """Return the last session of an agent that can be resumed; None if there is none."""
        engine = self._agent(agent)
        if isinstance(engine, LastSessionAgent):
            native = engine.last_session_id(cwd)
            return None if native is None else self._adopted(agent, native, cwd)
        for state in self.store.list():
            is_candidate = state.agent_type == agent and state.agent_session_id is not None
            if is_candidate and state.status is not SessionStatus.ARCHIVED:
                return state
        return None

    def _adopted(self, agent: str, native: str, cwd: str | None) -> SessionState:
        """Return the managed session of an agent's session, which gets one if it has none."""
        known = self.store.find_native(agent, native)
        if known is not None:
            return self.store.get(known)
        now = self._host.now()
        state = SessionState(
            id=str(uuid4()),
            agent_type=agent,
            agent_session_id=native,
            created_at=now,
            updated_at=now,
            metadata={} if cwd is None else {"cwd": cwd},
        )
        self.store.add(state)
        return state

    def _strategy(self, agent: str, given: ResumeStrategy | str | None) -> ResumeStrategy:
        name = self._settings.agents.of(agent).resume_strategy if given is None else given
        try:
            return ResumeStrategy(name)
        except ValueError:
            raise ValidationError(
                f"`{name}` is not a strategy",
                fields=("strategy",),
                hint=f"one of {', '.join(ResumeStrategy)}",
            ) from None

    def _set_status(self, state: SessionState, status: SessionStatus) -> SessionState:
        now = self._host.now()
        return self.store.update(state.id, lambda each: each.replace(status=status, updated_at=now))

    def _history_of(self, state: SessionState) -> Session | None:
        """Return the history that the agent recorded; None if it cannot be read."""
        if state.native_ref is None:
            return None
        try:
            return self._history(state.native_ref)
        except AmuxError as error:
            _LOGGER.warning("the history of %s cannot be read: %s", state.unified_id, error)
            return None

    def _put_away(self, *, dry_run: bool) -> CleanupReport:
        now = self._host.now()
        chosen, over_limit = sessions_to_put_away(self.store.list(), self._settings, now)
        action = self._settings.global_.cleanup_action
        for state in () if dry_run else chosen:
            if action == "delete":
                self.store.delete(state.id)
            else:
                self._set_status(state, SessionStatus.ARCHIVED)
        return CleanupReport(
            action=action,
            sessions=tuple(map(info_of, chosen)),
            over_limit=over_limit,
            dry_run=dry_run,
        )
