"""Droid, the agent of Factory.

Store     $FACTORY_HOME_OVERRIDE or ~, then .factory/sessions/<cwd>/<id>.jsonl, older ones directly
          in sessions; <id>.settings.json beside each
Formats   one log of messages; its first line is rewritten when the title changes
Counting  one total per session, in the settings; a session that continues a compacted one starts
          with the total of its predecessor
Title     the title that a person or a model gave, else the first prompt

Evidence and gaps: docs/agents/droid.md. This module discovers the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from amux.adapters._base import AgentInfo, Capabilities, IgnoredFiles, Item, SourceRef, Want
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders, is_folder
from amux.adapters.droid.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS

NAME: Final = "droid"
INFO: Final = AgentInfo(
    name=NAME,
    label="Droid",
    cli_command="droid",
    tier="extra",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    evidence="seen: 0.225.2; described: 0.99.0, 0.215.0; docs/agents/droid.md",
    ignored_files=(
        IgnoredFiles("*.settings.json", "settings and usage of a session: read with its log"),
        IgnoredFiles("*.settings.json.bak", "an older copy of settings"),
        IgnoredFiles("*.settings.json.tmp*", "settings whose writer was stopped"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=5,
    indexable=True,
)

_LOG: Final = ".jsonl"


class DroidAdapter:
    """Reads the sessions of Droid. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["droid"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the session folder in FACTORY_DIR, FACTORY_HOME_OVERRIDE or the home directory."""
        folder = host.path_from("FACTORY_DIR")
        if folder is not None:
            return [folder / "sessions"]
        moved = host.path_from("FACTORY_HOME_OVERRIDE")
        if moved is None:
            return [host.home / ".factory" / "sessions"]
        # The agent appends `.factory`; some scripts set the variable to that folder itself.
        return [moved / ".factory" / "sessions", moved / "sessions"]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield all logs, in the folders of working directories and directly in the root."""
        del cwd  # folder names do not distinguish `/` from `-`
        folders = Folders()
        for entry in folders.entries(root):
            path = Path(entry.path)
            if entry.name.endswith(_LOG) and entry.is_file(follow_symlinks=False):
                yield _source(root, path)
            elif not entry.is_symlink() and is_folder(path):
                for inner in folders.entries(path):
                    if inner.name.endswith(_LOG) and inner.is_file(follow_symlinks=False):
                        yield _source(root, Path(inner.path))
        yield from folders.sources(NAME, root, group=str(root))

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,  # noqa: ARG002 - a log holds one session
        until: int | None = None,  # noqa: ARG002 - history is copied here, never referred to
    ) -> Iterator[Item]:
        """Read one session."""
        from amux.adapters.droid.log import SessionLog

        return SessionLog(source).items(want)


def _source(root: Path, path: Path) -> SourceRef:
    from amux.adapters.droid.settings import settings_files

    return SourceRef(
        agent=NAME,
        path=path,
        root=root,
        session_id=path.stem,
        group=str(root),
        companions=partial(settings_files, path),
    )


ADAPTER: Final = DroidAdapter()
