"""Droid: amux makes and keeps the ids of its sessions, with every prompt that was sent.

A new session gets an id from amux before Droid is started. If Droid names another one, that one is
used from then on; older versions name none, and are resumed by the id of amux. Several prompts at
once are sent to one process as a stream of JSON lines.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from amux.config import ManagedDroidSettings
from amux.errors import AmuxError, ErrorCode, ValidationError
from amux.managed.agents.base import (
    PROPOSED,
    AgentParts,
    child_environment,
    options_of,
    resume_failed,
)
from amux.managed.agents.command import CommandAgent
from amux.managed.agents.stream_json import StreamProcess
from amux.managed.reports import ResumeProposal
from amux.managed.state import SessionState

AUTONOMY: Final = ("low", "medium", "high")


class DroidAgent(CommandAgent):
    """Managed sessions of Droid."""

    options: Mapping[str, type] = {**CommandAgent.options, "autonomy": str}

    def __init__(self, parts: AgentParts, settings: ManagedDroidSettings) -> None:
        super().__init__("droid", parts)
        self._settings = settings

    def check(self, state: SessionState, prompt: str | None, *, resumes: bool) -> None:
        """Check the options, and that there is a prompt to resume with, unless settings say so."""
        autonomy = options_of(state).get("autonomy")
        if autonomy is not None and autonomy not in AUTONOMY:
            raise ValidationError(
                f"`{autonomy}` is not one of {', '.join(AUTONOMY)}", fields=("autonomy",)
            )
        super().check(state, prompt, resumes=resumes and self._settings.prompt_required_for_resume)

    def start(self, state: SessionState, prompt: str | None) -> str | None:
        """Make an id, then run Droid; the id that Droid names replaces it."""
        if prompt is None:
            return None
        made = str(state.metadata.get(PROPOSED) or uuid4())
        self._remember(state, made, prompt)
        return self._correct(state, made, self._run(state, prompt))

    def resume(self, state: SessionState, prompt: str | None) -> str:
        """Run `droid exec -s <id> <prompt>`; without a prompt there is nothing to run."""
        native = state.agent_session_id or ""
        if prompt is None:
            return native
        named = super().resume(state, prompt)
        self._remember(state, named, prompt)
        return named

    def run_turns(self, state: SessionState, prompts: Sequence[str]) -> str | None:
        """Send several prompts to one process, each after the answer to the one before."""
        resumes = state.agent_session_id is not None
        native = state.agent_session_id or str(state.metadata.get(PROPOSED) or uuid4())
        stream = self._open_stream(state)
        try:
            self._parts.supervisor.started(state.id, stream.abort)
            for number, prompt in enumerate(prompts):
                self._remember(state, native, prompt)
                answer = stream.ask(prompt)
                if answer.error is not None:
                    if resumes and number == 0:
                        raise resume_failed(state, answer.error)
                    raise AmuxError(
                        f"droid failed: {answer.error}",
                        code=ErrorCode.AGENT_CRASH,
                        hint="`amux managed recover` shows how to go on",
                    )
                native = self._correct(state, native, answer.session_id)
                self._parts.supervisor.wrote(state.id, answer.text)
        finally:
            stream.close()
        return native

    def on_resume_failure(self, state: SessionState, error: Exception) -> ResumeProposal:
        """Propose a new session, with a new id."""
        del state
        return ResumeProposal(can_start_new=True, reason=str(error), new_id=str(uuid4()))

    def persist(self, state: SessionState) -> None:
        """Store the model and autonomy beside the prompts."""
        known = self._parts.store.document("droid", state.id)
        self._parts.store.save_document(state, {**known, **self._traits(state)})

    def _run_options(self, state: SessionState) -> dict[str, Any]:
        found = super()._run_options(state)
        autonomy = options_of(state).get("autonomy")
        return found if autonomy is None else {**found, "args": ("--auto", autonomy)}

    def _traits(self, state: SessionState) -> dict[str, Any]:
        return {"model": state.model, "autonomy": options_of(state).get("autonomy")}

    def _remember(self, state: SessionState, native: str, prompt: str) -> None:
        """Store the prompt with the id of its session, if sessions are tracked."""
        if not self._settings.session_tracking:
            return
        store = self._parts.store
        known = store.document("droid", state.id)
        pair = {"id": native, "prompt": prompt, "at": self._parts.host.now().isoformat()}
        pairs: list[object] = [*known.get("pairs", ()), {**pair, **self._traits(state)}]
        stored = state.replace(agent_session_id=native)
        store.save_document(stored, {**self._traits(state), "pairs": pairs})

    def _correct(self, state: SessionState, made: str, named: str | None) -> str:
        """Return the id that Droid named, and store it with the last prompt; else our own.

        Both lead to the managed session. Our own is no id of a session before Droid has accepted
        it, so a crash before that leaves the session without one.
        """
        self._parts.supervisor.named(state.id, made)
        if named is None or named == made:
            return made
        if self._settings.session_tracking:
            pairs = list(self._parts.store.document("droid", state.id).get("pairs", ()))
            pairs[-1:] = [{**pair, "id": named} for pair in pairs[-1:]]
            stored = state.replace(agent_session_id=named)
            self._parts.store.save_document(stored, {**self._traits(state), "pairs": pairs})
        self._parts.supervisor.named(state.id, named)
        return named

    def _open_stream(self, state: SessionState) -> StreamProcess:
        program = shutil.which("droid", path=self._parts.host.env.get("PATH"))
        if program is None:
            raise AmuxError(
                "the program `droid` is not on the PATH",
                code=ErrorCode.AGENT_NOT_INSTALLED,
                hint="install it, or make sure that `droid --version` works",
            )
        words = [program, "exec", "--input-format", "stream-json"]
        words += ["--output-format", "stream-json"]
        if state.agent_session_id is not None:
            words += ["-s", state.agent_session_id]
        if state.model is not None:
            words += ["-m", state.model]
        if (autonomy := options_of(state).get("autonomy")) is not None:
            words += ["--auto", autonomy]
        return StreamProcess(
            words,
            cwd=state.cwd,
            env=child_environment(self._parts.host, state.id),
            session_id=state.id,
            timeout=self._settings.timeout,
        )
