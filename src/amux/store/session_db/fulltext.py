"""The full-text tables: created, filled, kept small, and rebuilt from the messages.

There is one table of words and one of trigrams. Triggers keep both in step with `messages`. An
SQLite library may lack FTS5 or the trigram tokenizer: the table concerned then has no triggers, so
that writing works, and searching reads the messages. The next library that has the module finds the
triggers missing and fills the table again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from amux.store.session_db import schema

_MERGED_PAGES: Final = 500
"""The most pages that one merge writes, so that no write waits long."""

_UNSUPPORTED: Final = ("no such module: fts5", "no such tokenizer")

TABLES: Final = {schema.WORDS: schema.words_table, schema.TRIGRAMS: schema.trigrams_table}
"""The full-text tables with the functions that return their statements."""


class Fulltext(NamedTuple):
    """Which full-text tables this process can use, in the order of `TABLES`."""

    words: bool
    trigrams: bool

    @property
    def lacking(self) -> list[str]:
        """The names of the tables that cannot be used."""
        return [name for name, found in zip(TABLES, self, strict=True) if not found]


def is_complete(names: Collection[str]) -> bool:
    """Return whether the names of a schema include both tables and all triggers."""
    return all(_has_table(table, names) for table in TABLES)


def create_missing(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Create and fill the tables that are missing or lack a trigger, where SQLite supports them."""
    for table in TABLES:
        if not _has_table(table, names):
            create(connection, table)


def create(connection: sqlite3.Connection, table: str) -> bool:
    """Create a table anew, with its triggers, and fill it. Return False if SQLite lacks it."""
    try:
        drop(connection, table)
        for statement in TABLES[table]():
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if not is_unsupported(error):
            raise
        drop_triggers(connection, [table])
        return False
    connection.execute(
        f"INSERT INTO {table}(rowid, content) "
        f"SELECT m.id, {schema.indexed_text(table, 'm')} FROM messages m ORDER BY m.id"
    )
    return True


def drop(connection: sqlite3.Connection, table: str) -> None:
    """Remove a table and its triggers."""
    drop_triggers(connection, [table])
    connection.execute(f"DROP TABLE IF EXISTS {table}")


def drop_triggers(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Remove the triggers of tables, after which they are out of step."""
    for table in tables:
        for trigger in schema.triggers_of(table):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")


def find_usable(connection: sqlite3.Connection, names: Collection[str]) -> Fulltext:
    """Return the tables that exist and that this SQLite library can read."""
    return Fulltext(*(_is_usable(connection, table, names) for table in TABLES))


def is_unsupported(error: sqlite3.Error) -> bool:
    """Return whether an error says that the SQLite library lacks a module or a tokenizer."""
    return str(error).startswith(_UNSUPPORTED)


def merge(connection: sqlite3.Connection, usable: Fulltext) -> None:
    """Merge a bounded part of the segments that single inserts have left."""
    for table in TABLES.keys() - usable.lacking:
        connection.execute(
            f"INSERT INTO {table}({table}, rank) VALUES ('merge', ?)",
            (_MERGED_PAGES,),
        )


def optimize(connection: sqlite3.Connection, usable: Fulltext) -> int:
    """Merge each table into one segment. Return the number of tables."""
    tables = TABLES.keys() - usable.lacking
    for table in tables:
        connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    return len(tables)


def _has_table(table: str, names: Collection[str]) -> bool:
    return table in names and all(trigger in names for trigger in schema.triggers_of(table))


def _is_usable(connection: sqlite3.Connection, table: str, names: Collection[str]) -> bool:
    if not _has_table(table, names):
        return False
    try:
        connection.execute(f"SELECT rowid FROM {table} LIMIT 0")
    except sqlite3.OperationalError as error:
        if is_unsupported(error):
            return False
        raise
    return True
