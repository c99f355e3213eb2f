"""`ManagedAgent`: what a managed session asks of its agent, and what the agent reports back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast, runtime_checkable

from amux.config import SessionManagementSettings
from amux.errors import AmuxError, ErrorCode, ValidationError
from amux.host import Host
from amux.managed.processes import MARKER
from amux.managed.reports import Health, ResumeProposal
from amux.managed.state import SessionState
from amux.managed.store import UnifiedSessionStore
from amux.reading.registry import AdapterRegistry
from amux.runs.manager import RunManager

PROPOSED: Final = "proposed_id"
"""The key in `metadata` of an id that was proposed for a new session of the agent."""


class Supervisor(Protocol):
    """Receives the reports of an agent that works on a session."""

    def started(self, session_id: str, stop: Callable[[], object]) -> None:
        """Note that the agent works; `stop` ends it, from any thread."""

    def named(self, session_id: str, agent_session_id: str) -> None:
        """Note the agent's own id of the session as soon as it is known."""

    def wrote(self, session_id: str, text: str) -> None:
        """Note the text of the answer so far."""

    def writes(self, session_id: str, text: Callable[[], str]) -> None:
        """Note how to ask for the text of the answer so far, from any thread."""

    def warned(self, session_id: str, text: str) -> None:
        """Note a warning for the caller."""


class AgentParts(NamedTuple):
    """The parts of a client that managed agents use."""

    host: Host
    settings: SessionManagementSettings
    store: UnifiedSessionStore
    runs: Callable[[], RunManager]
    registry: AdapterRegistry
    supervisor: Supervisor


class ManagedAgent(Protocol):
    """Starts and resumes the sessions of one agent."""

    def start(self, state: SessionState, prompt: str | None) -> str | None:
        """Start a session and send the prompt; return the agent's id of it, None if unknown.

        Without a prompt, an agent that has no empty sessions does nothing.

        Raises:
            AmuxError: The agent cannot be started, crashed, or does not answer.
        """
        ...

    def resume(self, state: SessionState, prompt: str | None) -> str:
        """Continue the session with the prompt; return the agent's id of it.

        Raises:
            AmuxError: The agent has no such session, or refuses it (RESUME_FAILED); it cannot be
                started, crashed, or does not answer (any other code).
        """
        ...

    def on_resume_failure(self, state: SessionState, error: Exception) -> ResumeProposal:
        """Return whether a new session can replace one that could not be resumed."""
        ...

    def persist(self, state: SessionState) -> None:
        """Store what only this agent knows about the session."""
        ...

    def health(self) -> Health:
        """Return whether the agent can be used now."""
        ...

    def check(self, state: SessionState, prompt: str | None, *, resumes: bool) -> None:
        """Raise ValidationError if the request cannot succeed; start nothing."""
        ...


@runtime_checkable
class TurnsAgent(Protocol):
    """An agent that answers several prompts in one process (optional)."""

    def run_turns(self, state: SessionState, prompts: Sequence[str]) -> str | None:
        """Send the prompts one after the other; return the agent's id of the session."""
        ...


@runtime_checkable
class StoppableAgent(Protocol):
    """An agent that works outside of the processes that amux starts (optional)."""

    def stop(self, state: SessionState) -> None:
        """Make the agent stop working on a session, whichever process asked for it."""
        ...


@runtime_checkable
class LastSessionAgent(Protocol):
    """An agent that has a list of its sessions beside the store (optional)."""

    def last_session_id(self, cwd: str | None) -> str | None:
        """Return the id of the last session; None if there is none that can be used."""
        ...


def child_environment(host: Host, session_id: str) -> dict[str, str]:
    """Return the environment of an agent: that of the host, with the id of the session."""
    return {**host.env, MARKER: session_id}


def options_of(state: SessionState) -> dict[str, Any]:
    """Return the options with which a session was created."""
    found = state.metadata.get("options")
    return dict(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else {}


def check_options(agent: str, options: Mapping[str, Any], known: Mapping[str, type]) -> None:
    """Raise ValidationError for an option that the agent does not have, or of a wrong type."""
    for name, value in options.items():
        if name not in known:
            hint = f"it has {', '.join(sorted(known))}" if known else "it has no options"
            raise ValidationError(
                f"managed sessions of {agent} have no option `{name}`", fields=(name,), hint=hint
            )
        if not isinstance(value, known[name]):
            kind = known[name].__name__
            raise ValidationError(f"`{name}` must be a {kind}, not `{value!r}`", fields=(name,))


def resume_failed(state: SessionState, reason: str) -> AmuxError:
    """Return the error of a session that its agent could not resume."""
    return AmuxError(
        f"{state.agent_type} could not resume `{state.agent_session_id}`: {reason}",
        code=ErrorCode.RESUME_FAILED,
        hint="the strategy `resume_or_new` starts a new session instead",
    )
