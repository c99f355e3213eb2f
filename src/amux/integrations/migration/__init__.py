"""Moves sessions from the databases of agent frameworks into the store.

A database is recognised by its tables. A file is copied first and the copy is read, so that neither
the file nor a program that uses it notices; a database in PostgreSQL is only read. A session whose
key the store has is skipped, so that an import can be repeated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from amux.errors import AmuxError, ValidationError
from amux.integrations.migration import adk, openai_agents
from amux.integrations.migration.database import (
    SqliteRows,
    Tables,
    columns_of,
    open_copy,
    open_postgres,
)
from amux.integrations.migration.report import MigrationReport
from amux.store.session_store import SessionStore

Importer = Callable[[SessionStore, sqlite3.Connection, Tables], MigrationReport]

_POSTGRES: Final = ("postgresql://", "postgres://")
_CHECKPOINTS: Final = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint"})


def import_database(store: SessionStore, origin: Path | str) -> list[MigrationReport]:
    """Import all sessions of a SQLite file, or of a database in PostgreSQL.

    Returns one report for every framework that has tables in the database.

    Raises:
        ValidationError: No table belongs to a framework that can be imported.
        AmuxError: A package that the data needs is not installed.
    """
    if isinstance(origin, str) and origin.startswith(_POSTGRES):
        return _import_postgres(store, origin)
    with open_copy(Path(origin)) as connection:
        tables = columns_of(connection)
        importers = _importers(tables)
        if not importers:
            raise _nothing_to_import(f"`{origin}`")
        return [each(store, connection, tables) for each in importers]


def _nothing_to_import(database: str) -> ValidationError:
    return ValidationError(
        f"{database} has no sessions of a framework that amux imports",
        fields=("origin",),
        hint="databases of openai-agents, LangGraph and Google ADK are imported",
    )


def _importers(tables: Tables) -> Sequence[Importer]:
    found: list[Importer] = []
    if openai_agents.message_tables(tables):
        found.append(openai_agents.import_sessions)
    if adk.has_tables(tables):
        found.append(_import_events)
    if _has_checkpoints(tables):
        found.append(_import_checkpoints)
    return found


def _has_checkpoints(tables: Tables) -> bool:
    return tables.get("checkpoints", frozenset()) >= _CHECKPOINTS


def _import_events(
    store: SessionStore, connection: sqlite3.Connection, tables: Tables
) -> MigrationReport:
    return adk.import_sessions(store, SqliteRows(connection), tables)


def _import_checkpoints(
    store: SessionStore, connection: sqlite3.Connection, tables: Tables
) -> MigrationReport:
    return _langgraph("import_sqlite", store, connection, tables)


def _import_postgres(store: SessionStore, url: str) -> list[MigrationReport]:
    reports: list[MigrationReport] = []
    with open_postgres(url) as rows:
        tables = rows.columns()
        if adk.has_tables(tables):
            reports.append(adk.import_sessions(store, rows, tables))
    if _has_checkpoints(tables):
        reports.append(_langgraph("import_postgres", store, url))
    if not reports:
        raise _nothing_to_import("the database")
    return reports


def _langgraph(function: str, *args: object) -> MigrationReport:
    """Call a function that needs LangGraph: checkpoints name classes of Python."""
    try:
        module = import_module("amux.integrations.langgraph_import")
    except ImportError as error:
        raise AmuxError(
            f"checkpoints of LangGraph cannot be read without the package `{error.name}`",
            hint='pip install "agent-mux[langgraph]", with the packages that the graphs use',
        ) from error
    report: MigrationReport = getattr(module, function)(*args)
    return report
