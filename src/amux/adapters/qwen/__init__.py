"""Qwen Code: a descendant of Gemini CLI with its own transcript format.

Store     $QWEN_RUNTIME_DIR, $QWEN_HOME or ~/.qwen: projects/<encoded cwd>/chats/<id>.jsonl,
          archived ones in chats/archive, sub-agents in projects/<encoded cwd>/subagents/<id>/;
          tmp/<hash of cwd>/chats of the first versions
Formats   Gemini CLI's documents (to 0.3), lines with Google contents (from 0.4)
Counting  telemetry events, and answers without an event; the output includes the thoughts
Copies    a fork repeats the history and names its origin on every copied line
Title     the custom title, else the first prompt

Evidence and gaps: docs/agents/qwen.md. This module discovers the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from amux.adapters._base import AgentInfo, Capabilities, IgnoredFiles, Item, SourceRef, Want
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders, read_closed
from amux.adapters.gemini.files import CHAT_NAME, chat_sources, read_chat
from amux.adapters.qwen.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS

NAME: Final = "qwen"
INFO: Final = AgentInfo(
    name=NAME,
    label="Qwen Code",
    cli_command="qwen",
    capabilities=Capabilities(session_persistence="file", can_resume=True, can_fork=True),
    tier="extra",
    evidence="seen: 0.24.4; described: 0.5.2; read: 0.2.0, 0.4.0; docs/agents/qwen.md",
    ignored_files=(
        IgnoredFiles("settings.json", "settings"),
        IgnoredFiles("settings.json.*", "settings"),
        IgnoredFiles("trustedFolders.json", "settings: read for the working directory"),
        IgnoredFiles("usage_record.jsonl", "totals per run, which the transcripts have in detail"),
        IgnoredFiles("installation_id", "the installation"),
        IgnoredFiles("oauth_creds.json", "credentials: never opened"),
        IgnoredFiles("mcp-oauth-tokens*", "credentials: never opened"),
        IgnoredFiles("QWEN.md", "instructions of the user"),
        IgnoredFiles("projects/*/chats/*.runtime.json", "the process that has a session open"),
        IgnoredFiles("projects/*/subagents/*/*.meta.json", "what a sub-agent was started for"),
        IgnoredFiles("projects/*/memory/*", "the agent's notes about the project"),
        IgnoredFiles("projects/*/*.json", "bookkeeping of a project"),
        IgnoredFiles("file-history/*", "backups of changed files"),
        IgnoredFiles("todos/*.json", "tasks of a session"),
        IgnoredFiles("tmp/*/logs.json", "prompts as they were typed"),
        IgnoredFiles("tmp/*/checkpoint*", "a saved copy of a session"),
        IgnoredFiles("tmp/*/shell_history", "commands of the user"),
        IgnoredFiles("history/*", "shadow repositories for undoing changes"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=4,
    indexable=True,
)

_NOT_PLAIN: Final = re.compile(r"[^a-zA-Z0-9]")

AGENT_PREFIX: Final = "agent-"
AGENTS: Final = "subagents"
ARCHIVE: Final = "archive"


class QwenAdapter:
    """Reads the transcripts of Qwen Code. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["qwen"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the runtime directory and the general directory: both may hold sessions."""
        home = host.path_from("QWEN_HOME") or host.home / ".qwen"
        runtime = host.path_from("QWEN_RUNTIME_DIR")
        return list(dict.fromkeys([home] if runtime is None else [runtime, home]))

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the transcripts of all projects, or of one, and the chats of old versions."""
        wanted: set[str] | None = None
        if cwd is not None:
            plain = cwd.rstrip("/\\") or cwd
            spellings = (plain, plain.replace("/", "\\"), plain.replace("\\", "/"))
            wanted = {_NOT_PLAIN.sub("-", one) for one in spellings}
            wanted |= {name.lower() for name in wanted}  # on Windows
        folders = Folders()
        finder = _SourceFinder(root, folders)
        for project in folders.by_name(root / "projects"):
            if project.is_dir(follow_symlinks=False) and (wanted is None or project.name in wanted):
                yield from finder.project(Path(project.path))
        for project in folders.by_name(root / "tmp"):
            if project.is_dir(follow_symlinks=False):
                chats = Path(project.path) / "chats"
                yield from chat_sources(NAME, root, chats, folders=folders)
                yield from finder.transcripts(chats, group=project.name)
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
        if source.role == "names":
            return read_closed(source)
        if CHAT_NAME.fullmatch(source.path.name):
            return read_chat(source, want=want, injected=INJECTED_TEXTS)
        from amux.adapters.qwen.transcript import TranscriptReader

        return TranscriptReader(source, want=want, only=only).items()


class _SourceFinder:
    """Finds the transcripts below one root."""

    def __init__(self, root: Path, folders: Folders) -> None:
        self._root = root
        self._folders = folders

    def project(self, project: Path) -> Iterator[SourceRef]:
        """Yield the transcripts of one project, including archived ones, and their sub-agents."""
        chats, group = project / "chats", project.name
        yield from self.transcripts(chats, group=group)
        yield from self.transcripts(chats / ARCHIVE, group=group, archived=True)
        for session in self._folders.by_name(project / AGENTS):
            if session.is_dir(follow_symlinks=False):
                yield from self._agents(Path(session.path), group=group)

    def transcripts(
        self, folder: Path, *, group: str, archived: bool = False
    ) -> Iterator[SourceRef]:
        """Yield the transcripts in one folder."""
        for entry in self._folders.by_name(folder):
            path = Path(entry.path)
            is_log = path.suffix == ".jsonl" and not CHAT_NAME.fullmatch(entry.name)
            if is_log and entry.is_file(follow_symlinks=False):
                yield SourceRef(
                    agent=NAME,
                    path=path,
                    root=self._root,
                    session_id=path.stem,
                    group=group,
                    archived=archived,
                    companions=(subagents_folder(path),),
                )

    def _agents(self, folder: Path, *, group: str) -> Iterator[SourceRef]:
        for entry in self._folders.by_name(folder):
            path = Path(entry.path)
            is_agent = path.suffix == ".jsonl" and entry.name.startswith(AGENT_PREFIX)
            if is_agent and entry.is_file(follow_symlinks=False):
                yield SourceRef(
                    agent=NAME,
                    path=path,
                    root=self._root,
                    session_id=path.stem,
                    group=group,
                    role="subagent",
                    parent=folder.name,
                    companions=(metadata_path(path),),
                )


def metadata_path(path: Path) -> Path:
    """Return the path of the metadata file of a sub-agent's transcript."""
    return path.with_suffix(".meta.json")


def subagents_folder(path: Path) -> Path:
    """Return the folder of the sub-agents of the session whose transcript is `path`."""
    folder = path.parent
    project = folder.parent.parent if folder.name == ARCHIVE else folder.parent
    return project / AGENTS / path.stem


ADAPTER: Final = QwenAdapter()
