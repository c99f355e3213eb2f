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
            meta text NOT NULL,
            copied bigint NOT NULL DEFAULT 0,
            head bigint NOT NULL,
            item_id text,
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
        "CREATE INDEX threads_active ON threads (archived, coalesce(last_message_at, created_at))",
        "CREATE INDEX threads_parent ON threads (parent) WHERE parent IS NOT NULL",
        "CREATE INDEX threads_forked_from ON threads (forked_from) WHERE forked_from IS NOT NULL",
        """CREATE TABLE records (
            thread_id text NOT NULL REFERENCES threads ON DELETE CASCADE,
            seq bigint NOT NULL,
            id text NOT NULL,
            type text NOT NULL,
            parent_id text,
            at timestamptz NOT NULL,
            payload text NOT NULL,
            blobs text[] NOT NULL DEFAULT '{}',
            role text,
            body text,
            words tsvector,
            pairs text[],
            active boolean NOT NULL DEFAULT true,
            PRIMARY KEY (thread_id, seq),
            UNIQUE (thread_id, id)
        )""",
        "CREATE INDEX records_id ON records (id)",
        "CREATE INDEX records_words ON records USING gin (words) WHERE body IS NOT NULL",
        "CREATE INDEX records_pairs ON records USING gin (pairs) WHERE pairs IS NOT NULL",
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
)
"""The statements of each version of the tables, in order."""


def migrate(connection: Connection[Any], schema: str) -> None:
    """Create or update the tables of a schema; raise `StoreError` if their version is newer."""
    name = sql.Identifier(schema)
    with connection.transaction():
        connection.execute(
            "SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(f"amux {schema}".encode()),)
        )
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
        row = connection.execute("SELECT version FROM schema_version").fetchone()
        version = 0 if row is None else int(row[0])
        if version > len(_MIGRATIONS):
            raise StoreError(
                f"the tables in schema `{schema}` have version {version}; "
                f"this version of amux knows up to {len(_MIGRATIONS)}",
                hint="update amux",
            )
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement.encode())
        if row is None:
            connection.execute("INSERT INTO schema_version VALUES (%s)", (len(_MIGRATIONS),))
        elif version < len(_MIGRATIONS):
            connection.execute("UPDATE schema_version SET version = %s", (len(_MIGRATIONS),))
