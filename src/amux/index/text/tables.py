"""The tables of the full-text index.

The tokenizer `ascii` with these settings changes nothing: every character beyond ASCII is a part of
a token, and A to Z are folded. `model.words` has decided before what a token is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from amux.index.errors import TextIndexBusyError, TextIndexDamagedError, TextIndexError
from amux.model.words import JOINT

SCHEMA: Final = 6
"""Raised whenever tables or tokens change: an index of another number counts as damaged."""

_HASH_BYTES: Final = 16 << 20
_MERGED_PAGES: Final = 300
_PAGE_BYTES: Final = 4050

_TABLES: Final = """
CREATE TABLE text_units (
    unit INTEGER PRIMARY KEY, docs INTEGER NOT NULL, unplaced INTEGER NOT NULL,
    dead INTEGER NOT NULL
);
CREATE INDEX text_units_unplaced ON text_units (unit) WHERE unplaced;
CREATE INDEX text_units_dead ON text_units (unit) WHERE dead;
CREATE TABLE text_new_words (
    text_table TEXT, word TEXT, PRIMARY KEY (text_table, word)
) WITHOUT ROWID;
CREATE TABLE text_state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

REBUILD_HINT: Final = "delete it: nothing is lost, the next search builds a new one"

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NOT_DAMAGE: Final = frozenset({
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
})  # fmt: skip


def create_schema(db: sqlite3.Connection) -> None:
    """Create the tables unless they exist."""
    if _has_schema(db):
        return
    with transaction(db):
        if not _has_schema(db):
            for statement in _TABLES.split(";"):
                db.execute(statement)
            for table in ("spoken", "tools"):
                _create_table(db, table)
            db.execute("INSERT INTO text_state VALUES ('schema', ?)", (SCHEMA,))


def set_option(db: sqlite3.Connection, table: str, option: str, value: int | None = None) -> None:
    """Change an option of an FTS5 table, or run a command, which has no value."""
    db.execute(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (option, value))  # noqa: S608 - constants


def merge_portion(db: sqlite3.Connection, table: str, *, begin: bool) -> bool:
    """Merge some pages of a table; return whether there is more to do.

    `begin` selects all segments for merging. Merged segments give their pages back at once, so that
    the file does not grow to twice its size.
    """
    before = db.total_changes
    set_option(db, table, "merge", -_MERGED_PAGES if begin else _MERGED_PAGES)
    return db.total_changes - before > 1  # the command itself counts as a change


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[None]:
    """Write in one transaction, or in the one that is open."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


@contextmanager
def snapshot(db: sqlite3.Connection) -> Generator[None]:
    """Read one state of the database with several statements."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.rollback()


def _has_schema(db: sqlite3.Connection) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'text_state'").fetchone()
    if found is None:
        return False
    row = db.execute("SELECT value FROM text_state WHERE key = 'schema'").fetchone()
    if row != (SCHEMA,):
        raise TextIndexDamagedError("the index was written by another version", hint=REBUILD_HINT)
    return True


def _create_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(
        f"CREATE VIRTUAL TABLE {table} USING fts5(body, content='', columnsize=0,"
        f""" tokenize="ascii tokenchars '_{JOINT}'")"""
    )
    db.execute(f"CREATE VIRTUAL TABLE {table}_words USING fts5vocab({table}, row)")
    db.execute(f"CREATE TABLE {table}_blocks (id INTEGER PRIMARY KEY, words TEXT NOT NULL)")
    db.execute(
        f"CREATE VIRTUAL TABLE {table}_trigrams USING fts5(words, content='', columnsize=0,"
        " detail=none, tokenize='trigram case_sensitive 1')"
    )
    for each in (table, f"{table}_trigrams"):
        set_option(db, each, "pgsz", _PAGE_BYTES)
        set_option(db, each, "hashsize", _HASH_BYTES)
        set_option(db, each, "usermerge", 2)


@contextmanager
def sqlite_errors() -> Generator[None]:
    """Raise SQLite's errors as `TextIndexError`s."""
    try:
        yield
    except (sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
        # Wrong use, or the connection was closed meanwhile: the file is not damaged.
        raise TextIndexError(f"the index cannot be used ({error})") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _BUSY:
            hint = "try again in a moment"
            raise TextIndexBusyError("the index is being written to", hint=hint) from error
        if code in _NOT_DAMAGE:
            raise TextIndexError(f"the index cannot be used ({error})") from error
        message = f"the index is damaged ({error})"
        raise TextIndexDamagedError(message, hint=REBUILD_HINT) from error
    except UnicodeDecodeError as error:
        raise TextIndexDamagedError(f"the index holds invalid text ({error})") from error
