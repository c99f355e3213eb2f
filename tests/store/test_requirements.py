"""Promises of the store that no other test holds: names, processes, syncing, turns, backends."""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from child_processes import child_env

from amux.errors import StoreError, TurnInProgressError
from amux.rollout.ids import is_valid_session_id
from amux.rollout.log import ThreadLog
from amux.rollout.recorder import BackgroundRecorder
from amux.rollout.records import NewRecord, Record
from amux.store.compaction import KEPT_TOKENS, is_due, plan_compaction
from amux.store.memory import MemoryLog
from amux.store.session_store import SessionStore
from amux.testing import BackendSuite

NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-[0-9a-f-]{36}\.jsonl")


def python(code: str, *words: object, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, env=child_env(), stdout=subprocess.PIPE, text=True, **more)


# rollouts


def test_a_thousand_threads_of_one_second_have_names_of_their_own(store_folder: Path) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    store = SessionStore(store_folder, fsync="never", now=lambda: moment)
    paths = [store.start(cwd="/w").path for _ in range(1000)]
    assert len(set(paths)) == 1000
    assert all(NAME.fullmatch(path.name) for path in paths)
    assert {path.name[:27] for path in paths} == {"rollout-2026-03-01T12-00-00"}


def test_lists_windows_and_archives_need_no_database(store_folder: Path) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    clock = iter(start + timedelta(minutes=n) for n in range(1000))
    store = SessionStore(store_folder, now=lambda: next(clock))
    made = [store.start(cwd="/w") for _ in range(6)]
    for thread in made[:2]:
        store.archive(thread.thread_id)
    times = [thread.meta.created_at for thread in made]
    store.close()
    for path in store_folder.glob("state.db*"):
        path.unlink()
    with SessionStore(store_folder) as again:
        ids = [thread.thread_id for thread in made]
        assert [each.thread_id for each in again.list()] == ids[:1:-1]
        assert [each.thread_id for each in again.list(since=times[4])] == ids[:3:-1]
        assert [each.thread_id for each in again.list(archived=True)] == ids[1::-1]
        names = sorted(path.name for path in (store_folder / "sessions").rglob("rollout-*"))
        assert [name[-42:-6] for name in names] == ids[2:]


class FullDisk(MemoryLog):
    """A log whose disk is full from the third append on."""

    appended = 0
    error: Exception = StoreError("the disk is full")

    def append(self, *args: Any, **fields: Any) -> Any:
        self.appended += 1
        if self.appended > 2:
            raise self.error
        return super().append(*args, **fields)


@pytest.mark.parametrize("error", [StoreError("full"), OSError(28, "full")])
def test_an_error_of_the_background_writer_reaches_the_next_call(error: Exception) -> None:
    log = FullDisk()
    log.error = error
    recorder = BackgroundRecorder(log, SessionStore(log).start(cwd="/w").thread_id)
    for number in range(3):
        recorder.append_event({"n": number})
    with pytest.raises(type(error), match="full"):
        recorder.flush()
    recorder.append_event({"n": 3})
    with pytest.raises(type(error), match="full"):
        recorder.close()
    recorder.close()
    with pytest.raises(StoreError, match="closed"):
        recorder.append_event({"n": 4})


def test_meta_data_is_never_among_the_messages() -> None:
    store = SessionStore("memory:")
    thread = store.start(cwd="/secret-place", git_sha="0123", base_instructions="obey")
    with thread.begin_turn() as turn:
        turn.message("user", "hello")
    thread.set_title("T")
    copy = store.fork(store.resume(thread.thread_id).thread_id)
    for each in (thread, copy):
        assert each.conversation() == [{"role": "user", "content": "hello"}]


APPENDER = """
import sys
from amux import NewRecord
from amux.store.file_log.log import FileLog
log = FileLog(sys.argv[1], fsync="never")
for number in range(1000):
    log.append(sys.argv[2], [NewRecord(payload={"by": sys.argv[3], "n": number})])
"""


def test_eight_processes_append_a_thousand_lines_each(store_folder: Path) -> None:
    thread = SessionStore(store_folder).start(cwd="/w")
    children = [python(APPENDER, store_folder, thread.thread_id, name) for name in "abcdefgh"]
    for child in children:
        child.communicate()
        assert child.returncode == 0
    lines = [json.loads(line) for line in thread.path.read_bytes().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 8002))
    for name in "abcdefgh":
        own = [line["payload"]["n"] for line in lines if line["payload"].get("by") == name]
        assert own == list(range(1000))
    assert thread.path.stat().st_mode & 0o777 == 0o600
    assert thread.path.parent.stat().st_mode & 0o777 == 0o700


SYNCS = """
import os, sys
count = 0
def counting(real):
    def sync(descriptor):
        global count
        count += 1
        return real(descriptor)
    return sync
os.fsync, os.fdatasync = counting(os.fsync), counting(os.fdatasync)
from amux.store.session_store import SessionStore
thread = SessionStore(sys.argv[1], fsync=sys.argv[2]).start(cwd="/w")
begun = count
for turn in range(2):
    with thread.begin_turn() as running:
        for number in range(10):
            running.message("user", str(number))
print(begun, count - begun)
"""


