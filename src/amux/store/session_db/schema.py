"""The tables of the session database, with the schema version in which each part appeared.

Columns and indexes are declared as data. A new database is created from the declaration, an old one
gets the columns that it lacks, and the tests build every earlier version from the same history.
Columns beyond the documented schema have `since=EXTENSION`: they are added to any database, and
programs that know only the documented schema ignore them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

VERSION: Final = 11
"""The schema version that this module writes. A database of a later version is refused."""

EXTENSION: Final = VERSION
"""The `since` of columns that the documented schema does not have."""

INLINE_FULLTEXT: Final = 11
"""The version from which on the full-text tables hold their own text."""

TRIGRAM_FULLTEXT: Final = 10
"""The version that added the table of trigrams."""

WORDS: Final = "messages_fts"
"""The full-text table of words."""

TRIGRAMS: Final = "messages_fts_trigram"
"""The full-text table of trigrams, for substrings and for scripts without spaces."""


class TableColumn(NamedTuple):
    """A column: its name, its SQL declaration, and the version that introduced it."""

    name: str
    declaration: str
    since: int = 1


class Table(NamedTuple):
    """A table: its columns in the order of creation, and its constraints."""

    name: str
    columns: tuple[TableColumn, ...]
    constraints: tuple[str, ...] = ()
    since: int = 1


class Index(NamedTuple):
    """An index on a table; the SQL after `ON`, and the version that introduced it."""

    name: str
    target: str
    unique: bool = False
    since: int = 1


SESSIONS: Final = Table(
    "sessions",
    (
        TableColumn("id", "TEXT PRIMARY KEY"),
        TableColumn("source", "TEXT NOT NULL"),
        TableColumn("user_id", "TEXT"),
        TableColumn("model", "TEXT"),
        TableColumn("model_config", "TEXT"),
        TableColumn("system_prompt", "TEXT"),
        TableColumn("parent_session_id", "TEXT"),
        TableColumn("started_at", "REAL NOT NULL"),
        TableColumn("ended_at", "REAL"),
        TableColumn("end_reason", "TEXT"),
        TableColumn("message_count", "INTEGER DEFAULT 0"),
        TableColumn("tool_call_count", "INTEGER DEFAULT 0"),
        TableColumn("input_tokens", "INTEGER DEFAULT 0"),
        TableColumn("output_tokens", "INTEGER DEFAULT 0"),
        TableColumn("cache_read_tokens", "INTEGER DEFAULT 0", since=5),
        TableColumn("cache_write_tokens", "INTEGER DEFAULT 0", since=5),
        TableColumn("reasoning_tokens", "INTEGER DEFAULT 0", since=5),
        TableColumn("billing_provider", "TEXT", since=5),
        TableColumn("billing_base_url", "TEXT", since=5),
        TableColumn("billing_mode", "TEXT", since=5),
        TableColumn("estimated_cost_usd", "REAL", since=5),
        TableColumn("actual_cost_usd", "REAL", since=5),
        TableColumn("cost_status", "TEXT", since=5),
        TableColumn("cost_source", "TEXT", since=5),
        TableColumn("pricing_version", "TEXT", since=5),
        TableColumn("title", "TEXT", since=3),
        TableColumn("api_call_count", "INTEGER DEFAULT 0", since=8),
        TableColumn("cwd", "TEXT", since=EXTENSION),
        TableColumn("rewind_count", "INTEGER NOT NULL DEFAULT 0", since=EXTENSION),
        TableColumn("archived", "INTEGER NOT NULL DEFAULT 0", since=EXTENSION),
    ),
    ("FOREIGN KEY (parent_session_id) REFERENCES sessions(id)",),
)

MESSAGES: Final = Table(
    "messages",
    (
        TableColumn("id", "INTEGER PRIMARY KEY AUTOINCREMENT"),
        TableColumn("session_id", "TEXT NOT NULL REFERENCES sessions(id)"),
        TableColumn("role", "TEXT NOT NULL"),
        TableColumn("content", "TEXT"),
        TableColumn("tool_call_id", "TEXT"),
        TableColumn("tool_calls", "TEXT"),
        TableColumn("tool_name", "TEXT"),
        TableColumn("timestamp", "REAL NOT NULL"),
        TableColumn("token_count", "INTEGER"),
        TableColumn("finish_reason", "TEXT", since=2),
        TableColumn("reasoning", "TEXT", since=6),
        TableColumn("reasoning_content", "TEXT", since=7),
        TableColumn("reasoning_details", "TEXT", since=6),
        TableColumn("codex_reasoning_items", "TEXT", since=6),
        TableColumn("codex_message_items", "TEXT", since=9),
        TableColumn("active", "INTEGER NOT NULL DEFAULT 1", since=EXTENSION),
        TableColumn("compacted", "INTEGER NOT NULL DEFAULT 0", since=EXTENSION),
    ),
)

STATE_META: Final = Table(
    "state_meta",
    (TableColumn("key", "TEXT PRIMARY KEY"), TableColumn("value", "TEXT")),
    since=VERSION,
)

SCHEMA_VERSION: Final = Table("schema_version", (TableColumn("version", "INTEGER NOT NULL"),))

TABLES: Final = (SCHEMA_VERSION, SESSIONS, MESSAGES, STATE_META)

TITLE_INDEX: Final = Index(
    "idx_sessions_title_unique", "sessions(title) WHERE title IS NOT NULL", unique=True, since=4
)

INDEXES: Final = (
    Index("idx_sessions_source", "sessions(source)"),
    Index("idx_sessions_parent", "sessions(parent_session_id)"),
    Index("idx_sessions_started", "sessions(started_at DESC)"),
    Index("idx_messages_session", "messages(session_id, timestamp)"),
    TITLE_INDEX,
)


def create_table(table: Table, version: int = VERSION) -> str:
    """Return the statement that creates a table as it was in a version."""
    parts = [f"{c.name} {c.declaration}" for c in table.columns if c.since <= version]
    body = ",\n    ".join([*parts, *table.constraints])
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n    {body}\n)"


def create_index(index: Index) -> str:
    """Return the statement that creates an index."""
    kind = "UNIQUE INDEX" if index.unique else "INDEX"
    return f"CREATE {kind} IF NOT EXISTS {index.name} ON {index.target}"


def tables_of(version: int = VERSION) -> list[str]:
    """Return the statements that create the tables and indexes of a version."""
    tables = [create_table(each, version) for each in TABLES if each.since <= version]
    return [*tables, *(create_index(each) for each in INDEXES if each.since <= version)]


def fulltext_of(version: int = VERSION) -> list[str]:
    """Return the statements that create the full-text tables of a version, with their triggers."""
    statements = [*_words(version), *_triggers(WORDS, version)]
    if version >= TRIGRAM_FULLTEXT:
        statements += [*_trigrams(version), *_triggers(TRIGRAMS, version)]
    return statements


def words_table() -> list[str]:
    """Return the statements that create the current table of words, with its triggers."""
    return [*_words(VERSION), *_triggers(WORDS, VERSION)]


def trigrams_table() -> list[str]:
    """Return the statements that create the current table of trigrams, with its triggers."""
    return [*_trigrams(VERSION), *_triggers(TRIGRAMS, VERSION)]


def triggers_of(table: str) -> tuple[str, str, str]:
    """Return the names of the triggers that keep a full-text table in step."""
    return f"{table}_insert", f"{table}_delete", f"{table}_update"


def indexed_text(table: str, row: str) -> str:
    """Return the SQL of the text that a full-text table holds for a row of `messages`.

    The tokenizer of trigrams stops at a NUL character, so the one with which structured content
    begins is left out there.
    """
    content = f"COALESCE({row}.content, '')"
    if table == TRIGRAMS:
        data = f"CAST({row}.content AS BLOB)"
        content = (
            f"CASE WHEN substr({data}, 1, 1) = x'00' THEN CAST(substr({data}, 2) AS TEXT) "
            f"ELSE {content} END"
        )
    others = (f"COALESCE({row}.{name}, '')" for name in ("tool_name", "tool_calls"))
    return " || ' ' || ".join([content, *others])


def _words(version: int) -> list[str]:
    options = "" if version >= INLINE_FULLTEXT else ", content=messages, content_rowid=id"
    return [f"CREATE VIRTUAL TABLE IF NOT EXISTS {WORDS} USING fts5(content{options})"]


def _trigrams(version: int) -> list[str]:
    options = "" if version >= INLINE_FULLTEXT else ", content=messages, content_rowid=id"
    module = f"fts5(content{options}, tokenize='trigram')"
    return [f"CREATE VIRTUAL TABLE IF NOT EXISTS {TRIGRAMS} USING {module}"]


def _triggers(table: str, version: int) -> list[str]:
    """Return the triggers of a full-text table.

    An external-content table must be told the old text of a row, with the command 'delete'; an
    inline table knows it.
    """
    if version >= INLINE_FULLTEXT:
        add = f"INSERT INTO {table}(rowid, content) VALUES (new.id, {indexed_text(table, 'new')});"
        remove = f"DELETE FROM {table} WHERE rowid = old.id;"
        changes = "UPDATE OF id, content, tool_name, tool_calls"
    else:
        add = f"INSERT INTO {table}(rowid, content) VALUES (new.id, new.content);"
        remove = (
            f"INSERT INTO {table}({table}, rowid, content) VALUES ('delete', old.id, old.content);"
        )
        changes = "UPDATE"
    actions = {"INSERT": add, "DELETE": remove, changes: f"{remove} {add}"}
    return [
        f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} ON messages BEGIN {action} END"
        for name, (event, action) in zip(triggers_of(table), actions.items(), strict=True)
    ]
