"""Writers die at any moment; what they were told is stored stays stored."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from child_processes import SOURCES

from amux.client import create_client
from amux.errors import ConflictError
from amux.rollout.records import NewRecord, Record, decode_line
from amux.store.file_log.log import FileLog
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle

WRITERS = Path(__file__).parent / "crash_writers.py"


class Zygote:
    """A process that forks writers, so that 500 of them start in seconds."""

    def __init__(self, base: Path, thread_id: str) -> None:
        (base / "acks").mkdir()
        self._process = subprocess.Popen(
            [sys.executable, str(WRITERS), str(base), thread_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
        )

    def start(self, name: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"start {name}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@contextmanager
def zygote(base: Path, thread_id: str) -> Generator[Zygote]:
    process = Zygote(base, thread_id)
    try:
        yield process
    finally:
        process.close()


def crash(base: Path, *, rounds: int, writers: int, seed: int) -> None:
    draw = random.Random(seed)
    store = SessionStore(base / "store")
    thread_id = store.start(cwd="/").thread_id
    path = store.open(thread_id).path
    size = 0
    with zygote(base, thread_id) as forks:
        for number in range(rounds):
            names = [f"{number}.{writer}" for writer in range(writers)]
            pids = [forks.start(name) for name in names]
            time.sleep(draw.uniform(0.0, 0.03))  # the moment of death is what is tested
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            store.open(thread_id)
            assert path.stat().st_size >= size  # nothing was rewritten
            size = path.stat().st_size
    check(base, store, thread_id)
    store.close()


def check(base: Path, store: SessionStore, thread_id: str) -> None:
    found: dict[str, dict[int, list[Record]]] = defaultdict(lambda: defaultdict(list))
    records = list(store.log.read(thread_id))
    for record in records[1:]:
        payload = record.payload
        found[payload["writer"]][payload["n"]].append(record)
    total = 0
    for ack in (base / "acks").iterdir():
        acknowledged = [int(line) for line in ack.read_text().splitlines()]
        batches = found[ack.name]
        total += len(acknowledged)
        assert sorted(batches)[: len(acknowledged)] == acknowledged  # every acknowledged append
        assert len(batches) - len(acknowledged) in (0, 1)  # and at most one more
        for number, batch in batches.items():
            assert [each.payload["part"] for each in batch] == list(range(1 + number % 3))
            assert {len(each.payload["text"]) for each in batch} == {(number * 7919) % 20_000}
    assert total > 0
    sequence = [record.seq for record in records]
    assert sequence == sorted(set(sequence))
    assert list(store.log.read_back(thread_id)) == records[::-1]
    appended = store.resume(thread_id).message("user", "after the crash")
    last = store.open(thread_id).path.read_bytes().splitlines()[-1]
    line = decode_line(last)
    assert line is not None
    assert line.record.id == appended  # on a line of its own


@pytest.mark.parametrize("writers", [1, 8])
def test_writers_killed_a_few_times_lose_nothing_acknowledged(tmp_path: Path, writers: int) -> None:
    crash(tmp_path, rounds=20 // writers + 5, writers=writers, seed=writers)


@pytest.mark.slow
@pytest.mark.parametrize("writers", [1, 8])
def test_writers_killed_500_times_lose_nothing_acknowledged(tmp_path: Path, writers: int) -> None:
    crash(tmp_path, rounds=500, writers=writers, seed=500 + writers)


def cut_at(path: Path, offset: int) -> None:
    with path.open("rb+") as file:
        file.truncate(offset)


def numbered_batches(log: FileLog) -> Path:
    """Write a thread with batches of one to four records; return its file."""
    thread = SessionStore(log).start(cwd="/")
    for number in range(4):
        thread.append_all(
            [NewRecord(payload={"n": number, "part": part}) for part in range(number + 1)]
        )
    return thread.path


def batch_ends(data: bytes) -> dict[int, int]:
    """The offsets at which the last line of a batch is whole, and the records up to there.

    The line break after it may be missing.
    """
    ends: dict[int, int] = {}
    position = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        position += len(line)
        first, last = json.loads(line)["batch"]
        if first == last:
            ends[position - 1] = number
    return ends


def test_a_file_cut_at_any_byte_keeps_its_whole_batches(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "a")
    path = numbered_batches(log)
    thread_id = path.stem[-36:]
    records, data = list(log.read(thread_id)), path.read_bytes()
    ends = batch_ends(data)
    log.close()
    for offset in range(min(ends), len(data) + 1):
        path.write_bytes(data[:offset])
        whole = records[: max(number for end, number in ends.items() if end <= offset)]
        again = FileLog(tmp_path / "a")
        assert list(again.read(thread_id)) == whole
        assert list(again.read_back(thread_id)) == whole[::-1]
        added: list[str] = []
        found = whole
        for number in range(3):  # what was cut off stays so, whatever follows it
            batch = [NewRecord(payload={"after": number})] * (number + 1)
            added += again.append(thread_id, batch).ids
            assert path.read_bytes().startswith(data[:offset])
            found = list(again.read(thread_id))
            assert found[: len(whole)] == whole
            assert [record.id for record in found[len(whole) :]] == added
            assert list(again.read_back(thread_id)) == found[::-1]
        assert len({record.seq for record in found}) == len(found)
        parents = [record.parent_id for record in found[len(whole) :]]
        assert parents == [whole[-1].id if len(whole) > 1 else None, *added[:-1]]
        again.close()


def test_what_another_process_cut_off_stays_hidden_from_a_writer_that_was_there_before(
    tmp_path: Path,
) -> None:
    """The writer has read the file; another one dies within a batch; the writer goes on."""
    log = FileLog(tmp_path / "a")
    path = numbered_batches(log)
    thread_id = path.stem[-36:]
    before = path.read_bytes()
    with closing(FileLog(tmp_path / "a")) as other:
        other.append(thread_id, [NewRecord(payload="cut")] * 3)
    after = path.read_bytes()
    known = list(log.read(thread_id))[:11]
    for offset in range(len(before), len(after) - 1):
        path.write_bytes(after[:offset])
        log.append(thread_id, [NewRecord(payload="next")])
        log.append(thread_id, [NewRecord(payload="last")])
        found = list(log.read(thread_id))
        assert found[:11] == known
        assert [record.payload for record in found[11:]] == ["next", "last"]
        assert all(each.seq < other.seq for each, other in pairwise(found))
    log.close()


@pytest.mark.parametrize("is_known", [False, True])
def test_a_writer_that_names_the_last_record_it_saw_can_append_after_a_batch_was_cut_off(
    tmp_path: Path, is_known: bool
) -> None:
    log = FileLog(tmp_path / "a")
    path = numbered_batches(log)
    thread_id = path.stem[-36:]
    before = path.read_bytes()
    with closing(FileLog(tmp_path / "a")) as other:
        other.append(thread_id, [NewRecord(payload="cut")] * 3)
    path.write_bytes(path.read_bytes()[:-2])
    if not is_known:  # a new process
        log.close()
        log = FileLog(tmp_path / "a")
    seen = next(log.read_back(thread_id)).seq
    assert seen == before.count(b"\n")
    with pytest.raises(ConflictError):
        log.append(thread_id, [NewRecord(payload="late")], expect=seen - 1)
    for number in range(2):
        seen = log.append(thread_id, [NewRecord(payload=number)], expect=seen).head
    assert [record.payload for record in log.read_back(thread_id)][:2] == [1, 0]
    log.close()


def test_a_process_that_forks_shares_its_store_with_its_child(tmp_path: Path) -> None:
    script = """
