"""OpenCode by its server: sessions are created over REST, and events show that the agent works.

The server is probed before anything is asked of it. A prompt is sent once: after a failure it may
have been received. While the answer is awaited, the events of the session show signs of life; if
there are none for the timeout, the work is aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, cast

from amux.config import ManagedOpencodeSettings
from amux.errors import AmuxError, AuthError, ErrorCode
from amux.managed.agents.base import AgentParts, check_options, options_of, resume_failed
from amux.managed.agents.opencode_api import EventStream, OpencodeServer, ServerSessionMissingError
from amux.managed.reports import Health, ResumeProposal
from amux.managed.state import SessionState

OPTIONS: Final[Mapping[str, type]] = {"title": str, "agent": str, "fork_session": bool}
_LONGEST_WAIT: Final = 1.0


class OpencodeServerAgent:
    """Managed sessions of OpenCode in a running server."""

    def __init__(self, parts: AgentParts, settings: ManagedOpencodeSettings) -> None:
        self._parts = parts
        self._settings = settings

    def check(self, state: SessionState, prompt: str | None, *, resumes: bool) -> None:
        """Check the options; a prompt is not needed."""
        del prompt, resumes
        check_options("opencode", options_of(state), OPTIONS)

    def start(self, state: SessionState, prompt: str | None) -> str | None:
        """Create a session, then send the prompt as its first message."""
        server = self._probed(state)
        options = options_of(state)
        made = server.create(
            title=options.get("title"), agent=options.get("agent"), model=state.model
        )
        return self._continue(server, state, made, prompt)

    def resume(self, state: SessionState, prompt: str | None) -> str:
        """Look the session up in the server, then send the prompt."""
        server = self._probed(state)
        native = state.agent_session_id or ""
        try:
            if options_of(state).get("fork_session"):
                found = server.fork(native)
            else:
                found = server.get(native)
        except ServerSessionMissingError as error:
            raise resume_failed(state, str(error)) from error
        return self._continue(server, state, found, prompt)

    def on_resume_failure(self, state: SessionState, error: Exception) -> ResumeProposal:
        """Propose a new session if the server answers."""
        try:
            self._probed(state)
        except AmuxError as failure:
            return ResumeProposal(can_start_new=False, reason=str(failure))
        return ResumeProposal(can_start_new=True, reason=str(error))

    def persist(self, state: SessionState) -> None:
        """Store the project of the session, as the server names it."""
        known = self._parts.store.document("opencode", state.id)
        self._parts.store.save_document(state, {**known, "server_url": self._settings.server_url})

    def stop(self, state: SessionState) -> None:
        """Make the server abort the work on a session."""
        if state.agent_session_id is not None:
            self._server(state).abort(state.agent_session_id)

    def health(self) -> Health:
        """Return whether the server answers, with its version."""
        try:
            version = OpencodeServer(self._settings.server_url, self._parts.host).health()
        except AmuxError as error:
            return Health(agent="opencode", is_healthy=False, detail=str(error))
        return Health(agent="opencode", is_healthy=True, detail=version)

    def _server(self, state: SessionState) -> OpencodeServer:
        return OpencodeServer(self._settings.server_url, self._parts.host, directory=state.cwd)

    def _probed(self, state: SessionState) -> OpencodeServer:
        server = self._server(state)
        server.health()
        return server

    def _continue(
        self,
        server: OpencodeServer,
        state: SessionState,
        session: Mapping[str, Any],
        prompt: str | None,
    ) -> str:
        native = str(session.get("id", ""))
        self._parts.supervisor.named(state.id, native)
        project = {
            "directory": session.get("directory"),
            "project_id": session.get("projectID"),
            "version": session.get("version"),
            "server_url": self._settings.server_url,
        }
        self._parts.store.save_document(state.replace(agent_session_id=native), project)
        if prompt is not None:
            self._send(server, state, native, prompt)
        return native

    def _send(self, server: OpencodeServer, state: SessionState, native: str, prompt: str) -> None:
        supervisor, clock = self._parts.supervisor, self._parts.host.clock
        supervisor.started(state.id, lambda: self._interrupt(server, native))
        signs = _SignsOfLife(native, clock.elapsed, lambda text: supervisor.wrote(state.id, text))
        signs.follow(server, self._settings.timeout)
        answers: SimpleQueue[dict[str, Any] | AmuxError] = SimpleQueue()
        agent = options_of(state).get("agent")

        def ask() -> None:
            try:
                answers.put(server.send(native, prompt, model=state.model, agent=agent))
            except AmuxError as error:
                answers.put(error)

        asking = Thread(target=ask, name="amux-opencode-prompt", daemon=True)
        asking.start()
        try:
            answer = self._await(answers, signs, server, native)
        finally:
            server.close()
            signs.close()
            asking.join(_LONGEST_WAIT)
        supervisor.wrote(state.id, _text_of(answer))

    def _await(
        self,
        answers: SimpleQueue[dict[str, Any] | AmuxError],
        signs: _SignsOfLife,
        server: OpencodeServer,
        native: str,
    ) -> dict[str, Any]:
        """Return the answer; abort the work if there is no sign of life for the timeout."""
        timeout = self._settings.timeout
        while True:
            silence = signs.silence()
            if silence >= timeout:
                self._interrupt(server, native)
                raise AmuxError(
                    f"OpenCode gave no sign of life for {timeout:g} seconds",
                    code=ErrorCode.INACTIVITY_TIMEOUT,
                    hint="`amux managed recover` shows how to go on",
                )
            try:
                answer = answers.get(timeout=min(timeout - silence, _LONGEST_WAIT))
            except Empty:
                continue
            if isinstance(answer, AmuxError):
                raise answer
            _raise_failure(answer)
            return answer

    def _interrupt(self, server: OpencodeServer, native: str) -> None:
        with suppress(AmuxError):  # the server may be gone, or hang
            server.abort(native)
        server.close()


class _SignsOfLife:
    """The events of one session: when the last one came, and the text of the answer so far."""

    def __init__(
        self, native: str, elapsed: Callable[[], float], wrote: Callable[[str], None]
    ) -> None:
        self._native = native
        self._elapsed = elapsed
        self._wrote = wrote
        self._last = elapsed()
        self._stream: EventStream | None = None
        self._reader: Thread | None = None
        self._lock = Lock()
        self._users: set[str] = set()
        self._texts: dict[str, str] = {}

    def follow(self, server: OpencodeServer, timeout: float) -> None:
        """Read events in a thread; a server without events is watched by the answer alone."""
        try:
            self._stream = server.events(timeout=timeout)
        except AmuxError:
            return
        self._reader = Thread(target=self._read, name="amux-opencode-events", daemon=True)
        self._reader.start()

    def silence(self) -> float:
        """Return the seconds since the last sign of life."""
        with self._lock:
            return self._elapsed() - self._last

    def close(self) -> None:
        """End the stream and the thread."""
        if self._stream is not None:
            self._stream.close()
        if self._reader is not None:
            self._reader.join(_LONGEST_WAIT)

    def _read(self) -> None:
        for event in self._stream or ():
            properties = event.get("properties")
            if not isinstance(properties, Mapping):
                continue
            known = cast("Mapping[str, Any]", properties)
            if known.get("sessionID") != self._native:
                continue
            with self._lock:
                self._last = self._elapsed()
            if self._note(str(event.get("type")), known):
                self._wrote("\n".join(self._texts.values()))

    def _note(self, kind: str, properties: Mapping[str, Any]) -> bool:
        """Take the text of an event; return whether the answer grew."""
        info, part = properties.get("info"), properties.get("part")
        if kind == "message.updated" and isinstance(info, Mapping):
            message = cast("Mapping[str, Any]", info)
            if message.get("role") == "user":
                self._users.add(str(message.get("id")))
        elif kind == "message.part.updated" and isinstance(part, Mapping):
            text = cast("Mapping[str, Any]", part)
            if text.get("type") == "text" and str(text.get("messageID")) not in self._users:
                self._texts[str(text.get("id"))] = str(text.get("text", ""))
                return True
        elif kind == "message.part.delta" and properties.get("field") == "text":
            id = str(properties.get("partID"))
            if id in self._texts:
                self._texts[id] += str(properties.get("delta", ""))
                return True
        return False


def _text_of(answer: Mapping[str, Any]) -> str:
    parts = answer.get("parts")
    found = cast("list[object]", parts) if isinstance(parts, list) else []
    texts = [cast("Mapping[str, Any]", part) for part in found if isinstance(part, Mapping)]
    return "\n".join(
        str(part.get("text", ""))
        for part in texts
        if part.get("type") == "text" and not part.get("synthetic")
    )


def _raise_failure(answer: Mapping[str, Any]) -> None:
    """Raise the error that the answer of the agent reports, if any."""
    info = answer.get("info")
    error = cast("Mapping[str, Any]", info).get("error") if isinstance(info, Mapping) else None
    if not isinstance(error, Mapping):
        return
    known = cast("Mapping[str, Any]", error)
    name, data = str(known.get("name")), known.get("data")
    message = cast("Mapping[str, Any]", data).get("message") if isinstance(data, Mapping) else None
    sentence = f"OpenCode failed: {message or name}"
    if name == "ProviderAuthError":
        raise AuthError(sentence, agent="opencode", guidance="run `opencode auth login`")
    code = ErrorCode.ABORTED if name == "MessageAbortedError" else ErrorCode.AGENT_CRASH
    raise AmuxError(sentence, code=code)
