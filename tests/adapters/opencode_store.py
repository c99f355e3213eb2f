"""Builds OpenCode's stores, for versions and special cases that no capture contains."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from amux.adapters.opencode import ADAPTER
from amux.client import Client, create_client

Json = dict[str, Any]

START = 1_794_770_000_000  # Unix milliseconds
TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
  title TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER,
  time_archived INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
"""


def data_dir(home: Path) -> Path:
    return home / ".local" / "share" / "opencode"


def client_on(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def message_id(at: int, number: int = 1) -> str:
    """An id as OpenCode makes it: the low bits of the clock, a counter, something random."""
    return f"msg_{((at << 12) + number) & ((1 << 48) - 1):012x}Abcdefghijklmn"


def user(text: str, at: int) -> tuple[Json, list[Json]]:
    return {"role": "user", "time": {"created": at}}, [{"type": "text", "text": text}]


def tokens(input: int, output: int, *, read: int = 0, write: int = 0, **more: int) -> Json:
    return {
        "input": input,
        "output": output,
        "reasoning": 0,
        "cache": {"read": read, "write": write},
        **more,
    }


def answer(
    text: str, at: int, usage: Json, *, cost: float = 0.5, steps: bool = True, **more: Any
) -> tuple[Json, list[Json]]:
    record: Json = {
        "role": "assistant",
        "time": {"created": at, "completed": at + 10},
        "modelID": "m-large",
        "providerID": "fakeanth",
        "path": {"cwd": "/src/app"},
        "cost": cost,
        "tokens": usage,
        **more,
    }
    parts: list[Json] = [{"type": "text", "text": text}]
    if steps:
        finish = {"type": "step-finish", "tokens": usage, "cost": cost}
        parts = [{"type": "step-start"}, *parts, finish]
    return record, parts


class Database:
    """An `opencode.db`."""

    def __init__(self, home: Path, name: str = "opencode.db", *, tables: str = TABLES) -> None:
        self.home = home
        self.path = data_dir(home) / name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            connection.executescript(tables)

    def _open(self) -> closing[sqlite3.Connection]:
        """Nothing is forced to the disk: what a test makes need not survive the machine."""
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA synchronous = OFF")
        return closing(connection)

    def insert(self, table: str, **row: Any) -> Database:
        names, marks = ", ".join(row), ", ".join("?" for _ in row)
        with self._open() as connection, connection:
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])
        return self

    def session(self, id: str, *, title: str = "A title", at: int = START, **row: Any) -> Database:
        known = {"directory": "/src/app", "version": "1.18.33", "time_updated": at, **row}
        return self.insert("session", id=id, title=title, time_created=at, **known)

    def message(
        self, session: str, entry: tuple[Json, list[Json]], *, id: str | None = None
    ) -> Database:
        record, parts = entry
        created = record["time"]["created"]
        own = id or message_id(created)
        self.insert(
            "message", id=own, session_id=session, time_created=created, data=json.dumps(record)
        )
        for number, part in enumerate(parts):
            self.insert(
                "part",
                id=f"prt_{own[4:]}{number:02}",
                message_id=own,
                session_id=session,
                data=json.dumps(part),
            )
        return self


def write_session(
    home: Path,
    id: str,
    entries: list[tuple[Json, list[Json]]],
    *,
    record: Json | None = None,
    is_old: bool = False,
) -> Path:
    """The same as JSON files, in the layout of 0.6 to 1.1 or in the one before."""
    base = data_dir(home)
    if is_old:
        base = base / "project" / "src-app" / "storage" / "session"
        path, messages, parts = base / "info" / f"{id}.json", base / "message", base / "part" / id
    else:
        base = base / "storage"
        path, messages, parts = (
            base / "session" / "sha" / f"{id}.json",
            base / "message",
            base / "part",
        )
    times = {"created": START, "updated": START}
    _write(path, {"id": id, "title": "From files", "time": times, **(record or {})})
    for message, own_parts in entries:
        own = message_id(message["time"]["created"])
        _write(messages / id / f"{own}.json", {"id": own, "sessionID": id, **message})
        for number, part in enumerate(own_parts):
            name = f"prt_{number:02}"
            _write(parts / own / f"{name}.json", {"id": name, "messageID": own, **part})
    return path


def _write(path: Path, record: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
