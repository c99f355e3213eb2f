"""Claude by its Agent SDK: the last session of a list is resumed, or else a new one is started.

The SDK is an optional dependency (extra `claude`). It starts the program `claude` of the PATH, or
the one that it contains. Every id that it names goes into the list (see `claude_file`).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from amux.config import ManagedClaudeSettings
from amux.errors import AmuxError, ErrorCode, StoreError
from amux.managed.agents.base import (
    AgentParts,
    check_options,
    child_environment,
    options_of,
    resume_failed,
)
from amux.managed.agents.claude_file import ClaudeSessionFile
from amux.managed.processes import end_processes
from amux.managed.reports import Health, ResumeProposal
from amux.managed.state import SessionState
from amux.rollout.ids import is_valid_session_id

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage

OPTIONS: Final[Mapping[str, type]] = {
    "permission_mode": str,
    "include_partial_messages": bool,
    "fork_session": bool,
    "continue_conversation": bool,
    "session_id": str,
    "session_file": str,
}
_NOT_FOR_SDK: Final = ("session_file",)
_GRACE_SECONDS: Final = 5.0
_STDERR_LINES: Final = 20

# The SDK logs what it then raises. An application that configures logging still sees it.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())


def has_sdk() -> bool:
    """Return whether the Claude Agent SDK is installed."""
    return find_spec("claude_agent_sdk") is not None


class ClaudeSessionList:
    """The lists of Claude's sessions: that of the settings, or one in a working directory."""

    def __init__(self, parts: AgentParts, settings: ManagedClaudeSettings) -> None:
        self._parts = parts
        self._settings = settings

    def open(self, cwd: str | None, name: str | None = None) -> ClaudeSessionFile:
        """Return the list of a session; `./name` is in its working directory."""
        given = name or self._settings.session_file
        store = self._parts.store
        path = store.resolve(given)
        if given.startswith(("./", ".\\")):
            path = Path(cwd or Path.cwd()) / given[2:]
        lock_path = store.base_path / ".claude.lock"
        return ClaudeSessionFile(path, self._parts.host.now, lock_path=lock_path)

    def last_session_id(self, cwd: str | None) -> str | None:
        """Return the last id of the list; None if there is none, or if it is not a UUID."""
        return self.open(cwd).get_last_session_id()

    def add(self, state: SessionState, native: str) -> None:
        """Make an id the last one of the list; a list that cannot be written is a warning."""
        file = self.open(state.cwd, options_of(state).get("session_file"))
        prompt = state.prompt_history[-1] if state.prompt_history else None
        file.add_session_id(native, prompt=prompt)
        try:
            file.save_session_data()
        except StoreError as error:
            self._parts.supervisor.warned(state.id, str(error))


class ClaudeSdkAgent:
    """Managed sessions of Claude through the SDK."""

    def __init__(self, parts: AgentParts, settings: ManagedClaudeSettings) -> None:
        self._parts = parts
        self._settings = settings
        self._lists = ClaudeSessionList(parts, settings)

    def check(self, state: SessionState, prompt: str | None, *, resumes: bool) -> None:
        """Check the options; a prompt is not needed."""
        del prompt, resumes
        check_options("claude", options_of(state), OPTIONS)
        if not has_sdk():
            raise AmuxError(
                "the Claude Agent SDK is not installed",
                code=ErrorCode.AGENT_NOT_INSTALLED,
                hint="install `agent-mux[claude]`, or set "
                "`session_management.agents.claude.api` to `cli`",
            )

    def start(self, state: SessionState, prompt: str | None) -> str | None:
        """Send the prompt without `resume`; Claude has no sessions without a prompt."""
        return None if prompt is None else self._query(state, prompt, resume=None)

    def resume(self, state: SessionState, prompt: str | None) -> str:
        """Send the prompt with `resume`; without a prompt only check that Claude starts."""
        native = state.agent_session_id or ""
        if not is_valid_session_id(native):
            raise resume_failed(state, "it is not a UUID")
        return self._query(state, prompt, resume=native) or native

    def on_resume_failure(self, state: SessionState, error: Exception) -> ResumeProposal:
        """Propose a new session: Claude itself could be started."""
        del state
        return ResumeProposal(can_start_new=True, reason=str(error))

    def last_session_id(self, cwd: str | None) -> str | None:
        """Return the last id of the list of sessions."""
        return self._lists.last_session_id(cwd)

    def persist(self, state: SessionState) -> None:
        """Store the identity of the session; its id is in the list since Claude named it."""
        self._parts.store.save_document(state, {"options": options_of(state)})

    def health(self) -> Health:
        """Return whether the SDK is installed, with its version."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return Health(agent="claude", is_healthy=True, detail=version("claude-agent-sdk"))
        except PackageNotFoundError:
            return Health(agent="claude", is_healthy=False, detail="the SDK is not installed")

    def _query(self, state: SessionState, prompt: str | None, *, resume: str | None) -> str | None:
        """Talk to Claude in an event loop of its own: the caller's thread may have one."""
        query = _Query(self._parts, state, self._settings.timeout, self._lists.add)
        options = self._options(state, resume, query.note_error)
        pool = ThreadPoolExecutor(1, thread_name_prefix="amux-claude")
        try:
            return pool.submit(asyncio.run, query.run(prompt, options)).result()
        except BaseException:
            query.stop()
            end_processes(state.id, grace=_GRACE_SECONDS)
            raise
        finally:
            pool.shutdown()

    def _options(
        self, state: SessionState, resume: str | None, stderr: Callable[[str], None]
    ) -> ClaudeAgentOptions:
        from claude_agent_sdk import ClaudeAgentOptions

        given = {k: v for k, v in options_of(state).items() if k not in _NOT_FOR_SDK}
        if resume is not None:
            given.pop("session_id", None)  # the id of the session that was started with it
        else:
            given.pop("fork_session", None)  # there is nothing to fork
        return ClaudeAgentOptions(
            resume=resume,
            model=state.model,
            cwd=state.cwd,
            env=child_environment(self._parts.host, state.id),
            cli_path=shutil.which("claude", path=self._parts.host.env.get("PATH")),
            stderr=stderr,
            system_prompt={"type": "preset", "preset": "claude_code"},  # the SDK's is empty
            **given,
        )


