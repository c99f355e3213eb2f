"""One store for all agents: layout, failures of the disk, damage, and migrations."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from child_processes import child_env
from in_threads import at_once

from amux.config import (
    ManagedAgentsSettings,
    ManagedDroidSettings,
    ManagedStorageSettings,
    SessionManagementSettings,
)
from amux.errors import SessionNotFoundError, StoreError
from amux.host import Clock, Host
from amux.managed.database import MIGRATIONS
from amux.managed.state import SessionState, SessionStatus
from amux.managed.store import UnifiedSessionStore

START = datetime(2026, 3, 1, tzinfo=UTC)


class StillClock(Clock):
    """Time passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def elapsed(self) -> float:
        return self.seconds

    def wait(self, event: Event, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def host(tmp_path: Path, clock: StillClock) -> Host:
    return Host(tmp_path / "home", clock=clock)


def settings(base: Path) -> SessionManagementSettings:
    return SessionManagementSettings(storage=ManagedStorageSettings(base_path=str(base)))


def state_of(number: int, **fields: Any) -> SessionState:
    given: dict[str, Any] = {
        "id": f"{number:08x}-0000-4000-8000-000000000000",
        "agent_type": "droid",
        "created_at": START,
        "updated_at": START + timedelta(seconds=number),
    }
    return SessionState(**{**given, **fields})


def rows(path: Path, query: str = "SELECT id, status FROM sessions ORDER BY id") -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_a_state_comes_back_as_it_was_stored(host: Host, tmp_path: Path) -> None:
    state = state_of(
        1,
        agent_session_id="abc",
        status=SessionStatus.IDLE,
        metadata={"cwd": "/src", "deep": {"list": [1, "ü", None]}},
        prompt_history=("one", "two\n'\"; DROP TABLE sessions"),
        resume_count=3,
        last_error="e",
    )
    UnifiedSessionStore(host, settings(tmp_path)).add(state)
    assert UnifiedSessionStore(host, settings(tmp_path)).get(state.id) == state


def test_metadata_are_in_sqlite_and_the_rest_in_files_for_the_owner_alone(
    host: Host, tmp_path: Path
) -> None:
    base, elsewhere = tmp_path / "base", tmp_path / "elsewhere"
    chosen = SessionManagementSettings(
        storage=ManagedStorageSettings(base_path=str(base), sqlite_db="own.db"),
        agents=ManagedAgentsSettings(droid=ManagedDroidSettings(path=str(elsewhere))),
    )
    store = UnifiedSessionStore(host, chosen)
    droid, claude = state_of(1), state_of(2, agent_type="claude")
    for state in (droid, claude):
        store.add(state)
        store.save_document(state, {"peculiar": state.agent_type})
    store.close()
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert files == {
        "base/own.db",
        f"base/claude/{claude.id}.json",
        f"elsewhere/{droid.id}.json",
    }
    for path in (base, elsewhere, base / "own.db", elsewhere / f"{droid.id}.json"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_an_id_cannot_be_used_twice(host: Host, tmp_path: Path) -> None:
    UnifiedSessionStore(host, settings(tmp_path)).add(state_of(1, last_error="first"))
    with pytest.raises(StoreError):
        UnifiedSessionStore(host, settings(tmp_path)).add(state_of(1, last_error="second"))
    assert UnifiedSessionStore(host, settings(tmp_path)).get(state_of(1).id).last_error == "first"


def test_the_mapping_knows_former_ids_of_the_agent(host: Host, tmp_path: Path) -> None:
    store = UnifiedSessionStore(host, settings(tmp_path))
    store.add(state_of(1))
    assert store.find_native("droid", "native-1") is None
    store.update(state_of(1).id, lambda s: s.replace(agent_session_id="native-1"))
    store.update(state_of(1).id, lambda s: s.replace(agent_session_id="native-2"))
    assert store.find_native("droid", "native-1") == state_of(1).id
    assert store.find_native("droid", "native-2") == state_of(1).id
    assert store.find_native("claude", "native-2") is None


def test_reading_creates_nothing(host: Host, tmp_path: Path) -> None:
    store = UnifiedSessionStore(host, settings(tmp_path / "base"))
    assert store.list() == []
    assert not (tmp_path / "base").exists()


def test_the_store_goes_on_in_memory_and_writes_in_order_when_the_disk_returns(
    host: Host, tmp_path: Path, clock: StillClock
) -> None:
    alerts: list[str] = []
    file = tmp_path / "base"
    file.write_text("a file where the directory should be")
    store = UnifiedSessionStore(host, settings(file), alert=alerts.append)
    store.add(state_of(1))
    store.add(state_of(2))
    store.save_document(state_of(1), {"peculiar": 1})
    store.update(state_of(1).id, lambda s: s.replace(status=SessionStatus.ACTIVE))
    store.update(state_of(1).id, lambda s: s.replace(status=SessionStatus.IDLE))
    store.delete(state_of(2).id)
    assert (store.is_degraded, len(alerts)) == (True, 1)
    assert [each.status for each in store.list()] == [SessionStatus.IDLE]
    assert store.document("droid", state_of(1).id)["peculiar"] == 1
    file.unlink()
    store.add(state_of(3))  # too early for another attempt
    assert store.is_degraded
    clock.seconds += 2
    store.add(state_of(4))
    assert (store.is_degraded, len(alerts)) == (False, 1)
    assert rows(file / "sessions.db") == [
        (state_of(1).id, "idle"),
        (state_of(3).id, "created"),
        (state_of(4).id, "created"),
    ]
    assert (file / "droid" / f"{state_of(1).id}.json").exists()


def test_a_full_queue_drops_replaced_states_first_and_then_refuses(
    host: Host, tmp_path: Path
) -> None:
    file = tmp_path / "base"
    file.write_text("no directory")
    store = UnifiedSessionStore(host, settings(file), alert=lambda _: None, queue_limit=3)
    store.add(state_of(1))
    for number in range(20):
        error = str(number)
        store.update(state_of(1).id, lambda s: s.replace(last_error=error))  # noqa: B023 - at once
    store.add(state_of(2))
    store.add(state_of(3))
    with pytest.raises(StoreError, match="cannot be written"):
        store.add(state_of(4))
    file.unlink()
    assert store.flush()
    assert rows(file / "sessions.db", "SELECT id, last_error FROM sessions ORDER BY id") == [
        (state_of(1).id, "19"),
        (state_of(2).id, None),
        (state_of(3).id, None),
    ]


def test_lost_changes_are_told_at_the_end(host: Host, tmp_path: Path) -> None:
    alerts: list[str] = []
    (tmp_path / "base").write_text("no directory")
    store = UnifiedSessionStore(host, settings(tmp_path / "base"), alert=alerts.append)
    store.add(state_of(1))
    store.close()
    assert [alert.partition(" changes")[0] for alert in alerts][1:] == ["1"]


@pytest.mark.parametrize("damage", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_database_is_set_aside_and_made_anew_from_the_files(
    host: Host, tmp_path: Path, damage: bytes
) -> None:
    store = UnifiedSessionStore(host, settings(tmp_path))
    for number, native in ((1, "native-1"), (2, None)):
        state = state_of(number, agent_session_id=native, metadata={"cwd": "/src"})
        store.add(state)
        store.save_document(state, {"pairs": [{"id": native, "prompt": "first"}]})
    store.close()
    (tmp_path / "sessions.db").write_bytes(damage)
    alerts: list[str] = []
    again = UnifiedSessionStore(host, settings(tmp_path), alert=alerts.append)
    found = {each.id: each for each in again.list()}
    first, second = found[state_of(1).id], found[state_of(2).id]
    assert (first.agent_session_id, first.status) == ("native-1", SessionStatus.IDLE)
    assert (first.cwd, first.prompt_history) == ("/src", ("first",))
    assert (second.agent_session_id, second.status) == (None, SessionStatus.CRASHED)
    assert again.find_native("droid", "native-1") == first.id
    assert "2 managed sessions were restored" in alerts[0]
    assert [p.read_bytes() for p in tmp_path.glob("sessions.db.damaged-*")] == [damage]


def test_a_database_of_the_first_version_is_migrated_without_losing_a_row(
    host: Host, tmp_path: Path
) -> None:
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    for statement in MIGRATIONS[0]:
        connection.execute(statement)
    moment = START.isoformat()
    connection.execute(
        "INSERT INTO sessions VALUES (?, 'droid', 'native', ?, ?, 'idle', '{}', '[\"p\"]', 2,"
        " NULL)",
        (state_of(1).id, moment, moment),
    )
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    store = UnifiedSessionStore(host, settings(tmp_path))
    assert store.get(state_of(1).id).prompt_history == ("p",)
    assert store.find_native("droid", "native") == state_of(1).id
    store.close()
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_a_newer_database_is_left_alone(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="version 99"):
        UnifiedSessionStore(host, settings(tmp_path)).list()
    assert path.read_bytes() == before


def test_threads_lose_no_change(host: Host, tmp_path: Path) -> None:
    store = UnifiedSessionStore(host, settings(tmp_path))
    store.add(state_of(1))

    def count_up() -> None:
        for _ in range(20):
            store.update(state_of(1).id, lambda s: s.replace(resume_count=s.resume_count + 1))

    at_once([count_up] * 8)
    assert store.get(state_of(1).id).resume_count == 160


def test_processes_lose_no_change(host: Host, tmp_path: Path) -> None:
    UnifiedSessionStore(host, settings(tmp_path)).add(state_of(1))
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from amux.config import ManagedStorageSettings, SessionManagementSettings\n"
        "from amux.host import Host\n"
        "from amux.managed.store import UnifiedSessionStore\n"
        "storage = ManagedStorageSettings(base_path=sys.argv[1])\n"
        "store = UnifiedSessionStore(Host(Path(sys.argv[1])),"
        " SessionManagementSettings(storage=storage))\n"
        "for _ in range(25):\n"
        "    store.update(sys.argv[2], lambda s: s.replace(resume_count=s.resume_count + 1))\n"
        "assert not store.is_degraded\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path), state_of(1).id]
    workers = [subprocess.Popen(words, env=child_env(HOME=os.devnull)) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0, 0]
    assert UnifiedSessionStore(host, settings(tmp_path)).get(state_of(1).id).resume_count == 100


def test_an_unknown_session_is_not_found(host: Host, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        UnifiedSessionStore(host, settings(tmp_path)).get("nobody")
