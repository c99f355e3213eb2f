r"""Reads sessions of Hermes Agent, by Nous Research.

Store     $HERMES_HOME, else ~/.hermes (on Windows also %LOCALAPPDATA%\hermes): state.db, and
          another one in each folder of profiles/; older files in sessions/ beside it, which are
          used only for sessions that the database does not have
Formats   SQLite; every version adds columns, and those that exist are read (schema 1 to 22);
          snapshots and logs in files (to 0.15). Evidence: docs/agents/hermes.md
Counting  totals by session and, from 0.19, by model; no single calls
Title     the title given by a person or by the agent, else the first prompt

One id in several profiles names several sessions, unless they began at the same time: then a
profile was cloned. `<profile>/<id>` names each of them; that of the root is called `default`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Head,
    IgnoredFiles,
    Item,
    ListFilter,
    Selection,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Inside, is_folder, read_closed
from amux.adapters._kit.jsonl import unreadable
from amux.adapters.hermes.injected import INJECTED_TEXTS
from amux.adapters.hermes.profiles import DATABASE, profile_of
from amux.errors import ParseError
from amux.host import Host
from amux.launchers import LAUNCHERS
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem

if TYPE_CHECKING:
    import sqlite3

    from amux.adapters._kit.related import LinkKeys, Named, RelatedSessions
    from amux.adapters.hermes.database import DatabaseContents

T = TypeVar("T")

NAME: Final = "hermes"
INFO: Final = AgentInfo(
    name=NAME,
    label="Hermes Agent",
    cli_command="hermes",
    python_package="hermes-agent",
    capabilities=Capabilities(session_persistence="sqlite", can_resume=True),
    ignored_files=(
        IgnoredFiles("state.db-*", "a journal of the database"),
        IgnoredFiles("profiles/*/state.db-*", "a journal of a profile's database"),
        IgnoredFiles("*request_dump_*.json", "a request that failed"),
        IgnoredFiles("*sessions/sessions.json", "which chat uses which session"),
        IgnoredFiles("*cache/*", "working files"),
        IgnoredFiles("*logs/*", "diagnostics"),
        IgnoredFiles("*memories/*", "the agent's notes"),
        IgnoredFiles("*skills/*", "skills of the user and the agent"),
        IgnoredFiles("*config.yaml", "settings"),
        IgnoredFiles("*.env", "credentials: never opened"),
        IgnoredFiles("*auth.json", "credentials: never opened"),
        IgnoredFiles("*.hermes_history", "prompts as they were typed"),
    ),
    evidence="seen: 0.13.0, 0.16.0, 0.19.0; documented: schema 1 to 11; docs/agents/hermes.md",
    injected_texts=INJECTED_TEXTS,
    revision=7,
    indexable=True,
)


class HermesAdapter:
    """Reads Hermes sessions. Stateless."""

    info = INFO
    command = CommandLine(LAUNCHERS["hermes"])

    def roots(self, host: Host) -> Sequence[Path]:
        """Return HERMES_HOME, else the agent's default folders, without accessing the disk."""
        moved = host.path_from("HERMES_HOME")
        if moved is not None:
            return [moved]
        default = host.home / ".hermes"
        if host.platform != "win32":
            return [default]
        local = host.path_from("LOCALAPPDATA") or host.home / "AppData" / "Local"
        return [local / "hermes", default]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield databases and older session files of the root and of every profile in it."""
        del cwd
        from amux.adapters.hermes.legacy_files import files_by_session

        inside = Inside(root)
        for folder, store in _stores(inside):
            if DATABASE in store:
                yield SourceRef(agent=NAME, path=store[DATABASE], root=root, group=str(folder))
            files = files_by_session(inside.entries(store.get("sessions")).values())
            for session_id, (path, *others) in files.items():
                yield SourceRef(
                    agent=NAME,
                    path=path,
                    root=root,
                    session_id=session_id,
                    group=str(folder),
                    superseded=True,
                    companions=tuple(others),
                )
        yield from inside.folders.sources(NAME, root, group=str(root))

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of a source; `until` is unused, as no session refers to another."""
        del until
        if source.role == "names":
            yield from read_closed(source)
        elif source.path.name == DATABASE:
            chosen = None if only is None else (only,)
            yield from _read_database(source, want=want, only=chosen)
        else:
            from amux.adapters.hermes.legacy_files import read_files

            paths = (source.path, *source.companions)
            yield from read_files(paths, bodies=has_bodies(want), profile=profile_of(source))

    def can_select(self, source: SourceRef) -> bool:
        """Return whether the source is a database; older files are read whole."""
        return source.path.name == DATABASE

    def select(self, sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
        """Select by the tables of sessions; no session has calls of another one."""
        from amux.adapters._kit.sql_selection import select_in_databases
        from amux.adapters.hermes.lineage import candidates_sql

        return select_in_databases(sources, candidates_sql, list_filter)

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Yield the items of some sessions, with the statements that read all of them."""
        if source.path.name != DATABASE:
            return self.read(source, want="facts")
        return _read_database(source, want="facts", only=chosen)

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the sessions of a database."""
        from amux.adapters._kit.related import Named, query_database
        from amux.adapters.hermes.lineage import sessions_in

        ids = query_database(source, sessions_in)
        profile = profile_of(source)
        return None if ids is None else [Named(id, (profile.alias(id),)) for id in ids]

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Select parents and children; an older file names neither and is matched by its id.

        The name of a session in its profile is a key as well.
        """
        from amux.adapters._kit.related import SharedKeys, all_link_keys

        link_keys = all_link_keys(sources, _links_of)
        return None if link_keys is None else SharedKeys(link_keys, session_id)

    def native_search(
        self, root: Path, terms: Sequence[str], *, limit: int
    ) -> Iterator[tuple[str, float]]:
        """Yield `(session id, score)` from the database's full-text index, best first.

        A session matches if one text contains all terms. An id that begins with `memory:` is that
        of a note of the agent that belongs to no session.
        """
        from amux.adapters.hermes.search import search_store

        wanted = [term for term in terms if term.strip() and "\0" not in term]
        if wanted:
            found = self._query_all(root, lambda one: search_store(one, wanted, limit=limit))
            yield from sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def not_in_native_index(self, root: Path) -> Iterator[str]:
        """Yield sessions with reasoning, accents or other text that the index may not find."""
        from amux.adapters.hermes.search import sessions_to_read

        return self._query_all(root, sessions_to_read)

    def _query_all(self, root: Path, query: Callable[[sqlite3.Connection], list[T]]) -> Iterator[T]:
        """Yield the results of a query on each database of a root."""
        from amux.adapters._kit.sqlite import read_foreign

        for source in self.discover(root):
            if source.path.name != DATABASE:
                continue
            try:
                yield from read_foreign(source.path, query)
            except (ParseError, OSError):
                continue  # a list reports a database that cannot be read


def _links_of(source: SourceRef) -> LinkKeys | None:
    from amux.adapters._kit.related import by_name, query_database
    from amux.adapters.hermes.lineage import links_in

    is_database = source.path.name == DATABASE
    keys = query_database(source, links_in) if is_database else by_name(source)
    if keys is None or source.role == "names":
        return keys
    profile = profile_of(source)
    return {id: (profile.alias(id), *links) for id, links in keys.items()}


def _stores(inside: Inside) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Yield the root and its profiles, which have their own databases, with the paths in each."""
    own = inside.entries(inside.root)
    yield inside.root, own
    for profile in filter(is_folder, inside.entries(own.get("profiles")).values()):
        yield profile, inside.entries(profile)


def _read_database(source: SourceRef, *, want: Want, only: Sequence[str] | None) -> Iterator[Item]:
    bodies = has_bodies(want)
    path = source.path
    try:
        listed = _query(source, only=only, bodies=bodies)
        yield from listed.problems
        for facts in listed.facts:
            if only is None and bodies:  # one session at a time keeps memory bounded
                yield from _session(source, facts)
            else:
                yield from _items(facts, listed.messages.get(facts.session_id, ()))
    except ParseError as error:
        message = f"the file cannot be read as a database ({error.__cause__ or error})"
        yield Problem(code="unknown-format", message=message, path=str(path))
    except OSError as error:
        yield unreadable(path, error)


def _session(source: SourceRef, listed: Facts) -> Iterator[Item]:
    """Yield the items of one of the listed sessions, with its messages."""
    found = _query(source, only=(listed.session_id,), bodies=True)
    yield from found.problems
    if not found.facts:  # invalid bytes of the id were replaced, so it differs from the stored id
        message = "the messages of a session cannot be found: its id is not valid text"
        yield Problem(code="bad-record", message=message, path=str(source.path))
    for facts in found.facts or [listed]:
        yield from _items(facts, found.messages.get(facts.session_id, ()))


def _query(source: SourceRef, *, only: Sequence[str] | None, bodies: bool) -> DatabaseContents:
    from amux.adapters._kit.sqlite import read_foreign
    from amux.adapters._kit.tables import SelectedIds
    from amux.adapters.hermes.database import read_sessions

    path, profile = source.path, profile_of(source)
    chosen = None if only is None else SelectedIds(tuple(only))
    return read_foreign(
        path,
        lambda connection: read_sessions(
            connection, str(path), profile=profile, only=chosen, bodies=bodies
        ),
    )


def _items(facts: Facts, messages: Iterable[SessionMessage]) -> Iterator[Item]:
    yield Head(session_id=facts.session_id)
    yield from facts.problems
    yield from messages
    yield from facts.calls
    yield facts


ADAPTER: Final = HermesAdapter()
