"""Rules that only a PostgreSQL server can break: its limits, settings, rights and connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from in_threads import at_once
from lossy_server import LossyServer
from psycopg import sql

from amux.errors import StoreError, ValidationError
from amux.rollout import control
from amux.rollout.log import SearchQuery
from amux.rollout.threads import ThreadFilter
from amux.store.postgres.connection import Database, split_schema
from amux.store.postgres.log import PostgresLog
from amux.testing.backend_suite import message, new_meta

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def log(store_url: str) -> Iterator[PostgresLog]:
    with closing(PostgresLog(store_url)) as log:
        yield log


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT repeat('x', 2000000000)",
        "SET statement_timeout = 1; SELECT pg_sleep(10)",
        "SELECT 1/0",
        "SELECT * FROM no_such_table",
    ],
)
def test_a_statement_that_the_server_refuses_is_tried_once(store_url: str, statement: str) -> None:
    tries: list[str] = []

    def work(connection: psycopg.Connection[Any]) -> None:
        tries.append(statement)
        connection.execute(statement.encode())

    with closing(Database(store_url, synchronous=True)) as database:
        with pytest.raises(StoreError, match="PostgreSQL refused"):
            database.transaction(work)
        assert tries == [statement]
        assert database.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)


def test_times_are_in_utc_whatever_the_server_prefers(store_url: str) -> None:
    with closing(PostgresLog(f"{store_url}&options={quote('-ctimezone=America/New_York')}")) as log:
        meta = new_meta()
        first = datetime(1, 1, 1, tzinfo=UTC)
        log.create(meta, [message("x", at=first)])
        thread = log.get(meta.thread_id)
        assert thread is not None
        assert thread.created_at.utcoffset() == timedelta(0)
        assert thread.last_message_at == first
        assert [record.at for record in log.read(meta.thread_id)][1] == first


def test_a_user_without_the_right_to_create_tables_can_use_them(
    store_url: str, log: PostgresLog
) -> None:
    meta = new_meta()
    log.create(meta, [message("x")])
    url, schema = split_schema(store_url)
    role = f"role_{uuid4().hex}"
    names = {"role": sql.Identifier(role), "schema": sql.Identifier(schema)}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {role} NOLOGIN").format(**names))
        try:
            for right in (
                "GRANT USAGE ON SCHEMA {schema} TO {role}",
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            ):
                connection.execute(sql.SQL(right).format(**names))
            with closing(PostgresLog(f"{store_url}&options={quote(f'-crole={role}')}")) as other:
                other.append(meta.thread_id, [message(f"{n}") for n in range(150)])
                assert len(list(other.read(meta.thread_id))) == 152
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {role}").format(**names))
            connection.execute(sql.SQL("DROP ROLE {role}").format(**names))


def test_tables_of_a_later_version_are_refused(store_url: str, log: PostgresLog) -> None:
    log.threads(ThreadFilter())
    url, schema = split_schema(store_url)
    with psycopg.connect(url, autocommit=True) as connection:
        table = sql.Identifier(schema, "schema_version")
        connection.execute(sql.SQL("UPDATE {} SET version = 99").format(table))
    with pytest.raises(StoreError, match="have version 99"):
        PostgresLog(store_url).threads(ThreadFilter())


def test_a_closed_log_stays_closed(store_url: str) -> None:
    log = PostgresLog(store_url)
    log.threads(ThreadFilter())
    log.close()
    log.close()
    with pytest.raises(StoreError, match="is closed"):
        log.threads(ThreadFilter())


def test_a_filter_that_is_not_unicode_is_refused_in_one_sentence(log: PostgresLog) -> None:
    with pytest.raises(ValidationError, match="not valid Unicode"):
        log.threads(ThreadFilter(cwd="/\udc80"))


def test_the_oldest_hits_are_the_oldest_of_all(log: PostgresLog) -> None:
    """A search looks at a limited number of candidates: those that its order shows first."""
    meta = new_meta()
    count = 5_100
    log.create(
        meta,
        [message("needle", at=START + timedelta(minutes=number)) for number in range(count)],
    )
    oldest = log.search(SearchQuery(text="needle", sort="oldest", limit=2))
    assert [hit.at for hit in oldest] == [START, START + timedelta(minutes=1)]
    (newest,) = log.search(SearchQuery(text="needle", sort="newest", limit=1))
    assert newest.at == START + timedelta(minutes=count - 1)


def test_a_blob_that_is_stored_again_is_not_collected_before_its_record_comes(
    store_url: str, log: PostgresLog
) -> None:
    digest, forgotten = log.put_blob(b"again"), log.put_blob(b"forgotten")
    url, schema = split_schema(store_url)
    with psycopg.connect(url, autocommit=True) as connection:
        table = sql.Identifier(schema, "blobs")
        old = sql.SQL("UPDATE {} SET created_at = created_at - interval '2 hours'").format(table)
        connection.execute(old)
    log.put_blob(b"again")
    assert log.collect_blobs() == 1
    assert log.get_blob(digest) == b"again"
    with pytest.raises(StoreError):
        log.get_blob(forgotten)


@pytest.fixture
def lossy(postgres_url: str) -> Iterator[LossyServer]:
    """Return a server that loses answers; `url_of` has its address."""
    (host,) = parse_qs(urlsplit(postgres_url).query)["host"]
    with (
        TemporaryDirectory(prefix="amux-lossy-") as folder,
        LossyServer(Path(host), Path(folder)) as server,
    ):
        yield server


def url_of(lossy: LossyServer, store_url: str) -> str:
    parts = urlsplit(store_url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "host"]
    return urlunsplit(parts._replace(query=urlencode([("host", lossy.folder), *query])))


Work = Callable[[PostgresLog, str], Any]


CHANGES: list[tuple[str, Work, object]] = [
    ("INSERT INTO records", lambda log, key: log.append(key, [message("x")]).stored, 1),
    (
        "INSERT INTO records",
        lambda log, key: log.append(key, [message("x", id="i")], repeat="error").stored,
        1,
    ),
    ("INSERT INTO records", lambda log, key: log.append(key, [message("x")], expect=1).head, 2),
    (
        "COMMIT",
        lambda log, key: log.append(key, [message("x", id="i")], repeat="replace").stored,
        1,
    ),
    ("INSERT INTO records", lambda log, key: log.set_title(key, "T"), None),
    ("DELETE", lambda log, key: log.delete(key), True),
    ("COMMIT", lambda log, key: log.acquire_lease(key, "me", seconds=60).owner, "me"),
    (
        "DELETE",
        lambda log, key: log.release_lease(log.acquire_lease(key, "me", seconds=60)),
        True,
    ),
    ("COMMIT", lambda log, key: log.put_value((key,), b"x", expect="").data, b"x"),
    ("INSERT INTO blobs", lambda log, key: log.get_blob(log.put_blob(b"x")), b"x"),
]
"""Words of a request, the call that makes it, and its answer."""


@pytest.mark.parametrize(("words", "work", "answer"), CHANGES)
def test_a_lost_answer_changes_nothing(
    words: str, work: Work, answer: object, lossy: LossyServer, store_url: str
) -> None:
    """The server has committed, and the connection breaks before the client hears of it."""
    meta = new_meta()
    with closing(PostgresLog(url_of(lossy, store_url))) as log:
        log.create(meta)
        lossy.lose(words)
        assert work(log, meta.thread_id) == answer
        assert lossy.losses == 1
        thread = log.get(meta.thread_id)
        if thread is not None:
            records = list(log.read(meta.thread_id))
            assert len(records) == len({record.id for record in records}) == thread.head
            contents = [record.payload.get("content") for record in records]
            assert contents.count("x") == thread.message_count <= 1


def test_a_thread_whose_creation_was_not_acknowledged_is_created_once(
    lossy: LossyServer, store_url: str
) -> None:
    meta = new_meta(title="T", namespace="n", key=("k",))
    with closing(PostgresLog(url_of(lossy, store_url))) as log:
        log.threads(ThreadFilter())
        lossy.lose("COMMIT")
        assert log.create(meta, [message("x")]).message_count == 1
        assert lossy.losses == 1
        assert len(list(log.read(meta.thread_id))) == 2


def test_transactions_that_collide_are_repeated(store_url: str) -> None:
    """Serializable transactions that meet fail, all but one."""
    isolated = f"{store_url}&options={quote('-cdefault_transaction_isolation=serializable')}"
    meta = new_meta()
    with closing(PostgresLog(isolated)) as log:
        log.create(meta)

        def write(number: int) -> None:
            for each in range(20):
                log.append(meta.thread_id, [message(f"{number}.{each}"), control.hide_all()])

        at_once([lambda number=number: write(number) for number in range(6)])
        contents = {record.payload.get("content") for record in log.read(meta.thread_id)}
        assert contents - {None} == {f"{n}.{each}" for n in range(6) for each in range(20)}
        assert len(list(log.read(meta.thread_id))) == 1 + 2 * 120
