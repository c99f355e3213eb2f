"""OpenCode by its command: `opencode run --format json`, with `-s` for a known session.

With the option `continue_last` a new managed session begins with the last session of the directory
(`-c`), whichever program created it. With `attach` the command works in a running server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amux.managed.agents.base import AgentParts, options_of
from amux.managed.agents.command import CommandAgent
from amux.managed.state import SessionState


class OpencodeCommandAgent(CommandAgent):
    """Managed sessions of OpenCode without a server."""

    options: Mapping[str, type] = {
        **CommandAgent.options,
        "continue_last": bool,
        "attach": str,
    }

    def __init__(self, parts: AgentParts) -> None:
        super().__init__("opencode", parts)

    def persist(self, state: SessionState) -> None:
        """Store the directory, which is the project of the session."""
        known = self._parts.store.document("opencode", state.id)
        self._parts.store.save_document(state, {**known, "directory": state.cwd})

    def _run_options(self, state: SessionState) -> dict[str, Any]:
        given = options_of(state)
        args: list[str] = []
        if given.get("continue_last") and state.agent_session_id is None:
            args.append("-c")
        if "attach" in given:
            args += ["--attach", given["attach"]]
        return {**super()._run_options(state), "args": args}
