"""Bad input for the store: one clear sentence, the documented error, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from child_processes import child_env

from amux.errors import (
    AmuxError,
    ConflictError,
    StoreError,
    TitleInUseError,
    TurnInProgressError,
    ValidationError,
)
from amux.rollout.log import Batch
from amux.rollout.records import NewRecord, SessionMeta
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, but for the index and the marks for it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("state.db") and path.parent.name != "changed"
    }


# ids


@pytest.mark.parametrize("backend", ["memory:", "file"])
@pytest.mark.parametrize(
    "thread_id",
    [
        "",
        "x",
        "../../evil",
        "/etc/passwd",
        "a/b",
        "..",
        "\0",
        "00000000-0000-4000-8000-000000000001/..",
        "%",
    ],
)
def test_an_id_that_is_no_uuid_creates_nothing(
    tmp_path: Path, backend: str, thread_id: str
) -> None:
    base = tmp_path / "deep" / "store"
    store = SessionStore(base if backend == "file" else backend)
    meta = SessionMeta(thread_id=thread_id, session_id="run", created_at=datetime.now(UTC))
    with pytest.raises(ValidationError, match="is not the id of a thread"):
        store.log.create(meta)
    assert store.list() == []
    assert list(tmp_path.rglob("*evil*")) == []


@pytest.mark.parametrize("backend", ["memory:", "file"])
def test_an_id_of_any_case_is_one_thread(store_folder: Path, backend: str) -> None:
    store = SessionStore(store_folder if backend == "file" else backend)
    thread_id = str(uuid4())
    meta = SessionMeta(thread_id=thread_id.upper(), session_id="run", created_at=datetime.now(UTC))
    store.log.create(meta)
    assert store.resolve(thread_id) == store.resolve(thread_id.upper()) == thread_id
    assert store.resume(thread_id.upper()).meta.thread_id == thread_id
    assert [each.thread_id for each in store.list()] == [thread_id]
    with pytest.raises(ConflictError, match="exists"):
        store.log.create(meta)


def test_an_id_is_used_once_and_the_first_data_stay(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/w")
    thread.message("user", "first")
    before = files_below(store_folder)
    with pytest.raises(ConflictError, match=f"a thread `{thread.thread_id}` exists"):
        store.log.create(thread.meta, [NewRecord(payload="second")])
    assert files_below(store_folder) == before


# formats


CHANGES: dict[str, Callable[[SessionStore, str, Path], object]] = {
    "resume": lambda store, ref, _: store.resume(ref),
    "append": lambda store, ref, _: store.log.append(ref, [NewRecord(payload="x")]),
    "several": lambda store, ref, _: store.log.append_many(
        [Batch(thread_id=ref, records=(NewRecord(payload="x"),))]
    ),
    "key": lambda store, ref, _: _found(store, ref).message("user", "x"),
    "title": lambda store, ref, _: store.set_title(ref, "New"),
    "turn": lambda store, ref, _: _found(store, ref).begin_turn(),
    "vacuum": lambda store, ref, _: store.vacuum(ref),
    "fork": lambda store, ref, _: store.fork(ref),
    "repair": lambda store, ref, _: store.repair(ref),
    "read": lambda store, ref, _: list(store.log.read(ref)),
    "read back": lambda store, ref, _: store.open(ref).conversation(),
    "export": lambda store, ref, _: store.export(ref),
    "pack": lambda store, ref, path: store.pack(ref, path / "pack.zip"),
}


def _found(store: SessionStore, ref: str) -> ThreadHandle:
    found = store.find("n", ("k",))
    assert found is not None
    assert found.thread_id == ref
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_thread_of_a_newer_format_is_neither_read_nor_written(
    store_folder: Path, tmp_path: Path, name: str
) -> None:
    with closing(SessionStore(store_folder)) as store:
        thread = store.start(cwd="/", namespace="n", key=("k",))
        thread.message("user", "hello")
    newer = thread.path.read_bytes().replace(b'"schema_version":1', b'"schema_version":99')
    thread.path.write_bytes(newer)
    before = files_below(store_folder)
    with closing(SessionStore(store_folder)) as store:
        with pytest.raises(StoreError, match="version 99 of the format") as error:
            CHANGES[name](store, thread.thread_id, tmp_path)
        assert error.value.hint == "update amux"
        (report,) = store.doctor().threads
        assert "version 99" in report.problems[0].message
    assert files_below(store_folder) == before


# addresses


@pytest.mark.parametrize("address", ["mysql://host/db", "file:///tmp/x", "http://x", "://"])
def test_an_address_of_an_unknown_kind_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="is not the address of a store"):
        SessionStore(address)


@pytest.mark.parametrize("address", [None, 7, b"folder", "", "a\0b", "postgresql://[::"])
def test_what_is_no_address_at_all_is_refused_at_once(address: Any) -> None:
    with pytest.raises(ValidationError, match=r"address of a store|URL of the store"):
        SessionStore(address)


def test_a_file_in_the_place_of_the_store_is_a_store_error(tmp_path: Path) -> None:
    place = tmp_path / "store"
    place.write_text("not a directory")
    store = SessionStore(place)
    for attempt in (
        store.list,
        store.stats,
        lambda: store.search("x"),
        lambda: store.start(cwd="/"),
        lambda: store.log.put_value(("k",), b""),
        lambda: store.log.put_blob(b""),
        lambda: store.find("n", ("k",)),
    ):
        with pytest.raises(StoreError, match=f"{place}` is a file|{place}`: File exists"):
            attempt()
    assert place.read_text() == "not a directory"


FORBIDDEN = """
import os, sys
from amux.errors import AmuxError
from amux.store.session_store import SessionStore

