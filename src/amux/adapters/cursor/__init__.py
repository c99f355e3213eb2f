"""Reads sessions of Cursor: those of the command line agent and those of the editor.

Store     ~/.cursor or ~/.config/cursor: chats/<md5>/<id>/store.db of the agent; ~/.cursor:
          transcripts of both (a lossy export) and the specification's sessions/sessions.db;
          the editor's state.vscdb in its settings folder, one global and one per workspace
Formats   a tree of blobs, JSON lines, plain text, keys with JSON values, the specification's
          tables. Evidence: docs/agents/cursor.md
Counting  the editor's token counts per message if they are not zero: always a lower bound
Title     the name, unless it is the placeholder; a title from the tracking database; else the
          first prompt
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Head,
    IgnoredFiles,
    Item,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders
from amux.adapters.cursor.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS
from amux.model.facts import Facts, TitleNote
from amux.model.problems import Problem

if TYPE_CHECKING:
    import sqlite3

NAME: Final = "cursor"
STATE_FILE: Final = "state.vscdb"
CHAT_FILE: Final = "store.db"
CHAT_META_FILE: Final = "meta.json"
WORKSPACE_FILE: Final = "workspace.json"
TRACKING_FILE: Final = "ai-code-tracking.db"
TRANSCRIPTS: Final = "agent-transcripts"
_DATABASES: Final = (".db", ".vscdb", ".sqlite")

INFO: Final = AgentInfo(
    name=NAME,
    label="Cursor",
    cli_command="cursor-agent",
    capabilities=Capabilities(session_persistence="sqlite", can_resume=True),
    evidence="described by public readers of the format; docs/agents/cursor.md",
    ignored_files=(
        IgnoredFiles("workspaceStorage/*/workspace.json", "the folder of a workspace"),
        IgnoredFiles("chats/*/prompt_history.json", "prompts as they were typed"),
        IgnoredFiles("chats/*/meta.json", "title and times of a chat"),
        IgnoredFiles("*.json", "settings"),
        IgnoredFiles("*.backup", "a copy of the editor's state"),
        IgnoredFiles("ai-tracking/*", "which lines were written by a model"),
        IgnoredFiles("globalStorage/*", "state of extensions"),
        IgnoredFiles("workspaceStorage/*", "state of extensions"),
        IgnoredFiles("snippets/*", "snippets of the user"),
        IgnoredFiles("extensions/*", "extensions"),
        IgnoredFiles("History/*", "versions of edited files"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=5,
    indexable=True,
)


class CursorAdapter:
    """Reads Cursor's sessions. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["cursor"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the agent's folders, and the platform's settings folder of the editor."""
        named = [host.path_from(name) for name in ("CURSOR_CONFIG_DIR", "CURSOR_DATA_DIR")]
        paths = [*(path for path in named if path), host.home / ".cursor"]
        settings = host.xdg_config_home()
        # Elsewhere file names may ignore case, and `cursor` would be the editor's own folder.
        if host.platform not in ("darwin", "win32"):
            paths.append(settings / "cursor")
        return list(dict.fromkeys([*paths, settings / "Cursor" / "User"]))

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield chats, transcripts, databases and lists of titles. Links are not followed."""
        del cwd
        finder = _SourceFinder(root)
        yield from finder.chats()
        yield from finder.transcripts()
        yield from finder.databases()
        yield from finder.unreadable_folders()

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        until: int | None = None,  # noqa: ARG002 - no session refers to the history of another
    ) -> Iterator[Item]:
        """Yield the items of one source."""
        bodies = has_bodies(want)
        if source.path.suffix in (".jsonl", ".txt"):
            from amux.adapters.cursor.transcripts import read_transcript

            return read_transcript(source, bodies=bodies)
        from amux.adapters._kit.sqlite import read_items

        if source.role == "names":
            return read_items(source.path, _titles)
        if source.path.name == CHAT_FILE:
            from amux.adapters.cursor.chats import ChatStore

            return read_items(
                source.path, lambda found: ChatStore(found, source.path).items(bodies=bodies)
            )
        return read_items(
            source.path, lambda found: _sessions(found, source.path, bodies=bodies, only=only)
        )


# finding


class _SourceFinder:
    """Finds the sources below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listing = Folders()

    def chats(self) -> Iterator[SourceRef]:
        """Yield `chats/<md5 of the working directory>/<session id>/store.db`."""
        for bucket in self._folders(self._root / "chats"):
            for chat in self._folders(bucket):
                for path in self._files(chat):
                    if path.name == CHAT_FILE:
                        yield self._source(path, CHAT_META_FILE, session_id=chat.name)

    def transcripts(self) -> Iterator[SourceRef]:
        """Yield transcripts, stored flat or in one folder per session, and those of sub-agents."""
        for project in self._folders(self._root / "projects"):
            top = project / TRANSCRIPTS
            for folder in (top, *self._folders(top)):
                for path in self._files(folder):
                    if path.suffix in (".jsonl", ".txt"):
                        yield self._transcript(path)
                for path in self._files(folder / "subagents"):
                    if path.suffix == ".jsonl":
                        yield self._transcript(path, parent=folder.name)

    def databases(self) -> Iterator[SourceRef]:
        """Yield the specification's databases, the editor's states and the list of titles."""
        for path in self._files(self._root / "sessions"):
            if path.suffix in _DATABASES:
                yield self._source(path, WORKSPACE_FILE)
        workspaces = self._folders(self._root / "workspaceStorage")
        for folder in (self._root / "globalStorage", *workspaces):
            for path in self._files(folder):
                if path.name == STATE_FILE:
                    yield self._source(path, WORKSPACE_FILE)
        for path in self._files(self._root / "ai-tracking"):
            if path.name == TRACKING_FILE:
                yield self._source(path).replace(role="names")

    def unreadable_folders(self) -> Iterator[SourceRef]:
        """Yield the unreadable folders, each once."""
        return iter(dict.fromkeys(self._listing.sources(NAME, self._root, group=str(self._root))))

    def _source(self, path: Path, *companions: str, session_id: str | None = None) -> SourceRef:
        return SourceRef(
            agent=NAME,
            path=path,
            root=self._root,
            group=str(self._root),
            session_id=session_id,
            companions=tuple(path.with_name(name) for name in companions),
        )

    def _transcript(self, path: Path, *, parent: str | None = None) -> SourceRef:
        source = self._source(path, session_id=path.stem).replace(superseded=True)
        return source if parent is None else source.replace(role="subagent", parent=parent)

    def _folders(self, folder: Path) -> list[Path]:
        found = self._listing.entries(folder)
        return sorted(Path(one.path) for one in found if one.is_dir(follow_symlinks=False))

    def _files(self, folder: Path) -> list[Path]:
        found = self._listing.entries(folder)
        return sorted(Path(one.path) for one in found if one.is_file(follow_symlinks=False))