@pytest.mark.parametrize(
    ("policy", "lowest", "highest"),
    [("never", 0, 0), ("turn", 3, 3), ("always", 20, 60)],  # two turns, and the directory once
)
def test_files_are_synced_as_often_as_the_policy_says(
    store_folder: Path, policy: str, lowest: int, highest: int
) -> None:
    said, _ = python(SYNCS, store_folder, policy).communicate()
    begun, later = map(int, said.split())
    assert lowest <= later <= highest
    assert (begun == 0) == (policy != "always")


OPENED = """
import sys
opened = []
sys.addaudithook(lambda name, args: name == "open" and opened.append(str(args[0])))
from amux.store.session_store import SessionStore
store = SessionStore(sys.argv[1])
print(len(store.list()))
print(sum("archived_sessions/" in path for path in opened))
"""


def test_a_list_of_current_threads_reads_no_archived_file(store_folder: Path) -> None:
    with SessionStore(store_folder) as store:
        made = [store.start(cwd="/w") for _ in range(4)]
        for thread in made[:3]:
            store.archive(thread.thread_id)
        store.list()
    assert (store_folder / "archived_sessions").is_dir()
    said, _ = python(OPENED, store_folder).communicate()
    assert said.split() == ["1", "0"]


# turns


OWNER = """
import sys, time
from amux.store.session_store import SessionStore
turn = SessionStore(sys.argv[1]).resume(sys.argv[2]).begin_turn()
turn.message("user", "half done")
print(turn.turn_id, flush=True)
sys.stdin.read()
"""


def test_a_turn_excludes_other_processes_until_its_owner_is_killed(store_folder: Path) -> None:
    thread = SessionStore(store_folder).start(cwd="/w")
    owner = python(OWNER, store_folder, thread.thread_id, stdin=subprocess.PIPE)
    assert owner.stdout is not None
    turn_id = owner.stdout.readline().strip()
    with pytest.raises(TurnInProgressError):
        thread.begin_turn()
    thread.enqueue("later")
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    with thread.begin_turn() as turn:
        assert [each.message["content"] for each in turn.pending] == ["later"]
    ends = [
        record.payload["turn_id"]
        for record in thread.items(raw=True)
        if record.payload.get("type") == "turn_interrupted"
    ]
    assert ends == [turn_id]


def test_a_running_turn_can_be_interrupted_from_elsewhere(store_folder: Path) -> None:
    thread = SessionStore(store_folder).start(cwd="/w")
    turn = thread.begin_turn()
    other = SessionStore(store_folder).resume(thread.thread_id)
    assert other.interrupt() is True
    with other.begin_turn(), pytest.raises(StoreError, match="interrupted"):
        turn.message("user", "too late")
    assert other.interrupt() is False
    turn.end()


def _plan(roles: str, **options: Any) -> tuple[int, int]:
    names = {"u": "user", "a": "assistant", "t": "tool"}
    records = [
        Record(
            seq=n + 2,
            id=str(n),
            type="response_item",
            at=datetime(2026, 3, 1, tzinfo=UTC),
            text=json.dumps({"type": "message", "role": names[role], "content": "x" * 400}),
        )
        for n, role in enumerate(roles)
    ]
    plan = plan_compaction(records, "amux", **options)
    kept = len(roles) if plan.first_kept is None else int(plan.first_kept.id)
    return len(plan.summarized), kept


def test_a_compaction_is_cut_only_before_a_user_message() -> None:
    roles = "uatauatauata"
    for tokens in range(0, 2000, 50):
        cut, kept = _plan(roles, keep_tokens=tokens)
        assert cut == kept
        assert roles[kept] == "u"
    for turns in range(1, 4):
        assert _plan(roles, keep_turns=turns) == (12 - 4 * turns, 12 - 4 * turns)


def test_a_compaction_protects_twenty_turns_by_default() -> None:
    assert _plan("ua" * 20) == (0, 0)
    assert _plan("ua" * 23) == (6, 6)


def test_a_compaction_by_tokens_keeps_what_fits_and_at_least_one_turn() -> None:
    roles = "ua" * 400  # 400 characters and their envelope are about 110 tokens
    cut, kept = _plan(roles, keep_tokens=KEPT_TOKENS)
    assert KEPT_TOKENS == 20_000
    assert 170 <= len(roles) - kept <= 200
    assert cut == kept
    assert _plan("uaua", keep_tokens=1) == (2, 2)


def test_a_compaction_is_due_when_the_window_less_a_reserve_is_full() -> None:
    assert not is_due(200_000 - 16_384, 200_000)
    assert is_due(200_000 - 16_383, 200_000)