import os, sys
from amux.client import create_client
from amux.rollout.records import NewRecord
from amux.store.file_log.log import FileLog
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle
log = FileLog(sys.argv[1], fsync="never")
thread_id = SessionStore(log).start(cwd="/").thread_id
log.append(thread_id, [NewRecord(payload="before")])
child = os.fork()
for number in range(500):
    log.append(thread_id, [NewRecord(payload=[bool(child), number])] * 2)
if not child:
    os._exit(0)
os.waitpid(child, 0)
print(thread_id)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        check=True,
    )
    with closing(FileLog(tmp_path / "s")) as log:
        records = list(log.read(done.stdout.strip()))
        assert log.verify(done.stdout.strip()) == []
    assert [record.seq for record in records] == list(range(1, 2003))
    for name in (False, True):
        found = [record.payload[1] for record in records[2:] if record.payload[0] is name]
        assert found == [number for number in range(500) for _ in range(2)]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_garbled_line_of_a_batch_costs_that_line(tmp_path: Path, lost: int) -> None:
    store = SessionStore(tmp_path / "store")
    thread = store.start(cwd="/", title="T")
    texts = ["apple", "banana", "cherry"]
    thread.append_all([NewRecord(payload={"role": "user", "content": each}) for each in texts])
    thread.message("user", "after")
    store.close()
    data = thread.path.read_bytes()
    thread.path.write_bytes(data.replace(texts[lost].encode() + b'"', b"\x00" * 7))
    kept = [each for each in (*texts, "after") if each != texts[lost]]
    with closing(SessionStore(tmp_path / "store")) as again:
        contents = [each["content"] for each in again.open(thread.thread_id).conversation()]
        assert contents == kept
        assert [len(again.search(each)) for each in texts] == [each in kept for each in texts]
        (report,) = again.doctor().threads
        assert [problem.code for problem in report.problems] == ["bad-line", "bad-record"]
        again.resume(thread.thread_id).message("user", "later")
        assert len(again.open(thread.thread_id).conversation()) == 4
    client = create_client(home=tmp_path, env={"AMUX_STORE": str(tmp_path / "store")})
    session = client.sessions.get("amux", thread.thread_id)
    assert [message.content for message in session.messages] == [*kept, "later"]
    assert {problem.code for problem in session.problems} == {"bad-line", "bad-record"}


