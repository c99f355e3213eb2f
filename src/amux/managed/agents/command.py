"""Agents that are run by their command: each prompt is one run of the agent's own program.

A run that ends with an error before the agent said anything counts as a failed resume. A run that
was killed, that hangs or that fails later has crashed: the agent may have done a part of the work,
so nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amux.errors import AmuxError, ErrorCode, ValidationError
from amux.managed.agents.base import (
    AgentParts,
    check_options,
    options_of,
    resume_failed,
)
from amux.managed.processes import MARKER, end_processes
from amux.managed.reports import Health, ResumeProposal
from amux.managed.state import SessionState
from amux.runs.launch import detect

if TYPE_CHECKING:
    from amux.runs.run import Run, RunResult

OPTIONS: Final[Mapping[str, type]] = {"approval_mode": str, "fork_session": bool, "tags": list}
_GRACE_SECONDS: Final = 5.0
_KILLED: Final = 128  # shells add the number of the signal to it


class CommandAgent:
    """Managed sessions of any agent that `RunManager` can run."""

    options: Mapping[str, type] = OPTIONS

    def __init__(self, agent: str, parts: AgentParts) -> None:
        self._agent = agent
        self._parts = parts

    def check(self, state: SessionState, prompt: str | None, *, resumes: bool) -> None:
        """Check the options and, to resume, the prompt, which the command needs."""
        check_options(self._agent, options_of(state), self.options)
        if resumes and not prompt:
            raise ValidationError(
                f"{self._agent} needs a prompt to resume a session",
                fields=("prompt",),
                hint="say how to go on",
            )

    def start(self, state: SessionState, prompt: str | None) -> str | None:
        """Run the agent with the prompt; without one, the first prompt will start it."""
        return None if prompt is None else self._run(state, prompt)

    def resume(self, state: SessionState, prompt: str | None) -> str:
        """Run the agent with the prompt, in the session."""
        native = state.agent_session_id or ""
        way = "fork" if options_of(state).get("fork_session") else "session"
        where: dict[str, Any] = {way: native, "native": True}
        return self._run(state, prompt or "", **where) or native

    def on_resume_failure(self, state: SessionState, error: Exception) -> ResumeProposal:
        """Propose a new session: the agent itself could be started."""
        del state
        return ResumeProposal(can_start_new=True, reason=str(error))

    def persist(self, state: SessionState) -> None:
        """Store the identity of the session."""
        self._parts.store.save_document(state, self._parts.store.document(self._agent, state.id))

    def health(self) -> Health:
        """Return whether the agent is installed, with its version."""
        found = detect(self._parts.registry.require(self._agent), self._parts.host)
        if found is None:
            return Health(agent=self._agent, is_healthy=False, detail="it is not installed")
        return Health(agent=self._agent, is_healthy=True, detail=found.version)

    def _run(self, state: SessionState, prompt: str, **where: Any) -> str | None:
        """Run the agent to its end; return its id of the session."""
        run = self._parts.runs().run(
            self._agent,
            prompt,
            model=state.model,
            cwd=state.cwd,
            env={MARKER: state.id},
            inactivity_timeout=self._parts.settings.agents.of(self._agent).timeout,
            **self._run_options(state),
            **where,
        )
        return self._follow(state, run, resumes="session" in where)

    def _run_options(self, state: SessionState) -> dict[str, Any]:
        given = options_of(state)
        return {name: given[name] for name in ("approval_mode", "tags") if name in given}

    def _follow(self, state: SessionState, run: Run, *, resumes: bool) -> str | None:
        """Report what the run does; return the id of the session, or raise its failure.

        A failed resume may name a session that does not exist, so its id is taken at the end.
        """
        supervisor = self._parts.supervisor
        supervisor.started(state.id, run.abort)
        supervisor.writes(state.id, lambda: run.figures.text)
        has_spoken = False
        named: str | None = None
        try:
            for event in run:
                if event.type == "end":
                    continue
                if not resumes and run.session_id is not None and run.session_id != named:
                    named = run.session_id
                    supervisor.named(state.id, named)
                has_spoken = has_spoken or (event.type == "text" and bool(event.text))
            result = run.wait()
        except BaseException:
            run.abort(_GRACE_SECONDS)
            end_processes(state.id, grace=_GRACE_SECONDS)
            raise
        if result.status != "ok":
            end_processes(state.id, grace=_GRACE_SECONDS)
            raise self._failure(state, result, resumes=resumes and not has_spoken)
        supervisor.wrote(state.id, result.text)
        return result.session_id or named

    def _failure(self, state: SessionState, result: RunResult, *, resumes: bool) -> AmuxError:
        reason = result.error or f"exit code {result.exit_code}"
        code = result.error_code or ErrorCode.AGENT_CRASH
        exit_code = _KILLED if result.exit_code is None else result.exit_code
        if resumes and code is ErrorCode.AGENT_CRASH and 0 <= exit_code < _KILLED:
            return resume_failed(state, reason)
        hint = None if code is ErrorCode.ABORTED else "`amux managed recover` shows how to go on"
        return AmuxError(f"{self._agent} failed: {reason}", code=code, hint=hint)
