"""Claude by its command, where the Agent SDK is not installed; the list of sessions is kept."""

from __future__ import annotations

from collections.abc import Mapping

from amux.config import ManagedClaudeSettings
from amux.managed.agents.base import AgentParts
from amux.managed.agents.claude import ClaudeSessionList
from amux.managed.agents.command import CommandAgent
from amux.managed.state import SessionState


class ClaudeCommandAgent(CommandAgent):
    """Managed sessions of Claude through `claude -p`."""

    options: Mapping[str, type] = {**CommandAgent.options, "session_file": str}

    def __init__(self, parts: AgentParts, settings: ManagedClaudeSettings) -> None:
        super().__init__("claude", parts)
        self._lists = ClaudeSessionList(parts, settings)

    def start(self, state: SessionState, prompt: str | None) -> str | None:
        """Run Claude with the prompt and add its session to the list."""
        return self._listed(state, super().start(state, prompt))

    def resume(self, state: SessionState, prompt: str | None) -> str:
        """Run Claude in the session and make it the last one of the list."""
        named = super().resume(state, prompt)
        self._listed(state, named)
        return named

    def last_session_id(self, cwd: str | None) -> str | None:
        """Return the last id of the list of sessions."""
        return self._lists.last_session_id(cwd)

    def _listed(self, state: SessionState, native: str | None) -> str | None:
        if native is not None:
            self._lists.add(state, native)
        return native
