"""Builds Hermes databases of any schema version, and reads them back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from amux.adapters._base import SourceRef
from amux.adapters.hermes import ADAPTER
from amux.model.facts import Facts
from amux.testing.reading import Reading, read_source

START = 1_770_000_000.0

_SESSIONS: dict[int, str] = {
    1: """id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
        system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL,
        end_reason TEXT, message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
        input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0""",
    3: "title TEXT",
    5: """cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0,
        reasoning_tokens INTEGER DEFAULT 0, billing_provider TEXT, billing_base_url TEXT,
        billing_mode TEXT, estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT,
        cost_source TEXT, pricing_version TEXT""",
    8: "api_call_count INTEGER DEFAULT 0",
    14: "cwd TEXT, rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0",
}
_MESSAGES: dict[int, str] = {
    1: """id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
        content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
        token_count INTEGER""",
    2: "finish_reason TEXT",
    6: "reasoning TEXT, reasoning_details TEXT, codex_reasoning_items TEXT",
    7: "reasoning_content TEXT",
    14: "platform_message_id TEXT, observed INTEGER DEFAULT 0, active INTEGER NOT NULL DEFAULT 1",
    22: "compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT",
}
_USAGE = """CREATE TABLE session_model_usage (session_id TEXT NOT NULL, model TEXT NOT NULL,
    billing_provider TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT '',
    api_call_count INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0, cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0,
    cost_status TEXT, first_seen REAL, last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, task))"""
_INDEX = """CREATE VIRTUAL TABLE messages_fts USING fts5(content);
    CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts(rowid, content) VALUES (new.id, coalesce(new.content, '')
            || ' ' || coalesce(new.tool_name, '') || ' ' || coalesce(new.tool_calls, '')); END;
    CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content, tokenize='trigram');
    CREATE TRIGGER messages_fts_trigram_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts_trigram(rowid, content) VALUES (new.id, coalesce(new.content, ''));
        END;"""
_OLD_INDEX = """CREATE VIRTUAL TABLE messages_fts USING fts5(
        content, content=messages, content_rowid=id);
    CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content); END;"""


class Store:
    """A state.db of one schema version. Rows are one second apart unless told otherwise."""

    def __init__(self, folder: Path, *, version: int = 22) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "state.db"
        self._clock = START
        with self.connect() as connection:
            for table, parts in (("sessions", _SESSIONS), ("messages", _MESSAGES)):
                columns = ", ".join(sql for since, sql in parts.items() if since <= version)
                connection.execute(f"CREATE TABLE {table} ({columns})")
            if version >= 22:
                connection.execute(_USAGE)
            connection.executescript(_INDEX if version >= 11 else _OLD_INDEX)
            connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (?)", (version,))

    @classmethod
    def holding(cls, folder: Path, script: str) -> Self:
        """A database of another shape."""
        store = cls.__new__(cls)
        store.path = folder / "state.db"
        store._clock = START
        with store.connect() as connection:
            connection.executescript(script)
        return store

    def connect(self) -> closing[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        return closing(connection)

    def run(self, statement: str, *values: Any) -> None:
        with self.connect() as connection:
            connection.execute(statement, values)

    def insert(self, table: str, **cells: Any) -> int:
        names = ", ".join(cells)
        marks = ", ".join("?" for _ in cells)
        with self.connect() as connection:
            cursor = connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(cells.values())
            )
            return cursor.lastrowid or 0

    def tick(self, seconds: float = 1.0) -> float:
        self._clock += seconds
        return self._clock

    def session(self, id: str, **cells: Any) -> None:
        self.insert("sessions", **{"id": id, "source": "cli", "started_at": self.tick(), **cells})

    def usage(self, session_id: str, model: str, **cells: Any) -> None:
        self.insert("session_model_usage", session_id=session_id, model=model, **cells)

    def say(self, session_id: str, role: str, content: Any, **cells: Any) -> int:
        at = cells.pop("timestamp", None) or self.tick()
        return self.insert(
            "messages", session_id=session_id, role=role, content=content, timestamp=at, **cells
        )

    def talk(self, session_id: str, *texts: str) -> None:
        """Prompts and answers in turn."""
        for number, text in enumerate(texts):
            self.say(session_id, "assistant" if number % 2 else "user", text)

    def source(self) -> SourceRef:
        return SourceRef(agent="hermes", path=self.path, root=self.path.parent)

    def read(self) -> Reading:
        """Everything, after a check that both ways of reading agree."""
        whole = read_source(ADAPTER, self.source())
        assert read_source(ADAPTER, self.source(), "facts").facts == whole.facts
        return whole

    def facts(self) -> dict[str, Facts]:
        return {facts.session_id: facts for facts in self.read().facts}

    def one(self, id: str) -> Facts:
        return self.facts()[id]

    def said(self, id: str, *roles: str) -> list[str]:
        """What persons, model or tools said, nothing that was injected."""
        messages = self.read().by_session().get(id, [])
        wanted = roles or ("user", "assistant")
        return [m.content for m in messages if m.role in wanted and not m.synthetic]


def tool_call(id: str, name: str, **arguments: Any) -> str:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return json.dumps([{"id": id, "type": "function", "function": function}])
