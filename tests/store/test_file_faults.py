"""Full disks, directories without permission, and other bad input for the file backend."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from child_processes import child_env

from amux.errors import ConflictError, SessionNotFoundError, StoreError, ValidationError
from amux.rollout.records import NewRecord, PayloadText, SessionMeta
from amux.store.session_store import SessionStore

FULL_DISK = """
import resource, signal, sys
from amux.errors import StoreError
from amux.store.session_store import SessionStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SessionStore(sys.argv[1])
thread = store.resume(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
stored = 0
try:
    while True:
        thread.message("user", "x" * 3000)
        stored += 1
except StoreError as error:
    print(stored, error.code, error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
thread.message("user", "space again")
"""

NO_PERMISSION = """
import os, sys
from amux.errors import StoreError
from amux.store.session_store import SessionStore

SessionStore("memory:").start(cwd="/")
import amux.store.file_log.session_index, amux.store.session_db.database, amux.store.scan_search
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for attempt in (lambda s: s.start(cwd="/"), lambda s: s.resume(sys.argv[2]).message("user", "x")):
    try:
        attempt(SessionStore(sys.argv[1]))
    except StoreError as error:
        print(error.code, error.message)
store = SessionStore(sys.argv[1])
print(store.open(sys.argv[2]).conversation(), len(store.list()), len(store.search("kept")))
"""


def run(script: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env=child_env(),
        check=True,
    )
    return done.stdout.splitlines()


def test_a_full_disk_loses_nothing_acknowledged(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/")
    (line,) = run(FULL_DISK, str(store_folder), thread.thread_id)
    stored, code, message = line.split(maxsplit=2)
    assert code == "STORE_ERROR"
    assert str(thread.path) in message
    contents = [each["content"] for each in thread.conversation()]
    assert contents == [*["x" * 3000] * int(stored), "space again"]
    assert store.doctor().is_healthy
    store.close()


def test_a_directory_without_permission_is_a_store_error(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(Path("/tmp")) and folder != Path("/tmp"):
            folder.chmod(0o755)
    base = tmp_path / "store"
    store = SessionStore(base)
    thread = store.start(cwd="/")
    thread.message("user", "kept")
    store.close()
    for folder, folders, files in os.walk(base):
        for name in (*folders, *files):
            (Path(folder) / name).chmod(0o555 if name in folders else 0o444)
    base.chmod(0o555)
    before = thread.path.read_bytes()
    *lines, last = run(NO_PERMISSION, str(base), thread.thread_id)
    assert last == "[{'role': 'user', 'content': 'kept'}] 1 1"
    assert [line.split()[0] for line in lines] == ["STORE_ERROR", "STORE_ERROR"]
    assert all("Permission denied" in line for line in lines)
    assert thread.path.read_bytes() == before


@pytest.mark.parametrize("ref", ["", "   ", "../../etc/passwd", "nothing", "%", "0" * 36, "\0"])
def test_an_id_that_names_nothing_is_not_found(store_folder: Path, ref: str) -> None:
    store = SessionStore(store_folder)
    store.start(cwd="/")
    with pytest.raises(SessionNotFoundError):
        store.resume(ref)
    store.close()


def test_an_item_of_a_hundred_megabytes_is_stored_or_refused_in_one_sentence(
    store_folder: Path,
) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/")
    large = "y" * (100 * 2**20)
    thread.message("user", large)
    thread.message("user", "after")
    assert [len(each["content"]) for each in thread.conversation()] == [len(large), 5]
    with pytest.raises(ValidationError, match="a payload may have"):
        thread.append(NewRecord(payload=PayloadText('"' + "z" * (257 * 2**20) + '"')))
    assert len(thread.tail(1)) == 1
    store.close()


def test_a_thread_of_a_newer_format_is_refused_and_kept(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/")
    data = thread.path.read_bytes().replace(b'"schema_version":1', b'"schema_version":99')
    thread.path.write_bytes(data)
    store.close()
    again = SessionStore(store_folder)
    with pytest.raises(StoreError, match="version 99"):
        again.resume(thread.thread_id)
    assert thread.path.read_bytes() == data
    again.close()


@pytest.mark.parametrize("ids", ["12", "21"])
def test_a_doubled_key_and_title_stay_with_the_older_thread(store_folder: Path, ids: str) -> None:
    """Whichever file is read first: the names of both have the same second."""
    store = SessionStore(store_folder)
    older, other = (
        SessionMeta(
            thread_id=f"{first}{str(uuid4())[1:]}",
            session_id="run",
            created_at=datetime(2026, 1, 1, microsecond=number, tzinfo=UTC),
            title=title,
            namespace="n",
            key=(key,),
        )
        for number, (first, title, key) in enumerate(zip(ids, "TU", "kl", strict=True))
    )
    for meta in (older, other):
        store.log.create(meta)
    path = store.open(other.thread_id).path
    text = path.read_text().replace('"title":"U"', '"title":"T"')
    path.write_text(text.replace('"key":["l"]', '"key":["k"]'))
    store.close()
    again = SessionStore(store_folder)
    again.rebuild_index()
    titles = {thread.thread_id: (thread.title, thread.key) for thread in again.list()}
    assert titles == {older.thread_id: ("T", ("k",)), other.thread_id: (None, None)}
    assert len(again.doctor().problems) == 2
    found = again.find("n", ("k",))
    assert found is not None
    assert found.thread_id == older.thread_id
    again.close()


def test_a_process_that_died_between_two_threads_is_completed(store_folder: Path) -> None:
    script = """
import os, sys
from amux.rollout.log import Batch
from amux.rollout.records import NewRecord
from amux.store.file_log import rollout_file
from amux.store.session_store import SessionStore

store = SessionStore(sys.argv[1])
written = 0
write = rollout_file.RolloutFile.append
def die_after_one(self, records):
    global written
    if written == int(sys.argv[4]):
        os._exit(9)
    written += 1
    write(self, records)
rollout_file.RolloutFile.append = die_after_one
both = (NewRecord(payload="both"),)
store.log.append_many([Batch(thread_id=each, records=both) for each in sys.argv[2:4]])
"""
    for survived in (0, 1):
        store = SessionStore(store_folder / str(survived))
        one, two = (store.start(cwd="/").thread_id for _ in range(2))
        done = subprocess.run(
            [sys.executable, "-c", script, str(store.log.base), one, two, str(survived)],  # type: ignore[attr-defined]
            env=child_env(),
            check=False,
        )
        assert done.returncode == 9
        store.log.append(two, [NewRecord(payload="later")])
        for thread_id, payloads in ((one, ["both"]), (two, ["both", "later"])):
            found = [record.payload for record in store.log.read(thread_id)][1:]
            assert found == payloads
        with pytest.raises(ConflictError):
            store.log.append(one, [NewRecord(payload="x")], expect=1)
        store.close()
