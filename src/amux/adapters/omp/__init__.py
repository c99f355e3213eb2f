"""Reads the sessions of oh-my-pi (omp), a fork of Pi.

Store     $PI_CODING_AGENT_DIR, or the agent folder of the profile below ~/.omp ($PI_CONFIG_DIR),
          or $XDG_DATA_HOME/omp: sessions/<folder>/<time>_<id>.jsonl; sub-agents in
          <time>_<id>/<task>.jsonl beside it; sessions/<id>/*.jsonl as specified
Formats   Pi's version 3; from 18 on a title slot precedes the header
Counting  as Pi; helper calls without a message are recorded too, calls for titles and compactions
          are not; calls of an imported session count only if the original is gone
Title     the slot, else the last recorded title, else the first prompt of the current branch

Evidence and gaps: docs/agents/omp.md. The logs are read by the `pi` package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from amux.adapters._base import AgentInfo, Capabilities, IgnoredFiles, SourceRef
from amux.adapters._kit.command_line import CommandLine
from amux.adapters.omp.injected import INJECTED_TEXTS
from amux.adapters.pi.adapter import Companions, TreeAdapter, origin_of
from amux.host import Host
from amux.launchers import LAUNCHERS

if TYPE_CHECKING:
    from amux.adapters.pi.log import Origin

INFO: Final = AgentInfo(
    name="omp",
    label="oh-my-pi",
    cli_command="omp",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    evidence="seen: 13.19.0, 14.9.9, 18.2.3, 18.3.4; read in the source: 18.3.4",
    ignored_files=(
        IgnoredFiles("*/.*.tmp", "a log whose writer was stopped"),
        IgnoredFiles("*/*/*", "results and notes of sub-agents"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=7,
    indexable=True,
)

_PROFILE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class OmpAdapter(TreeAdapter):
    """Reads the sessions of oh-my-pi."""

    info = INFO
    writer = "omp"
    home_folder = ".omp"
    command = CommandLine(LAUNCHERS["omp"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the session folder that the environment names, then those of the agent folder."""
        own = host.path_from("PI_CODING_AGENT_SESSION_DIR")
        found = _session_folders(host)
        return found if own is None else list(dict.fromkeys((own, *found)))

    def log_origin(self, source: SourceRef) -> Origin:
        """Return the properties of a log that follow from its location."""
        from amux.adapters.omp.originals import has_original
        from amux.adapters.omp.prompts import OmpTexts

        return msgspec.structs.replace(
            origin_of(source), texts=OmpTexts(), has_original=partial(has_original, source.root)
        )

    def companions(self, root: Path, log: Path) -> Companions:
        """Return the original of an imported session, which owns the calls while it exists."""
        return partial(_originals, root, log)


def _originals(root: Path, log: Path) -> tuple[Path, ...]:
    from amux.adapters.omp.originals import original_files

    return original_files(root, log)


def _session_folders(host: Host) -> list[Path]:
    """Return the session folders of the agent folder and of a migration to XDG directories."""
    named = host.env.get("OMP_PROFILE")
    name = (host.env.get("PI_PROFILE", "") if named is None else named).strip()
    # The default profile and a name that omp would reject have no folder of their own.
    profile = name if name != "default" and _PROFILE.fullmatch(name) else None
    agent = host.path_from("PI_CODING_AGENT_DIR") if profile is None else None
    if agent is not None:
        return [agent / "sessions"]
    below = Path() if profile is None else Path("profiles") / profile
    config = host.path_from("PI_CONFIG_DIR") or host.home / ".omp"
    found = [config / below / "agent" / "sessions"]
    moved = None if host.platform == "win32" else host.path_from("XDG_DATA_HOME")
    if moved is not None:
        found.append(moved / "omp" / below / "sessions")
    return found


ADAPTER: Final = OmpAdapter()
