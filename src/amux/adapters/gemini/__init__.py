"""Gemini CLI.

Store     $GEMINI_CLI_HOME or ~, then .gemini: tmp/<project>/chats/session-<minute>-<id8>.json(l),
          sub-agents in tmp/<project>/chats/<session id>/<id>.json(l) or beside their session;
          tmp/<project>/logs.json where there are no chats yet; sessions/<id>.jsonl
Formats   prompts only (to 0.2), one document (0.6 - 0.3x), an event log (from 0.4x)
Counting  one call per answer, identified by its message id; thoughts are not part of the output
Copies    an upgrade copies whole projects, a resume leaves stubs; all files of one id are merged
Title     the summary that the model wrote, else the first prompt

Evidence and gaps: docs/agents/gemini.md. This module discovers the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    IgnoredFiles,
    Item,
    Retention,
    SourceRef,
    Want,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders, is_folder, read_closed
from amux.adapters._kit.values import mapping, text
from amux.adapters.gemini.directories import directory_files, notes_in, read_json
from amux.adapters.gemini.files import SETTINGS, chat_sources, read_chat
from amux.adapters.gemini.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS

NAME: Final = "gemini"
INFO: Final = AgentInfo(
    name=NAME,
    label="Gemini CLI",
    cli_command="gemini",
    capabilities=Capabilities(session_persistence="file", can_resume=True),
    evidence=(
        "seen: 0.1.22, 0.15.4, 0.61.0; described: 0.33.0; read: 0.20.0, 0.37.0; "
        "docs/agents/gemini.md"
    ),
    ignored_files=(
        IgnoredFiles("settings.json", "settings"),
        IgnoredFiles("settings.json.*", "settings"),
        IgnoredFiles("projects.json", "names of the projects: read for the working directory"),
        IgnoredFiles("projects.json.*.tmp", "names of the projects, not completed"),
        IgnoredFiles("trustedFolders.json", "settings: read for the working directory"),
        IgnoredFiles("state.json", "state of the user interface"),
        IgnoredFiles("installation_id", "the installation"),
        IgnoredFiles("user_id", "the installation"),
        IgnoredFiles("google_accounts.json", "credentials: never opened"),
        IgnoredFiles("oauth_creds.json", "credentials: never opened"),
        IgnoredFiles("mcp-oauth-tokens*", "credentials: never opened"),
        IgnoredFiles("GEMINI.md", "instructions of the user"),
        IgnoredFiles("history/*", "shadow repositories for undoing changes"),
        IgnoredFiles(
            "tmp/*/.project_root", "the project's directory: read for the working directory"
        ),
        IgnoredFiles("tmp/*/logs.json", "prompts as they were typed"),
        IgnoredFiles("tmp/*/checkpoint-*.json", "a saved copy of a session"),
        IgnoredFiles("tmp/*/checkpoints/*", "copies of sessions for undoing changes"),
        IgnoredFiles("tmp/*/shell_history", "commands of the user"),
        IgnoredFiles("tmp/*/memory/*", "the agent's notes about the project"),
        IgnoredFiles("tmp/*/logs/*", "diagnostics"),
        IgnoredFiles("tmp/*/plans/*", "plans of a session"),
        IgnoredFiles("tmp/*/tasks/*", "tasks of a session"),
        IgnoredFiles("tmp/*/tracker/*", "tasks of a session"),
        IgnoredFiles("tmp/*/tool-outputs/*", "tool output too long for its session"),
        IgnoredFiles("tmp/bin/*", "programs the agent downloaded"),
        IgnoredFiles("commands/*", "commands of the user"),
        IgnoredFiles("skills/*", "skills of the user"),
        IgnoredFiles("agents/*", "agents of the user"),
        IgnoredFiles("policies/*", "settings"),
        IgnoredFiles("extensions/*", "extensions of the user"),
        IgnoredFiles("acknowledgments/*", "settings"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=5,
    indexable=True,
)

_KEPT_DAYS: Final = 30
_AGE: Final = re.compile(r"(\d{1,6})([hdwm])")
_DAYS_OF: Final = {"h": 1 / 24, "d": 1, "w": 7, "m": 30}


class GeminiAdapter:
    """Reads the chats of Gemini CLI. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["gemini"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return `.gemini` in GEMINI_CLI_HOME, else in the home directory."""
        return [(host.path_from("GEMINI_CLI_HOME") or host.home) / ".gemini"]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the chats of all projects: a folder name does not reliably identify a directory."""
        del cwd
        folders = Folders()
        for entry in folders.by_name(root / "sessions"):
            path = Path(entry.path)
            if path.suffix == ".jsonl" and entry.is_file(follow_symlinks=False):
                yield SourceRef(
                    agent=NAME,
                    path=path,
                    root=root,
                    session_id=path.stem,
                    group=str(root),
                    companions=directory_files(root, path.parents[1]),
                )
        found = folders.by_name(root / "tmp")
        projects = [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
        notes = notes_in(projects)
        for project in projects:
            yield from _project_sources(root, project, folders, notes)
        yield from folders.sources(NAME, root, group=str(root))

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        until: int | None = None,  # noqa: ARG002 - history is copied here, never referred to
    ) -> Iterator[Item]:
        """Read one file; a checkpoint is read together with the log that names it."""
        if source.role == "names":
            return read_closed(source)
        from amux.adapters.gemini.legacy_2025 import LOG_NAME, read_logs

        if source.path.name == LOG_NAME:
            return read_logs(source, want=want, only=only)
        return read_chat(source, want=want, injected=INJECTED_TEXTS)

    def retention(self, root: Path) -> Retention | None:
        """Return the age at which the agent deletes chats when it starts; None if it keeps them."""
        settings = root / SETTINGS
        rule = mapping(mapping(mapping(read_json(settings)).get("general")).get("sessionRetention"))
        if rule.get("enabled") is False:
            return None
        found = _AGE.fullmatch(text(rule.get("maxAge")) or "")
        if found is None:
            return Retention(days=_KEPT_DAYS, reason="the default of `general.sessionRetention`")
        days = int(found[1]) * _DAYS_OF[found[2]]
        return Retention(days=days, reason=f"`general.sessionRetention` in {settings}")


def _project_sources(
    root: Path, project: Path, folders: Folders, notes: Sequence[Path]
) -> Iterator[SourceRef]:
    """Yield the chats of one project, or the logs and checkpoints of versions without chats."""
    chats = project / "chats"
    if is_folder(chats):
        yield from chat_sources(NAME, root, chats, folders=folders, notes=notes)
        return
    from amux.adapters.gemini.legacy_2025 import CHECKPOINTS, LOG_NAME

    found = folders.by_name(project)
    saved = [one for one in found if fnmatchcase(one.name, CHECKPOINTS)]
    for entry in found:
        path = Path(entry.path)
        if entry.name == LOG_NAME and entry.is_file(follow_symlinks=False):
            hints = directory_files(root, project, notes)
            beside = (*hints, root / SETTINGS, *map(Path, saved))
            yield SourceRef(agent=NAME, path=path, root=root, group=str(root), companions=beside)
        elif entry in saved and entry.is_file(follow_symlinks=False):
            yield SourceRef(agent=NAME, path=path, root=root, group=str(root), role="names")


ADAPTER: Final = GeminiAdapter()