# reading


def _sessions(
    connection: sqlite3.Connection, path: Path, *, bodies: bool, only: str | None
) -> list[Item]:
    """Return the items of all known tables: conversations, workspace chats, the specification's."""
    from amux.adapters._kit.spec_tables import has_spec_tables, read_spec_tables
    from amux.adapters.cursor.editor import (
        has_conversations,
        has_items,
        read_conversations,
        read_workspace,
    )

    found: list[Item] = []
    is_known = False
    if has_conversations(connection):
        is_known = True
        found += read_conversations(connection, str(path), bodies=bodies, only=only)
    if has_items(connection):
        is_known = True
        found += read_workspace(connection, path, bodies=bodies, only=only)
    if has_spec_tables(connection):
        is_known = True
        found += read_spec_tables(connection, str(path), bodies=bodies, only=only)
    if not is_known:
        message = "the database has none of Cursor's tables"
        found.append(Problem(code="unknown-format", message=message, path=str(path)))
    return found


def _titles(connection: sqlite3.Connection) -> list[Item]:
    """Return the titles of conversations in the editor's tracking database."""
    from amux.adapters._kit.tables import columns, rows
    from amux.adapters._kit.values import text

    table, names = "conversation_summaries", ("conversationId", "title")
    notes: list[TitleNote] = []
    if set(names).issubset(columns(connection, table)):
        for row in rows(connection, table, names):
            id, title = text(row["conversationId"]), text(row["title"])
            if id is not None and title is not None:
                notes.append(TitleNote(text=title, session_id=id))
    facts = Facts(session_id=table, addressable=False, attributed=False, notes=tuple(notes))
    return [Head(session_id=table), facts]


ADAPTER: Final = CursorAdapter()