class _Query:
    """One prompt to Claude and its answer."""

    def __init__(
        self,
        parts: AgentParts,
        state: SessionState,
        timeout: float,
        add_to_list: Callable[[SessionState, str], None],
    ) -> None:
        self._parts = parts
        self._state = state
        self._timeout = timeout
        self._add_to_list = add_to_list
        self._texts: list[str] = []
        self._native: str | None = None
        self._reported: str | None = None
        self._stderr: list[str] = []
        self._stop: Callable[[], object] = lambda: None

    def note_error(self, line: str) -> None:
        """Keep the last lines that Claude wrote to stderr."""
        self._stderr = [*self._stderr, line][-_STDERR_LINES:]

    def stop(self) -> None:
        """End the query, from any thread."""
        self._stop()

    async def run(self, prompt: str | None, options: ClaudeAgentOptions) -> str | None:
        """Return Claude's id of the session; raise the failure of Claude."""
        import claude_agent_sdk as sdk

        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            self._stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel)
        self._parts.supervisor.started(self._state.id, self.stop)
        try:
            if prompt is None:
                return await self._connect(options)
            return await self._ask(prompt, options)
        except TimeoutError as error:
            raise AmuxError(
                f"Claude gave no sign of life for {self._timeout:g} seconds",
                code=ErrorCode.INACTIVITY_TIMEOUT,
                hint="`amux managed recover` shows how to go on",
            ) from error
        except asyncio.CancelledError as error:
            raise AmuxError("Claude was stopped", code=ErrorCode.ABORTED) from error
        except sdk.CLINotFoundError as error:
            raise AmuxError(
                "the program `claude` is not installed",
                code=ErrorCode.AGENT_NOT_INSTALLED,
                hint="make sure that `claude --version` works",
            ) from error
        except sdk.ClaudeSDKError as error:
            raise self._failure(error, options) from error

    async def _connect(self, options: ClaudeAgentOptions) -> str | None:
        from claude_agent_sdk import ClaudeSDKClient

        async with asyncio.timeout(self._timeout), ClaudeSDKClient(options):
            pass
        return options.resume

    async def _ask(self, prompt: str, options: ClaudeAgentOptions) -> str | None:
        import claude_agent_sdk as sdk

        supervisor, session_id = self._parts.supervisor, self._state.id
        answers = cast("AsyncGenerator[sdk.Message]", sdk.query(prompt=prompt, options=options))
        async with aclosing(answers) as messages:
            while True:
                try:
                    async with asyncio.timeout(self._timeout):
                        message = await anext(messages)
                except StopAsyncIteration:
                    break
                match message:
                    case sdk.SystemMessage(subtype="init", data=data):
                        self._name(str(data.get("session_id", "")))
                    case sdk.AssistantMessage(content=content):
                        found = [each.text for each in content if isinstance(each, sdk.TextBlock)]
                        self._texts += found
                        supervisor.wrote(session_id, "\n".join(self._texts))
                    case sdk.ResultMessage():
                        if message.is_error:  # its id is not that of the session
                            self._reported = _reason_of(message)
                            continue  # the SDK frees its resources at the end
                        self._name(message.session_id)
                        supervisor.wrote(session_id, message.result or "\n".join(self._texts))
                    case _:
                        pass
        if self._reported is not None:
            raise self._error(self._reported, options, was_killed=False)
        return self._native

    def _name(self, native: str) -> None:
        """Note the id as soon as Claude names it."""
        if native and native != self._native and is_valid_session_id(native):
            self._native = native
            self._parts.supervisor.named(self._state.id, native)
            self._add_to_list(self._state, native)

    def _failure(self, error: Exception, options: ClaudeAgentOptions) -> AmuxError:
        code = getattr(error, "exit_code", None)
        said = " ".join(self._stderr[-1:]).strip()
        was_killed = isinstance(code, int) and code < 0
        reason = self._reported or said or str(error).partition("\n")[0]
        if isinstance(code, int) and code < 0:
            reason = f"it was killed by signal {-code}"
        return self._error(reason, options, was_killed=was_killed)

    def _error(self, reason: str, options: ClaudeAgentOptions, *, was_killed: bool) -> AmuxError:
        """Return the failure; one before the first words after `resume` is a failed resume."""
        if options.resume is not None and not self._texts and not was_killed:
            return resume_failed(self._state, reason)
        return AmuxError(
            f"Claude failed: {reason}",
            code=ErrorCode.AGENT_CRASH,
            hint="`amux managed recover` shows how to go on",
        )


def _reason_of(message: ResultMessage) -> str:
    return "; ".join(message.errors or ()) or message.result or message.subtype
