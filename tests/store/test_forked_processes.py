"""A store that is open when its process forks, as in servers with workers, stays usable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_env

from amux.store.session_store import SessionStore

PROGRAM = """
import os, sys
from amux.store.session_store import SessionStore

store = SessionStore(sys.argv[1])
thread = store.start(cwd="").thread_id
store.search("warm")  # connections and the index are open now

def work(name):
    for number in range(10):
        store.thread(thread).append({"role": "user", "content": f"{name}.{number}"})
        assert len(store.list()) == 1
        store.search(f"{name}.{number}")

children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(f"child{number}")
            store.close()
            code = 0
        finally:
            os._exit(code)
    children.append(child)
work("parent")
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
store.close()
"""


@pytest.mark.parametrize("fixture", ["store_folder", "store_url"])
def test_a_forked_process_uses_connections_of_its_own(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    address: Path | str = request.getfixturevalue(fixture)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(address)]
    done = subprocess.run(
        command, env=child_env(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    with SessionStore(address) as store:
        (summary,) = store.list()
        records = store.log.read(summary.thread_id)
        texts = [each.payload["content"] for each in records if each.type == "response_item"]
        names = ("parent", "child0", "child1", "child2")
        assert sorted(texts) == sorted(f"{name}.{each}" for name in names for each in range(10))
        for name in names:
            assert [t for t in texts if t.startswith(name)] == [f"{name}.{n}" for n in range(10)]
        assert store.doctor().is_healthy


BUSY = """
import os, signal, sys, threading
from amux.store.session_store import SessionStore

store = SessionStore(sys.argv[1])
thread = store.start(cwd="").thread_id
store.search("warm")  # all modules are imported: Python cannot fork during an import
ended = threading.Event()

def work():
    number = 0
    while not ended.is_set():
        store.thread(thread).append({"role": "user", "content": f"busy.{number}"})
        number += 1
        if number % 10 == 0:
            store.list(), store.search("busy")

writers = [threading.Thread(target=work) for _ in range(2)]
for writer in writers:
    writer.start()
codes = []
for number in range(12):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)
            store.thread(thread).append({"role": "user", "content": f"child.{number}"})
            assert len(store.list()) == 1
            store.search("child")
            store.close()
            code = 0
        finally:
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ended.set()
for writer in writers:
    writer.join()
store.close()
assert codes == [0] * 12, codes
"""


@pytest.mark.parametrize("fixture", ["store_folder", "store_url"])
def test_a_process_forks_while_other_threads_use_the_store(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    address: Path | str = request.getfixturevalue(fixture)
    command = [sys.executable, "-W", "ignore", "-c", BUSY, str(address)]
    done = subprocess.run(
        command, env=child_env(), capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    with SessionStore(address) as store:
        records = store.log.read(store.list()[0].thread_id)
        texts = [each.payload["content"] for each in records if each.type == "response_item"]
        assert {text for text in texts if text.startswith("child")} == {
            f"child.{number}" for number in range(12)
        }
        assert store.doctor().is_healthy


RECORDER = """
import os, sys
from amux.rollout.recorder import BackgroundRecorder
from amux.store.session_store import SessionStore

store = SessionStore(sys.argv[1])
thread = store.start(cwd="").thread_id
recorder = BackgroundRecorder(store.log, thread)
recorder.append_event({"role": "user", "content": "before"})
recorder.flush()
child = os.fork()
recorder.append_event({"role": "user", "content": "parent" if child else "child"})
recorder.close()
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_background_recorder_goes_on_in_a_forked_process(store_folder: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", RECORDER, str(store_folder)]
    done = subprocess.run(
        command, env=child_env(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    with SessionStore(store_folder) as store:
        records = store.log.read(store.list()[0].thread_id)
        texts = [each.payload["content"] for each in records if each.type == "response_item"]
        assert sorted(texts) == ["before", "child", "parent"]


CLOSED_BY_PARENT = """
import os, sys
from amux.store.session_db.database import SessionDB

db = SessionDB(sys.argv[1])
db.create_session("s", "cli")
db.append_message("s", "user", "parent")
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    db.append_message("s", "user", "child")
    os.write(to_parent[1], b".")
    os.read(to_child[0], 1)
    db.append_message("s", "user", "child, after the parent has closed")
    db.close()
    os._exit(0)
os.read(to_parent[0], 1)
db.close()
assert os.path.getsize(sys.argv[1] + "-wal") >= 0, "the child writes to a file without a name"
os.write(to_child[1], b".")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with SessionDB(sys.argv[1]) as again:
    print(*(each["content"] for each in again.get_messages("s")), sep="|")
"""


def test_a_forked_process_has_locks_of_its_own_on_a_database(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", CLOSED_BY_PARENT, str(tmp_path / "state.db")]
    done = subprocess.run(
        command, env=child_env(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "parent|child|child, after the parent has closed"
