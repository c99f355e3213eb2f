"""Repairs of a damaged database: full-text tables, and a schema that cannot be read.

The full-text tables are derived data, so damage to them never costs a message: they are created
anew. If the schema itself cannot be parsed, a copy of the database is put aside first, and the
entries of the full-text tables are taken out of the schema.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from amux.errors import StoreError
from amux.store.session_db import fulltext, schema

_FILES: Final = ("", "-wal")
_SHADOWS: Final = ("data", "idx", "content", "docsize", "config")


def rebuild_fulltext(connection: sqlite3.Connection) -> int:
    """Create the full-text tables anew from the messages. Return the number of tables."""
    rebuilt = 0
    for table in fulltext.TABLES:
        try:
            fulltext.drop(connection, table)
        except sqlite3.DatabaseError as error:
            if fulltext.is_unsupported(error):
                continue
            _drop_unread(connection, table)
        rebuilt += fulltext.create(connection, table)
    return rebuilt


def repair_schema(path: Path, stamp: str) -> None:
    """Take the full-text tables out of a schema that cannot be read, after copying the database.

    Raises `StoreError`, and changes nothing, if the schema cannot be read even then.
    """
    copy = path.with_name(f"{path.name}.damaged-{stamp}")
    copied = [suffix for suffix in _FILES if Path(f"{path}{suffix}").exists()]
    try:
        for suffix in copied:
            shutil.copy2(f"{path}{suffix}", f"{copy}{suffix}")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            _take_out_fulltext(connection)
            with suppress(sqlite3.Error):
                connection.execute("VACUUM")  # the pages of tables that could not be dropped
    except (sqlite3.Error, OSError) as error:
        for suffix in copied:
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
        raise StoreError(f"`{path}` is damaged beyond repair: {error}") from error
    logging.getLogger("amux").warning("%s was damaged and is repaired; %s is a copy", path, copy)


def _take_out_fulltext(connection: sqlite3.Connection) -> None:
    """Remove the full-text tables, and check that the schema can be read then."""
    connection.execute("PRAGMA writable_schema = ON")  # else no statement can be prepared
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table in fulltext.TABLES:
            _drop_unread(connection, table)
        connection.execute("SELECT COUNT(*) FROM sessions JOIN messages ON 0").fetchone()
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _drop_unread(connection: sqlite3.Connection, table: str) -> None:
    """Remove a full-text table whose module cannot open it: its entry first, then its parts."""
    _forget(connection, (table, *schema.triggers_of(table)))
    for part in _SHADOWS:
        name = f"{table}_{part}"
        try:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        except sqlite3.DatabaseError:
            _forget(connection, (name,))


def _forget(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Delete entries of the schema; the pages of a table are lost until the next VACUUM."""
    connection.execute("PRAGMA writable_schema = ON")
    try:
        connection.executemany(
            "DELETE FROM sqlite_master WHERE :name IN (name, tbl_name)",
            [{"name": name} for name in names],
        )
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
