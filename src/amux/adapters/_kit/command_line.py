"""`Adapter.command` of a built-in agent, from the table of its launcher."""

from __future__ import annotations

from typing import Literal

from amux.adapters._base import Command
from amux.launchers import Launcher, LaunchRequest, UnsupportedError


class CommandLine:
    """The command lines that start an agent; implements `Adapter.command`."""

    __slots__ = ("_launcher",)

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def __call__(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Return the command line of an action; None if the agent (of that version) has none."""
        request = LaunchRequest(action, session_id=session_id, prompt=prompt, is_argument=True)
        try:
            plan = self._launcher.plan(request, version)
        except UnsupportedError:
            return None
        return Command(argv=plan.argv, cwd=cwd)
