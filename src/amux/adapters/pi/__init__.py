"""Reads the sessions of the Pi coding agent.

Store     $PI_CODING_AGENT_DIR (once $CODING_AGENT_DIR) or ~/.pi/agent: sessions/--<cwd>--/
          <time>_<id>.jsonl; $PI_CODING_AGENT_SESSION_DIR; sessions/<id>/*.jsonl as specified
Formats   version 1 is a list (to 0.30), 2 and 3 are trees; newer versions rewrite older logs
Branch    the current branch ends at the last line; if a folder is the session, it is the branch
          with the latest time
Counting  one call per assistant message and recorded summary, on every branch
Title     the last recorded name, else the first prompt of the current branch

Evidence and gaps: docs/agents/pi.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from amux.adapters._base import AgentInfo, Capabilities, IgnoredFiles
from amux.adapters._kit.command_line import CommandLine
from amux.adapters.pi.adapter import TreeAdapter
from amux.adapters.pi.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS

INFO: Final = AgentInfo(
    name="pi",
    label="Pi",
    cli_command="pi",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    evidence="seen: 0.7.6, 0.30.2, 0.32.3, 0.73.1, 1.5.0; documented: 1.5.0",
    ignored_files=(IgnoredFiles("*/.*.tmp", "a log whose writer was stopped"),),
    injected_texts=INJECTED_TEXTS,
    revision=7,
    indexable=True,
)


class PiAdapter(TreeAdapter):
    """Reads the sessions of Pi."""

    info = INFO
    writer = "pi"
    home_folder = ".pi"
    command = CommandLine(LAUNCHERS["pi"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the session folder that the environment names, then that of the agent folder."""
        agent = host.path_from("PI_CODING_AGENT_DIR") or host.path_from("CODING_AGENT_DIR")
        own = host.path_from("PI_CODING_AGENT_SESSION_DIR")
        sessions = (agent or host.home / ".pi" / "agent") / "sessions"
        return [sessions] if own is None else list(dict.fromkeys((own, sessions)))


ADAPTER: Final = PiAdapter()
