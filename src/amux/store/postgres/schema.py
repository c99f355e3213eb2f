"""The tables of the PostgreSQL backend, and their migrations.

A store has a schema of its own in a database. Migrations are an ordered list; they run under an
advisory lock, so that many processes may start at the same time. A released migration never
changes: a new one follows it.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from psycopg import Connection, sql

from amux.errors import StoreError

_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE threads (
            thread_id text PRIMARY KEY,
            copied bigint NOT NULL DEFAULT 0,
            head bigint NOT NULL,
            item_id text,
            indexed bigint NOT NULL DEFAULT 0,
            created_at timestamptz NOT NULL,
            updated_at timestamptz NOT NULL,
            agent text NOT NULL,
            source text NOT NULL,
            namespace text NOT NULL,
            key text,
            payload_format text NOT NULL,
            kind text NOT NULL,
            parent text,
            forked_from text,
            cwd text NOT NULL,
            model text,
            user_id text,
            title text UNIQUE,
            tags text[] NOT NULL DEFAULT '{}',
            preview text NOT NULL DEFAULT '',
            last_message_at timestamptz,
            message_count bigint NOT NULL DEFAULT 0,
            turn_count bigint NOT NULL DEFAULT 0,
            tool_call_count bigint NOT NULL DEFAULT 0,
            input_tokens bigint NOT NULL DEFAULT 0,
            output_tokens bigint NOT NULL DEFAULT 0,
            cache_read_tokens bigint NOT NULL DEFAULT 0,
            cache_write_tokens bigint NOT NULL DEFAULT 0,
            cost_nusd bigint NOT NULL DEFAULT 0,
            archived boolean NOT NULL DEFAULT false,
            ended_at timestamptz,
            end_reason text,
            UNIQUE (namespace, key)
        ) WITH (fillfactor = 70)""",
        "CREATE INDEX threads_parent ON threads (parent) WHERE parent IS NOT NULL",
        "CREATE INDEX threads_forked_from ON threads (forked_from) WHERE forked_from IS NOT NULL",
        """CREATE TABLE records (
            thread_id text NOT NULL,
            seq bigint NOT NULL,
            id text NOT NULL,
            type text NOT NULL,
            parent_id text,
            at timestamptz NOT NULL,
            payload text NOT NULL,
            blobs text[] NOT NULL DEFAULT '{}',
            PRIMARY KEY (thread_id, seq),
            UNIQUE (id, thread_id)
        )""",
        """CREATE TABLE texts (
            thread_id text NOT NULL,
            seq bigint NOT NULL,
            role text NOT NULL,
            body text NOT NULL,
            content_length integer NOT NULL,
            words tsvector NOT NULL,
            pairs text[],
            active boolean NOT NULL,
            PRIMARY KEY (thread_id, seq),
            FOREIGN KEY (thread_id, seq) REFERENCES records ON DELETE CASCADE
        )""",
        "CREATE INDEX texts_words ON texts USING gin (words)",
        "CREATE INDEX texts_pairs ON texts USING gin (pairs) WHERE pairs IS NOT NULL",
        """CREATE TABLE leases (
            thread_id text PRIMARY KEY REFERENCES threads ON DELETE CASCADE,
            token text NOT NULL,
            owner text NOT NULL,
            expires_at timestamptz NOT NULL,
            pid bigint,
            host text
        )""",
        """CREATE TABLE blobs (
            digest text PRIMARY KEY,
            data bytea NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now()
        )""",
        """CREATE TABLE stored_values (
            key text PRIMARY KEY,
            parts text[] NOT NULL,
            data bytea NOT NULL,
            version text NOT NULL,
            updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
        )""",
    ),
    ("ALTER TABLE threads ADD COLUMN last_call text",),
    (  # `parts` of all words instead of `pairs` of some: the next search fills the table again
        "TRUNCATE texts",
        "ALTER TABLE texts DROP COLUMN pairs, ADD COLUMN parts text[] NOT NULL",
        "CREATE INDEX texts_parts ON texts USING gin (parts)",
        "UPDATE threads SET indexed = 0",
    ),
)
"""The statements of each version of the tables, in order."""


def migrate(connection: Connection[Any], schema: str) -> None:
    """Create or update the tables of a schema; raise `StoreError` if their version is newer.

    Tables that are up to date need no right to create any.
    """
    name = sql.Identifier(schema)
    if _version(connection, schema) == len(_MIGRATIONS):
        return
    with connection.transaction():
        connection.execute(
            "SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(f"amux {schema}".encode()),)
        )
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
        version = _version(connection, schema)
        if version > len(_MIGRATIONS):
            raise StoreError(
                f"the tables in schema `{schema}` have version {version}; "
                f"this version of amux knows up to {len(_MIGRATIONS)}",
                hint="update amux",
            )
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement.encode())
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (%s)", (len(_MIGRATIONS),))


def _version(connection: Connection[Any], schema: str) -> int:
    """Return the version of the tables in a schema; 0 if there are none."""
    table = sql.Identifier(schema, "schema_version")
    name = table.as_string(connection)
    if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() == (None,):
        return 0
    row = connection.execute(sql.SQL("SELECT version FROM {}").format(table)).fetchone()
    return 0 if row is None else int(row[0])
