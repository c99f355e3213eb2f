"""A resume does little: it loads few modules and reads each record once."""

from __future__ import annotations

import cProfile
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from child_processes import child_env

import amux
from amux import FileSystemRollout, Record
from amux.model.problems import Problem

HEAVY = frozenset(
    {
        *("asyncio", "hmac", "http", "importlib.metadata", "logging", "multiprocessing", "queue"),
        *("random", "secrets", "shutil", "socket", "sqlite3", "subprocess", "tempfile", "zipfile"),
        *("zoneinfo", "amux.client", "amux.config", "amux.host", "amux.lifecycle.command_hooks"),
        *("amux.lifecycle.redaction", "amux.lifecycle.reset", "amux.lifecycle.router"),
        *("amux.model.session", "amux.rollout.search_text", "amux.sessions", "amux.adapters"),
        *("amux.store.file_log.index", "amux.store.memory", "amux.store.packing"),
        *("amux.store.portable", "amux.store.repair", "amux.store.session_db"),
    }
)
PROGRAM = """
import sys
import amux
session = amux.framework(sys.argv[1]).resume(sys.argv[2])
assert session.report.is_complete
assert len(session.conversation()) == 20
print(*sys.modules)
"""


def make_session(base: Path, turns: int) -> str:
    with amux.framework(base) as sm:
        session = sm.start_session(cwd=str(base))
        for number in range(turns):
            session.message("user", f"question {number}")
            session.message("assistant", "answer", usage={"input_tokens": 5}, cost_usd=0.01)
        sm.end(session)
        return session.thread_id


def test_a_resume_loads_no_module_that_it_does_not_need(tmp_path: Path) -> None:
    thread_id = make_session(tmp_path / "store", 10)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "store"), thread_id],
        env=child_env(HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert loaded & HEAVY == set()
    ours = {name for name in loaded if name.startswith("amux.")}
    assert len(ours) <= 54


class Counted(FileSystemRollout):
    """A storage that counts the records it hands out."""

    records = 0

    def read(self, thread_id: str, *, after: int = 0) -> Iterator[Record]:
        for record in super().read(thread_id, after=after):
            self.records += 1
            yield record

    def read_back(
        self,
        thread_id: str,
        *,
        before: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Record]:
        for record in super().read_back(thread_id, before=before, kinds=kinds):
            self.records += 1
            yield record

    def read_checked(self, thread_id: str) -> tuple[list[Record], list[Problem]]:
        found = super().read_checked(thread_id)
        self.records += len(found[0])
        return found


@pytest.mark.parametrize("turns", [10, 100])
def test_a_resume_reads_each_record_once(tmp_path: Path, turns: int) -> None:
    thread_id = make_session(tmp_path / "store", turns)
    storage = Counted(tmp_path / "store")
    with amux.framework(storage) as sm:
        count = sum(1 for _ in sm.store.open(thread_id).items(raw=True))
        storage.records = 0
        session = sm.resume(thread_id)
        assert storage.records == count
        assert session.cost.billing.calls == turns
        assert storage.records <= count + 1  # the record that a run continues the thread


def calls_of_a_resume(base: Path, turns: int) -> int:
    """Return how many functions a resume calls in its thread."""
    thread_id = make_session(base, turns)
    with amux.framework(base) as sm:
        profile = cProfile.Profile()
        profile.runcall(sm.resume, thread_id)
    return sum(entry.callcount for entry in profile.getstats())


def test_a_resume_calls_few_functions_per_record(tmp_path: Path) -> None:
    few = calls_of_a_resume(tmp_path / "few", 50)
    many = calls_of_a_resume(tmp_path / "many", 250)
    assert (many - few) / 400 < 42  # a turn has two records


def test_a_checkpoint_reads_only_what_is_new(tmp_path: Path) -> None:
    thread_id = make_session(tmp_path / "store", 100)
    storage = Counted(tmp_path / "store")
    with amux.framework(storage) as sm:
        session = sm.resume(thread_id)
        session.message("user", "one more")
        storage.records = 0
        sm.checkpoint(session)
        assert storage.records <= 3


def test_a_resume_writes_one_line_and_no_index(tmp_path: Path) -> None:
    base = tmp_path / "store"
    thread_id = make_session(base, 3)
    for path in base.glob("state.db*"):
        path.unlink()
    with amux.framework(base) as sm:
        path = sm.store.open(thread_id).path
        before = path.read_bytes()
        sm.resume(thread_id)
        after = path.read_bytes()
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 1
    assert list(base.glob("state.db*")) == []