MOVER = """
import os, sys
from amux.store.session_store import SessionStore
store = SessionStore(sys.argv[1])
rename = os.rename
def rename_and_die(*args, **fields):
    rename(*args, **fields)
    os.kill(os.getpid(), 9)
os.rename = rename_and_die
store.archive(sys.argv[2])
"""


def test_a_process_killed_after_moving_a_file_leaves_a_thread_that_is_archived(
    store_folder: Path,
) -> None:
    with SessionStore(store_folder) as store:
        thread = store.start(cwd="/w", title="T")
        thread.message("user", "hello")
        before = thread.path.read_bytes()
        assert len(store.list()) == 1
    mover = python(MOVER, store_folder, thread.thread_id)
    mover.communicate()
    assert mover.returncode == -signal.SIGKILL
    with SessionStore(store_folder) as again:
        assert again.list() == []
        assert [each.title for each in again.list(archived=True)] == ["T"]
        resumed = again.resume(thread.thread_id)
        assert resumed.path.parent.name == "archived_sessions"
        assert resumed.path.read_bytes().startswith(before)
        assert len(again.search("hello")) == 1


# ids


def test_a_thread_has_one_id_and_every_run_its_own() -> None:
    store = SessionStore("memory:")
    thread = store.start(cwd="/w")
    runs = [thread, store.resume(thread.thread_id), store.resume(thread.thread_id)]
    assert {run.thread_id for run in runs} == {thread.thread_id}
    ids = {run.run_session_id for run in runs}
    assert len(ids) == 3
    assert thread.thread_id not in ids
    assert all(is_valid_session_id(each) for each in ids)
    (listed,) = store.list()
    assert not any(each in repr(listed) for each in ids)
    assert listed.label


def test_a_fork_leaves_the_file_of_its_parent_alone(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/w")
    thread.message("user", "hello")
    before = thread.path.read_bytes()
    copy = store.fork(thread.thread_id)
    copy.message("user", "more")
    assert copy.meta.forked_from == thread.thread_id
    assert thread.path.read_bytes() == before


# the index


VERSION = """
import sys
place, scanned = sys.argv[1], []
sys.addaudithook(
    lambda name, args: name in {"open", "os.listdir", "os.scandir"}
    and place in str(args[0])
    and scanned.append(args[0])
)
sys.argv = ["amux", "--version"]
from amux.__main__ import main
try:
    main()
except SystemExit:
    pass
print(len(scanned))
"""


def test_the_command_scans_no_thread_at_its_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = SessionStore(home / "store", fsync="never")
    for _ in range(50):
        store.start(cwd="/w")
    env = child_env(HOME=str(home), AMUX_STORE=str(home / "store"))
    done = subprocess.run(
        [sys.executable, "-c", VERSION, str(home)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0"
    assert not (home / "store" / "state.db").exists()


# backends


class RemoteLog:
    """A log at the other end of a queue: it knows no path and shares no object with its caller."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[str, Any, Any, queue.Queue[Any]] | None] = queue.Queue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        log = MemoryLog()
        while (call := self._calls.get()) is not None:
            name, args, fields, answer = call
            try:
                result: Any = getattr(log, name)(*args, **fields)
                answer.put((list(result) if name in {"read", "read_back"} else result, None))
            except Exception as error:  # noqa: BLE001 - it is raised at the other end
                answer.put((None, error))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not hasattr(ThreadLog, name):
            raise AttributeError(name)

        def call(*args: Any, **fields: Any) -> Any:
            answer: queue.Queue[Any] = queue.Queue()
            self._calls.put((name, args, fields, answer))
            result, error = answer.get()
            if error is not None:
                raise error
            return iter(result) if name in {"read", "read_back"} else result

        return call

    def close(self) -> None:
        self._calls.put(None)


class TestRemote(BackendSuite):
    is_durable = False

    def open_log(self, place: Path) -> ThreadLog:
        return cast("ThreadLog", RemoteLog())


def test_a_store_works_on_a_remote_log() -> None:
    store = SessionStore(cast("ThreadLog", RemoteLog()))
    thread = store.start(cwd="/w")
    thread.message("user", "hello")
    assert store.resume(thread.thread_id[:20]).conversation() == thread.conversation()
    with pytest.raises(StoreError, match="file"):
        _ = thread.path


def test_a_packed_thread_is_resumed_on_another_machine(tmp_path: Path) -> None:
    here, there = SessionStore(tmp_path / "here"), SessionStore(tmp_path / "there")
    thread = here.start(cwd="/home/a/project")
    digest = here.log.put_blob(b"picture")
    thread.append(NewRecord(payload={"role": "user", "content": "see"}, blobs=(digest,)))
    packed = here.pack(thread.thread_id, tmp_path / "thread.zip")
    unpacked = there.unpack(packed, cwd_map={"/home/a": "/home/b"})
    assert unpacked.environment.cwd == "/home/b/project"
    assert there.resume(thread.thread_id).conversation() == thread.conversation()
    assert there.log.get_blob(digest) == b"picture"
