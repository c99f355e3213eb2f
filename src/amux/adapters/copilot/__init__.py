"""GitHub Copilot CLI.

Store     $COPILOT_HOME or ~/.copilot (older versions also below $XDG_STATE_HOME and
          $XDG_CONFIG_HOME): session-state/<id>/events.jsonl, session-state/<id>.jsonl,
          history-session-state/session_<id>_<time>.json;
          ~/.config/github-copilot/sessions/<id>.json
Formats   one document (to 0.0.340), an event log (from 0.0.343)
Counting  one call per usage record, identified by the session and number it was accounted to; one
          call per compaction; without records, the totals at shutdown, else the output of replies
Copies    a fork repeats every line of its origin; sub-agents are in the file of their session
Title     the name that a person or the agent gave, else the first prompt

Evidence and gaps: docs/agents/copilot.md. This module discovers the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from amux.adapters._base import AgentInfo, Capabilities, IgnoredFiles, Item, SourceRef, Want
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders, is_folder
from amux.adapters.copilot.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS

NAME: Final = "copilot"
INFO: Final = AgentInfo(
    name=NAME,
    label="Copilot CLI",
    cli_command="copilot",
    capabilities=Capabilities(session_persistence="file", can_resume=True),
    evidence="seen: 1.0.102; read in the program: 1.0.0 to 1.0.80; described: 0.0.340 to 0.0.420",
    ignored_files=(
        IgnoredFiles(
            "session-state/*/workspace.yaml", "title and place of a session: read with it"
        ),
        IgnoredFiles("session-state/*/checkpoints/*", "summaries of compacted sessions"),
        IgnoredFiles("session-state/*/files/*", "files the agent made for a session"),
        IgnoredFiles("session-state/*/research/*", "files the agent made for a session"),
        IgnoredFiles("session-state/*/rewind-*", "copies of files for undoing changes"),
        IgnoredFiles("session-state/*/plan.md", "a plan the agent made"),
        IgnoredFiles("session-state/*/session.db*", "lists the agent keeps during a session"),
        IgnoredFiles("session-state/*/inuse.*", "which process has a session open"),
        IgnoredFiles("session-state/*/.workspace-fork.lock", "a lock"),
        IgnoredFiles("session-store.db*", "an index of the sessions, incomplete and derived"),
        IgnoredFiles("config.json", "settings, may hold credentials: never opened"),
        IgnoredFiles("*-config.json", "settings"),
        IgnoredFiles("settings.json", "settings"),
        IgnoredFiles("permissions*.json", "settings"),
        IgnoredFiles("command-history*.json", "what was typed, for the arrow keys"),
        IgnoredFiles("copilot-instructions.md", "instructions of the user"),
        IgnoredFiles("logs/*", "the agent's own log"),
        IgnoredFiles("pkg/*", "the agent's own program"),
        IgnoredFiles("agents/*", "sub-agents a person defined"),
        IgnoredFiles("skills/*", "skills a person defined"),
        IgnoredFiles("hooks/*", "settings"),
        IgnoredFiles("ide/*", "connections to editors"),
        IgnoredFiles("installed-plugins/*", "plugins"),
        IgnoredFiles("marketplace-cache/*", "plugins"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=6,
    indexable=True,
)

_EVENTS: Final = "events.jsonl"


class CopilotAdapter:
    """Reads the sessions of Copilot CLI. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["copilot"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the agent's folder, its location in older versions, and the specified folder."""
        homes = [host.path_from("COPILOT_HOME") or host.home / ".copilot"]
        moved = (host.path_from("XDG_STATE_HOME"), host.path_from("XDG_CONFIG_HOME"))
        homes += [base / ".copilot" for base in moved if base is not None]
        config = moved[1] or host.home / ".config"
        return list(dict.fromkeys((*homes, config / "github-copilot" / "sessions")))

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield all logs and documents; their paths do not include the working directory."""
        from amux.adapters.copilot.documents import session_id_in

        del cwd
        folders = Folders()
        documents = root
        if root.name != "sessions" or root.parent.name != "github-copilot":
            documents = root / "history-session-state"
            yield from _logs(folders, root)
        for entry in folders.entries(documents):
            path = Path(entry.path)
            if path.suffix == ".json" and entry.is_file(follow_symlinks=False):
                yield _source(root, path, session_id_in(path.stem))
        yield from folders.sources(NAME, root, group=str(root))

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        until: int | None = None,  # noqa: ARG002 - history is copied here, never referred to
    ) -> Iterator[Item]:
        """Read one file."""
        if source.path.suffix == ".json":
            from amux.adapters.copilot.documents import read_document

            return read_document(source, want=want)
        from amux.adapters.copilot.log import read_log

        return read_log(source, want=want, only=only)


def _logs(folders: Folders, root: Path) -> Iterator[SourceRef]:
    """Yield `<id>/events.jsonl` and `<id>.jsonl`."""
    from amux.adapters.copilot.workspace import WORKSPACE

    for entry in folders.entries(root / "session-state"):
        path = Path(entry.path)
        if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
            yield _source(root, path, path.stem, path.with_name(WORKSPACE))
        elif not entry.is_symlink() and is_folder(path):
            for inner in folders.entries(path):
                if inner.name == _EVENTS and inner.is_file(follow_symlinks=False):
                    yield _source(root, Path(inner.path), entry.name, path / WORKSPACE)


def _source(root: Path, path: Path, session_id: str, *companions: Path) -> SourceRef:
    return SourceRef(
        agent=NAME,
        path=path,
        root=root,
        session_id=session_id,
        group=str(root),
        companions=companions,
    )


ADAPTER: Final = CopilotAdapter()