def test_a_last_line_without_its_line_break_is_a_record_for_everyone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "store")
    thread = store.start(cwd="/")
    thread.append_all(
        [NewRecord(payload={"role": "user", "content": each}) for each in ("apple", "banana")]
    )
    store.close()
    data = thread.path.read_bytes().removesuffix(b"\n")
    thread.path.write_bytes(data)

    def check(*contents: str) -> None:
        with closing(SessionStore(tmp_path / "store")) as again:
            view = again.open(thread.thread_id)
            assert [each["content"] for each in view.conversation()] == [*contents]
            assert [each.payload["content"] for each in view.tail(1)] == [contents[-1]]
            assert again.list()[0].message_count == len(contents)
            assert len(again.search("banana")) == 1
            assert again.doctor().is_healthy
        client = create_client(home=tmp_path, env={"AMUX_STORE": str(tmp_path / "store")})
        session = client.sessions.get("amux", thread.thread_id)
        assert [message.content for message in session.messages] == [*contents]
        assert session.problems == ()

    check("apple", "banana")
    assert thread.path.read_bytes() == data  # reading changes nothing
    with closing(SessionStore(tmp_path / "store")) as again:
        follower = again.open(thread.thread_id).follow(after=1)
        followed = [next(follower).payload["content"] for _ in range(2)]
        ThreadHandle(again.log, thread.thread_id, "run").message("user", "cherry")
        assert [*followed, next(follower).payload["content"]] == ["apple", "banana", "cherry"]
    assert thread.path.read_bytes().startswith(data + b"\n")
    check("apple", "banana", "cherry")


def test_a_garbled_line_costs_that_line(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s")
    thread = store.start(cwd="/")
    for number in range(5):
        thread.message("user", f"message {number}")
    lines = thread.path.read_bytes().splitlines(keepends=True)
    lines[3] = b"\xff\x00 garbage {" + lines[3][10:]
    thread.path.write_bytes(b"".join(lines))
    store.close()
    again = SessionStore(tmp_path / "s")
    contents = [message["content"] for message in again.open(thread.thread_id).conversation()]
    assert contents == [f"message {number}" for number in (0, 1, 3, 4)]
    (report,) = again.doctor().threads
    assert [problem.code for problem in report.problems] == ["bad-line"]
    assert len(again.search("message")) == 4
    again.close()


@pytest.mark.parametrize("damage", ["deleted", "garbled", "truncated", "foreign"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: str) -> None:
    store = SessionStore(tmp_path / "s")
    thread = store.start(cwd="/", title="T", namespace="n", key=("k",))
    thread.message("user", "needle in the haystack")
    before = store.list(), store.search("needle")
    store.close()
    database = tmp_path / "s" / "state.db"
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    if damage == "deleted":
        database.unlink()
    elif damage == "garbled":
        data = bytearray(database.read_bytes())
        data[100:] = os.urandom(len(data) - 100)
        database.write_bytes(data)
    elif damage == "truncated":
        database.write_bytes(database.read_bytes()[:5000])
    else:
        database.write_bytes(b"this is no database" * 1000)
    again = SessionStore(tmp_path / "s")
    assert (again.list(), again.search("needle")) == before
    assert again.find("n", ("k",)) is not None
    again.close()


def test_a_file_edited_by_hand_is_noticed(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s")
    thread = store.start(cwd="/")
    thread.message("user", "original words")
    assert len(store.search("original")) == 1
    text = thread.path.read_text()
    store.close()
    thread.path.write_text(text.replace("original", "edited"))
    again = SessionStore(tmp_path / "s")
    assert again.search("original") == []
    assert len(again.search("edited")) == 1
    again.close()
