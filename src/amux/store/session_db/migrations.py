"""Brings a database to the current schema, one version at a time, without losing a row.

Missing tables, columns and indexes are added by comparing the database with the declared schema,
which changes nothing the second time. A versioned step exists only for what a comparison cannot
express. Each step is a transaction of its own that also raises the version, so an interrupted
upgrade goes on where it stopped, and two processes can upgrade at once.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from amux.errors import StoreError
from amux.store.session_db import fulltext, repair, schema, titles
from amux.store.session_db.connection import DatabaseFile, is_damage

_UNVERSIONED: Final = 0
"""The version of a database whose creation was interrupted before it recorded one."""


def prepare(file: DatabaseFile) -> fulltext.Fulltext:
    """Create or upgrade the database, and return the full-text tables that can be used.

    Raises `StoreError` for a database of another program or of a later version.
    """
    version = file.read(lambda connection: check_version(connection, file.path))
    if file.read_only:
        if version != schema.VERSION or not file.read(_has_all_columns):
            raise StoreError(
                f"`{file.path}` has schema version {version or 'none'} and is opened read-only",
                hint=f"open it once for writing: that upgrades it to {schema.VERSION}",
            )
    else:
        file.use_wal()
        if version != schema.VERSION or not file.read(_is_complete):
            _upgrade(file)
    usable = find_fulltext(file)
    if usable.lacking:
        logging.getLogger("amux").warning(
            "%s: this SQLite library cannot use %s; searches that need it read every message",
            *(file.path, " and ".join(usable.lacking)),
        )
    return usable


def check_version(connection: sqlite3.Connection, path: Path) -> int | None:
    """Return the schema version; None for an empty database.

    Raises `StoreError` for a database of another program or of a later version.
    """
    names = _names(connection)
    if not names:
        return None
    tables = (schema.SCHEMA_VERSION, schema.SESSIONS, schema.MESSAGES)
    if not all(_has_first_columns(connection, table) for table in tables):
        raise StoreError(f"`{path}` is a database of another program", hint="name another file")
    version = _version(connection)
    if version is None or not _UNVERSIONED <= version <= schema.VERSION:
        raise StoreError(
            f"`{path}` has schema version {version}, and this version of amux knows "
            f"versions up to {schema.VERSION}",
            hint="open it with the program that wrote it, or update amux",
        )
    return version


def find_fulltext(file: DatabaseFile) -> fulltext.Fulltext:
    """Return the usable full-text tables, after rebuilding damaged ones.

    A table that SQLite lacks the module for loses its triggers, because no write could succeed.
    """
    try:
        usable = file.read(lambda connection: fulltext.find_usable(connection, _names(connection)))
    except StoreError as error:
        if not is_damage(error):
            raise
        if file.read_only:
            return fulltext.Fulltext(words=False, trigrams=False)
        file.write(repair.rebuild_fulltext)
        usable = file.read(lambda connection: fulltext.find_usable(connection, _names(connection)))
    if usable.lacking and not file.read_only:
        file.write(lambda connection: fulltext.drop_triggers(connection, usable.lacking))
    return usable


def _upgrade(file: DatabaseFile) -> None:
    while file.write(lambda connection: _next_step(connection, file.path)):
        pass
    file.write(_complete)


def _next_step(connection: sqlite3.Connection, path: Path) -> bool:
    """Apply one step and record its version. Return whether another step may follow."""
    version = check_version(connection, path)
    if version is None:
        _complete(connection)
        connection.execute("INSERT INTO schema_version(version) VALUES (?)", (schema.VERSION,))
        return False
    if version == schema.VERSION:
        return False
    _add_missing(connection)
    step = _STEPS.get(version + 1)
    if step is not None:
        step(connection)
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version(version) VALUES (?)", (version + 1,))
    return True


def _complete(connection: sqlite3.Connection) -> None:
    """Add everything that the declared schema has and the database lacks."""
    _add_missing(connection)
    _make_titles_unique(connection)
    for index in schema.INDEXES:
        connection.execute(schema.create_index(index))
    fulltext.create_missing(connection, _names(connection))


def _add_missing(connection: sqlite3.Connection) -> None:
    for table in schema.TABLES:
        connection.execute(schema.create_table(table))
        known = _columns(connection, table.name)
        for column in table.columns:
            if column.name not in known:
                connection.execute(
                    f"ALTER TABLE {table.name} ADD COLUMN {column.name} {column.declaration}"
                )


def _make_titles_unique(connection: sqlite3.Connection) -> None:
    """Create the unique index, after numbering the titles that several sessions have."""
    if schema.TITLE_INDEX.name not in _names(connection):
        titles.number_duplicates(connection)
        connection.execute(schema.create_index(schema.TITLE_INDEX))


def _index_all_texts(connection: sqlite3.Connection) -> None:
    """Replace the full-text tables over `content` by tables that hold tool calls as well.

    This contains step 10, which added the table of trigrams.
    """
    for table in fulltext.TABLES:
        fulltext.create(connection, table)


_STEPS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {
    4: _make_titles_unique,
    11: _index_all_texts,
}


def _is_complete(connection: sqlite3.Connection) -> bool:
    names = _names(connection)
    indexes = all(index.name in names for index in schema.INDEXES)
    return indexes and fulltext.is_complete(names) and _has_all_columns(connection)


def _has_all_columns(connection: sqlite3.Connection) -> bool:
    return all(
        {column.name for column in table.columns} <= _columns(connection, table.name)
        for table in schema.TABLES
    )


def _has_first_columns(connection: sqlite3.Connection, table: schema.Table) -> bool:
    first = {column.name for column in table.columns if column.since == 1}
    return first <= _columns(connection, table.name)


def _names(connection: sqlite3.Connection) -> Collection[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    query = "SELECT name FROM pragma_table_info(?)"
    return {name for (name,) in connection.execute(query, (table,))}


def _version(connection: sqlite3.Connection) -> int | None:
    versions = [version for (version,) in connection.execute("SELECT version FROM schema_version")]
    if not versions:
        return _UNVERSIONED
    return versions[0] if len(versions) == 1 and isinstance(versions[0], int) else None