SessionStore("memory:").start(cwd="/")
import amux.store.file_log.session_index, amux.store.session_db.database, amux.store.scan_search
import amux.store.portable
store = SessionStore(sys.argv[1])
thread = store.thread(sys.argv[2])
turn = thread.begin_turn()
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for name, attempt in {
    "turn": lambda: SessionStore(sys.argv[1]).find("n", ("k",)).begin_turn(),
    "interrupt": thread.interrupt,
    "end": turn.end,
    "blob": lambda: store.log.put_blob(b"new"),
    "value": lambda: store.log.put_value(("k",), b"new"),
    "get value": lambda: store.log.get_value(("k",)),
    "delete value": lambda: store.log.delete_value(("k",)),
    "archive": lambda: store.archive(sys.argv[2]),
    "delete": lambda: store.delete(sys.argv[2]),
    "vacuum": lambda: store.vacuum(sys.argv[2]),
    "title": lambda: store.set_title(sys.argv[2], "T"),
    "collect": lambda: store.log.collect_blobs(),
}.items():
    try:
        attempt()
    except AmuxError as error:
        print(name, error.code)
    except Exception as error:
        print(name, "raised", repr(error))
"""


def test_every_operation_that_is_not_permitted_is_a_store_error(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(Path("/tmp")) and folder != Path("/tmp"):
            folder.chmod(0o755)
    base = tmp_path / "store"
    with closing(SessionStore(base)) as store:
        thread = store.start(cwd="/", namespace="n", key=("k",))
        store.log.put_value(("k",), b"value")
        digest = store.log.put_blob(b"blob")
        os.utime(base / "blobs" / digest[:2] / digest, (0, 0))
    for folder, folders, files in os.walk(base):
        for name in (*folders, *files):
            (Path(folder) / name).chmod(0o777 if name in folders else 0o666)
        Path(folder).chmod(0o777)
    for name in ("sessions", "values", "blobs", "leases", "keys", "transactions"):
        for path in (base / name, *(base / name).rglob("*")):
            path.chmod(0o000 if path.parent.name == "values" else 0o555 if path.is_dir() else 0o444)
    command = [sys.executable, "-c", FORBIDDEN, str(base), thread.thread_id]
    done = subprocess.run(command, env=child_env(), capture_output=True, text=True, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) >= 11
    assert [line for line in lines if not line.endswith("STORE_ERROR")] == []


# titles, turns and packed files


def test_a_title_in_use_names_the_thread_that_has_it(store_folder: Path) -> None:
    store = SessionStore(store_folder)
    holder, other = store.start(cwd="/", title="T"), store.start(cwd="/")
    for attempt in (
        lambda: store.start(cwd="/", title=" T "),
        lambda: store.set_title(other.thread_id, "T"),
        lambda: other.set_title("T"),
    ):
        with pytest.raises(TitleInUseError) as error:
            attempt()
        assert error.value.message == f"thread `{holder.thread_id}` has the title `T`"
    assert len(store.list()) == 2
    assert store.by_title("T") == holder.thread_id


def test_a_turn_elsewhere_is_named_in_one_sentence(store_folder: Path) -> None:
    thread = SessionStore(store_folder).start(cwd="/")
    with thread.begin_turn():
        other = SessionStore(store_folder).resume(thread.thread_id)
        with pytest.raises(TurnInProgressError) as error:
            other.begin_turn()
        assert f"process {os.getpid()} on " in error.value.message
        assert error.value.recoverable
        other.message("user", "appending needs no turn")
    assert len(thread.conversation()) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 not a zip",
        {"rollout.jsonl": b""},
        {"rollout.jsonl": b"garbage\n"},
        {"other": b""},
        {"rollout.jsonl": b'{"type":"session_meta"}'},
    ],
)
def test_a_file_that_is_no_packed_thread_stores_nothing(
    store_folder: Path, tmp_path: Path, content: bytes | dict[str, bytes]
) -> None:
    path = tmp_path / "thread.zip"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in content.items():
                archive.writestr(name, data)
    store = SessionStore(store_folder)
    with pytest.raises(StoreError):
        store.unpack(path)
    assert store.list() == []


def test_a_packed_thread_that_was_damaged_is_refused_in_one_sentence(
    store_folder: Path, tmp_path: Path
) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/")
    for number in range(200):
        thread.message("user", f"message {number}")
    path = store.pack(thread.thread_id, tmp_path / "thread.zip")
    assert path.stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    other = SessionStore(tmp_path / "other")
    messages: list[str] = []
    for offset in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[offset] ^= 0x55
        path.write_bytes(damaged)
        try:
            assert other.delete(other.unpack(path).thread_id)
        except AmuxError as error:
            messages.append(error.message)
    assert messages
    assert not any("\n" in message for message in messages)
    assert other.list() == []


def test_a_pack_that_fails_leaves_no_file(store_folder: Path, tmp_path: Path) -> None:
    store = SessionStore(store_folder)
    thread = store.start(cwd="/")
    thread.append(NewRecord(payload={}, blobs=("0" * 64,)))
    with pytest.raises(StoreError, match="no blob"):
        store.pack(thread.thread_id, tmp_path / "thread.zip")
    assert not (tmp_path / "thread.zip").exists()
    (tmp_path / "thread.zip").write_text("mine")
    with pytest.raises(StoreError, match="exists"):
        store.pack(store.start(cwd="/").thread_id, tmp_path / "thread.zip")
    assert (tmp_path / "thread.zip").read_text() == "mine"
