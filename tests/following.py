"""Follows sessions with a simulated clock: time passes only in `wait`, actions run at set times."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from builders import NOW, PRICES

from amux.client import Client
from amux.config import Config
from amux.host import Clock, Host
from amux.model.change import SessionChange
from amux.model.message import SessionMessage

HERMES_TABLES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT,
  parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
  input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
  timestamp REAL NOT NULL, token_count INTEGER);
"""

Deed = tuple[float, Callable[[], object]]


class ScriptedClock(Clock):
    """Does each deed at its second and ends the following some quiet seconds after the last."""

    def __init__(self, deeds: Sequence[Deed] = (), *, quiet: float = 6.0) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self._deeds = sorted(((100.0 + at, deed) for at, deed in deeds), key=lambda each: each[0])
        self._end = (self._deeds[-1][0] if self._deeds else 100.0) + quiet

    def elapsed(self) -> float:
        return self.now

    def wait(self, event: Event, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        while self._deeds and self._deeds[0][0] <= self.now:
            self._deeds.pop(0)[1]()
        if self.now >= self._end:
            event.set()


def client_at(home: Path, clock: Clock) -> Client:
    host = Host(home, now=lambda: NOW, clock=clock)
    return Client(host, config=Config(prices=PRICES))


def follow(home: Path, agent: str, session_id: str, *deeds: Deed, **more: Any) -> list[Any]:
    """All changes of a session while the deeds are done."""
    clock = ScriptedClock(deeds)
    with client_at(home, clock).follow(agent, session_id, **more) as changes:
        return list(changes)


def applied(
    changes: Iterable[SessionChange], start: Sequence[SessionMessage] = ()
) -> dict[str, list[SessionMessage]]:
    """The messages a listener has who applies every change, by session."""
    sessions: dict[str, list[SessionMessage]] = {}
    for change in changes:
        messages = sessions.setdefault(change.session_id, [*start])
        match change:
            case SessionChange(kind="message", number=int(number), message=SessionMessage() as new):
                assert number == len(messages) + 1
                messages.append(new)
            case SessionChange(
                kind="updated-message", number=int(number), message=SessionMessage() as new
            ):
                assert messages[number - 1] != new
                messages[number - 1] = new
            case SessionChange(kind="replaced", number=int(number)):
                assert number <= len(messages)
                del messages[number - 1 :]
            case _:
                assert change.kind in {"problem", "ended"}
    return sessions


def texts(changes: Iterable[SessionChange]) -> list[str]:
    return [change.message.content for change in changes if change.message is not None]


def kinds(changes: Iterable[SessionChange]) -> list[str]:
    return [change.kind for change in changes]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


class HermesStore:
    """A small database of Hermes with a live write-ahead log, as the agent keeps it."""

    def __init__(self, home: Path) -> None:
        folder = home / ".hermes"
        folder.mkdir()
        self._connection = sqlite3.connect(folder / "state.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(HERMES_TABLES)
        self._clock = 1_770_000_000

    def session(self, session_id: str, **cells: Any) -> None:
        self._insert("sessions", id=session_id, source="cli", started_at=self._tick(), **cells)

    def say(self, session_id: str, role: str, text: str) -> None:
        self._insert(
            "messages", session_id=session_id, role=role, content=text, timestamp=self._tick()
        )

    def close(self) -> None:
        self._connection.close()

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _insert(self, table: str, **cells: Any) -> None:
        names, marks = ", ".join(cells), ", ".join("?" for _ in cells)
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        self._connection.execute(statement, tuple(cells.values()))
