"""Reads sessions of OpenCode.

Store     $XDG_DATA_HOME/opencode or ~/.local/share/opencode: opencode.db (opencode-<channel>.db),
          and the JSON files of versions before 1.2, which upgrades leave behind; $OPENCODE_DB
Formats   tables session, message, part; files of two layouts; the specification's tables sessions,
          messages, tool_calls. Evidence: docs/agents/opencode.md
Counting  one call per step, with the figures of the step, not of the message; the total decides
          whether output includes reasoning
Copies    a fork does not name its origin: a copied message has the same time, model and figures,
          but a newer id
Title     the title, unless it is the placeholder with a date; else the first prompt
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Final

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    IgnoredFiles,
    Item,
    ListFilter,
    Selection,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders
from amux.adapters.opencode.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS
from amux.model.facts import Facts
from amux.model.problems import Problem

if TYPE_CHECKING:
    import sqlite3

    from amux.adapters._kit.related import Named, RelatedSessions

NAME: Final = "opencode"
DATABASE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")

INFO: Final = AgentInfo(
    name=NAME,
    label="OpenCode",
    cli_command="opencode",
    capabilities=Capabilities(session_persistence="sqlite", can_resume=True, can_fork=True),
    evidence="seen: 0.5.29, 1.1.65, 1.18.33; described: 1.0.61, 1.2.27; docs/agents/opencode.md",
    ignored_files=(
        IgnoredFiles("auth.json", "credentials: never opened"),
        IgnoredFiles("storage/message/*", "messages of the sessions in files"),
        IgnoredFiles("storage/part/*", "parts of these messages"),
        IgnoredFiles("project/*/storage/session/message/*", "messages, before 0.6"),
        IgnoredFiles("project/*/storage/session/part/*", "parts of these messages"),
        IgnoredFiles("storage/session_diff/*", "changes to files, by session"),
        IgnoredFiles("storage/project/*", "projects"),
        IgnoredFiles("storage/todo/*", "to-do lists"),
        IgnoredFiles("storage/share/*", "published sessions and their secrets: never opened"),
        IgnoredFiles("*storage/migration", "the state of an upgrade"),
        IgnoredFiles("project/*/app.json", "a project"),
        IgnoredFiles("log/*", "diagnostics"),
        IgnoredFiles("bin/*", "programs"),
        IgnoredFiles("snapshot/*", "states of working directories"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=4,
    indexable=True,
)


class OpenCodeAdapter:
    """Reads OpenCode's sessions. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["opencode"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the data directory, and the folder of OPENCODE_DB if that is a path."""
        named = host.env.get("OPENCODE_DB", "").strip()
        # A bare name is a file in the data directory.
        is_path = named.startswith(("~", "/")) or PureWindowsPath(named).is_absolute()
        elsewhere = [host.expand(named).parent] if is_path else []
        if host.path_from("XDG_DATA_HOME") is not None:
            return list(dict.fromkeys([*elsewhere, host.xdg_data_home() / NAME]))
        # OpenCode follows the XDG convention on every platform.
        own = host.home / ".local" / "share" / NAME
        return list(dict.fromkeys([*elsewhere, own, host.xdg_data_home() / NAME]))

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield databases, then sessions in files; no name contains a working directory."""
        from amux.adapters.opencode.legacy_files import companion_folders, session_files

        del cwd
        folders = Folders()
        for entry in folders.by_name(root):
            if entry.name.endswith(DATABASE_SUFFIXES) and entry.is_file(follow_symlinks=False):
                yield SourceRef(agent=NAME, path=Path(entry.path), root=root, group=str(root))
        projects = folders.by_name(root / "project")
        for storage in (root / "storage", *(Path(one.path, "storage") for one in projects)):
            for path in session_files(storage, folders):
                yield SourceRef(
                    agent=NAME,
                    path=path,
                    root=root,
                    session_id=path.stem,
                    group=str(root),
                    superseded=True,
                    companions=partial(companion_folders, path),
                )
        yield from folders.sources(NAME, root, group=str(root))

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        until: int | None = None,  # noqa: ARG002 - forks copy history and do not refer to it
    ) -> Iterator[Item]:
        """Yield the items of a database, or of one session's files."""
        if source.path.suffix == ".json":
            from amux.adapters.opencode.legacy_files import read_files

            return read_files(source, bodies=has_bodies(want), only=only)
        chosen = None if only is None else (only,)
        return _read_database(source.path, bodies=has_bodies(want), only=chosen)

    def can_select(self, source: SourceRef) -> bool:
        """Return whether the source is a database; sessions in files are read whole."""
        return source.path.suffix in DATABASE_SUFFIXES

    def select(self, sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
        """Select by the rows of sessions and messages of the only source.

        Return None if there is any other source: a fork may be a copy of a session in it.
        """
        from amux.adapters._kit.sql_selection import select_in_databases
        from amux.adapters.opencode.selection import candidates_sql

        is_alone = len(sources) == 1 and not list_filter.named
        return select_in_databases(sources, candidates_sql, list_filter) if is_alone else None

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Yield the items of some sessions, with the statements that read all of them."""
        if source.path.suffix == ".json" or source.role == "names":
            return self.read(source, want="facts")
        return _read_database(source.path, bodies=False, only=chosen)

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the sessions of a database."""
        from amux.adapters._kit.related import Named, query_database
        from amux.adapters.opencode.selection import sessions_in

        ids = query_database(source, sessions_in)
        return None if ids is None else [Named(id) for id in ids]

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Select parents, children and sessions with an answer of the same time."""
        from amux.adapters._kit.related import LinkKeys, SharedKeys, by_name, query_database
        from amux.adapters.opencode.legacy_files import links_of_files
        from amux.adapters.opencode.selection import links_in

        link_keys: dict[SourceRef, LinkKeys] = {}
        stored: set[str] = set()  # sessions that a database has
        for source in sources:  # databases come first
            if self.can_select(source):
                found = query_database(source, links_in)
                if found is None:
                    return None
                link_keys[source] = found
                stored.update(found)
            elif source.session_id is None or source.session_id in stored:
                link_keys[source] = by_name(source)
            else:
                link_keys[source] = links_of_files(source.path)
        return SharedKeys(link_keys, session_id)


def _read_database(path: Path, *, bodies: bool, only: Sequence[str] | None) -> Iterator[Item]:
    from amux.adapters._kit.sqlite import read_items

    return read_items(path, lambda found: _items(found, path, bodies=bodies, only=only))


def _items(
    connection: sqlite3.Connection, path: Path, *, bodies: bool, only: Sequence[str] | None
) -> list[Item]:
    """Return the items of all known tables; nothing for another program's database."""
    from amux.adapters._kit.spec_tables import has_spec_tables, read_spec_tables
    from amux.adapters._kit.tables import SelectedIds, columns
    from amux.adapters.opencode.database import SessionTables

    items: list[Item] = []
    is_ours = path.name.startswith(NAME)
    if columns(connection, "session") and columns(connection, "message"):
        chosen = None if only is None else SelectedIds(tuple(only))
        items += SessionTables(connection, str(path), bodies=bodies, only=chosen).items()
        is_ours = False
    if has_spec_tables(connection):
        known = {item.session_id for item in items if isinstance(item, Facts)}
        one = None if only is None else only[0]  # selection does not support these tables
        items += read_spec_tables(connection, str(path), bodies=bodies, only=one, known=known)
        is_ours = False
    if is_ours:
        message = "the database has none of OpenCode's tables"
        items.append(Problem(code="unknown-format", message=message, path=str(path)))
    return items


ADAPTER: Final = OpenCodeAdapter()
