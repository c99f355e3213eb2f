"""Reads sessions of `agent`, a Go program by Nick Cecere.

Store     $XDG_CONFIG_HOME/agent or ~/.config/agent, on every platform:
          sessions/YYYYMMDD-HHMMSS-<8 hex>.jsonl; newer versions ~/.agent/sessions/sessions.db
Formats   an entry log (session, message, compaction, branch); SQLite.
          Evidence: docs/agents/agent.md
Counting  the usage of each assistant message; the database records none
Title     the first prompt
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Command,
    IgnoredFiles,
    Item,
    ListFilter,
    Selection,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._kit.folders import Inside, read_closed
from amux.adapters._kit.jsonl import unreadable
from amux.errors import ParseError
from amux.host import Host
from amux.model.message import SessionMessage
from amux.model.problems import Problem

NAME: Final = "agent"
INFO: Final = AgentInfo(
    name=NAME,
    label="agent",
    cli_command="agent",
    capabilities=Capabilities(session_persistence="file", can_resume=True),
    tier="extra",
    revision=6,
    evidence="documented: format version 1; read in the agent's source; docs/agents/agent.md",
    ignored_files=(
        IgnoredFiles("*.yaml", "settings"),
        IgnoredFiles("sessions/sessions.db-*", "a journal of the database"),
        IgnoredFiles("profiles/*", "profiles of the user"),
        IgnoredFiles("plugins/*", "plugins"),
    ),
    indexable=True,
)

_DATABASE: Final = "sessions.db"
_DATABASE_ID: Final = re.compile(r"\d{8}T\d{6}\.\d+")
_LOG_NAME: Final = re.compile(r"\d{8}-\d{6}-([0-9a-f]{8})\.jsonl")
_SHORT_ID: Final = 8  # characters of an id in a file name; the agent compares no more


class AgentAdapter:
    """Reads the sessions of `agent`. Stateless."""

    info = INFO

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the folders of entry logs and of the database, without accessing the disk."""
        settings = host.path_from("XDG_CONFIG_HOME") or host.home / ".config"
        return [settings / "agent", host.home / ".agent"]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield logs and the database. A log's name has only the beginning of the session id."""
        del cwd
        inside = Inside(root)
        for path in inside.entries(inside.entries(root).get("sessions")).values():
            if path.suffix == ".jsonl" or path.name == _DATABASE:
                short = _LOG_NAME.fullmatch(path.name)
                yield SourceRef(
                    agent=NAME,
                    path=path,
                    root=root,
                    group=str(root),
                    id_prefix=None if short is None else short[1],
                )
        yield from inside.folders.sources(NAME, root, group=str(root))

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the items of a source; `only` matters to the database, as a log has one session."""
        del until
        if source.role == "names":
            yield from read_closed(source)
        elif source.path.name == _DATABASE:
            chosen = None if only is None else (only,)
            yield from _read_database(source.path, only=chosen, bodies=has_bodies(want))
        else:
            from amux.adapters.agent.log import read_log

            yield from read_log(source.path, bodies=has_bodies(want))

    def can_select(self, source: SourceRef) -> bool:
        """Return whether the source is the database; logs are read whole."""
        return source.path.name == _DATABASE

    def select(self, sources: Sequence[SourceRef], list_filter: ListFilter) -> Selection | None:
        """Select by the table of sessions; no session has calls of another one."""
        from amux.adapters._kit.sql_selection import select_in_databases
        from amux.adapters.agent.database import candidates_sql

        return select_in_databases(sources, candidates_sql, list_filter)

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Yield the items of some sessions, with the statements that read all of them."""
        return _read_database(source.path, only=chosen, bodies=False)

    def context(self, source: SourceRef) -> tuple[list[SessionMessage], list[Problem]]:
        """Return the messages that a model gets when a log is resumed, and the problems."""
        from amux.adapters.agent.log import read_context

        return read_context(source.path)

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Return the command for the form of the id, as the program was rewritten; None to fork.

        The program creates forks only inside a chat.
        """
        del version
        said = () if prompt is None else (f"-prompt={prompt}",)
        if action == "new":
            return Command(argv=("agent", *said), cwd=cwd)
        if action == "fork" or session_id is None:
            return None
        if not _DATABASE_ID.fullmatch(session_id):
            return Command(argv=("agent", f"-session={session_id[:_SHORT_ID]}", *said), cwd=cwd)
        if prompt is None:
            return Command(argv=("agent", "chat", "--session", session_id), cwd=cwd)
        if prompt.startswith("--"):
            return None  # the program would parse the prompt as an option, and has no escape
        return Command(argv=("agent", "resume", "--session", session_id, prompt), cwd=cwd)


def _read_database(path: Path, *, only: Sequence[str] | None, bodies: bool) -> Iterator[Item]:
    from amux.adapters._kit.sqlite import read_foreign
    from amux.adapters._kit.tables import SelectedIds
    from amux.adapters.agent.database import read_database

    chosen = None if only is None else SelectedIds(tuple(only))
    try:
        yield from read_foreign(
            path,
            lambda connection: read_database(connection, str(path), only=chosen, bodies=bodies),
        )
    except ParseError as error:
        message = f"the file cannot be read as a database ({error.__cause__ or error})"
        yield Problem(code="unknown-format", message=message, path=str(path))
    except OSError as error:
        yield unreadable(path, error)


ADAPTER: Final = AgentAdapter()
