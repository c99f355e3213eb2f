"""Builds Cursor's stores: chats, the editor's state, the specification's tables."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from amux.adapters.cursor import ADAPTER
from amux.client import Client, create_client

Json = dict[str, Any]

START = 1_794_770_000_000  # Unix milliseconds
CHAT = "5b1d3c1e-0001-4000-8000-000000000001"
SPEC_TABLES = """
CREATE TABLE sessions (id {key} PRIMARY KEY, title TEXT, workspace TEXT, created_at INTEGER);
CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id {key}, role TEXT, content TEXT,
  model TEXT, input_tokens INTEGER, output_tokens INTEGER, created_at INTEGER);
"""


def client_on(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def execute(path: Path, script: str, rows: Iterable[tuple[str, tuple[Any, ...]]] = ()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(script)
        for statement, values in rows:
            connection.execute(statement, values)
    return path


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes([*encoded, value])


def field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(value)) + value


class Chat:
    """A `store.db` in the making."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def blob(self, data: bytes) -> bytes:
        digest = hashlib.sha256(data).digest()
        self.blobs[digest.hex()] = data
        return digest

    def leaf(self, role: str, content: Any, **more: Any) -> bytes:
        return self.blob(json.dumps({"role": role, "content": content, **more}).encode())

    def node(self, *children: bytes, subtrees: Iterable[bytes] = ()) -> bytes:
        inner = b"".join(field(1, child) for child in children)
        return self.blob(inner + b"".join(field(2, tree) for tree in subtrees))

    def write(
        self, home: Path, root: bytes, *, id: str = CHAT, plain: bool = False, **meta: Any
    ) -> Path:
        record = {"agentId": id, "latestRootBlobId": root.hex(), "createdAt": START, **meta}
        text = json.dumps(record)
        rows: list[tuple[str, tuple[Any, ...]]] = [
            ("INSERT INTO blobs VALUES (?, ?)", one) for one in self.blobs.items()
        ]
        value = text if plain else text.encode().hex()
        rows.append(("INSERT INTO meta VALUES ('0', ?)", (value,)))
        tables = "CREATE TABLE meta (key, value); CREATE TABLE blobs (id PRIMARY KEY, data)"
        return execute(home / ".cursor" / "chats" / "abc" / id / "store.db", tables, rows)


def query(text: str) -> list[Json]:
    return [{"type": "text", "text": f"<user_query>\n{text}\n</user_query>"}]


def said(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def write_transcript(home: Path, id: str, lines: Iterable[Json], *, flat: bool = False) -> Path:
    place = home / ".cursor" / "projects" / "src-app" / "agent-transcripts"
    path = (place if flat else place / id) / f"{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(role: str, content: list[Json]) -> Json:
    return {"role": role, "message": {"content": content}}


def write_state(home: Path, values: dict[str, Any], *, table: str = "cursorDiskKV") -> Path:
    """The editor's global state; values that are no text or bytes become JSON."""
    path = home / ".config" / "Cursor" / "User" / "globalStorage" / "state.vscdb"
    return execute_state(path, values, table=table)


def execute_state(path: Path, values: dict[str, Any], *, table: str) -> Path:
    rows = [
        (
            f"INSERT INTO {table} VALUES (?, ?)",
            (key, value if isinstance(value, str | bytes | None) else json.dumps(value)),
        )
        for key, value in values.items()
    ]
    tables = "CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB);"
    return execute(path, tables + "CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)", rows)


def composer(id: str, bubbles: Iterable[str], **more: Any) -> dict[str, Any]:
    headers = [{"bubbleId": bubble} for bubble in bubbles]
    record = {"createdAt": START, "fullConversationHeadersOnly": headers, **more}
    return {f"composerData:{id}": record}
