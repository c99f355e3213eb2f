"""Imports the checkpoints of LangGraph's own savers: SQLite files and tables in PostgreSQL.

Values in checkpoints are instances of classes that only Python can make again, so LangGraph reads
them and `AmuxSaver` stores them. A thread is built in memory, each checkpoint at its own time and
with what tasks wrote after it, and is stored as a whole: an import that is interrupted leaves no
half of a thread, which a second one would take for the whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from amux.errors import AmuxError
from amux.integrations.langgraph import AmuxSaver
from amux.integrations.langgraph_threads import NAMESPACE, copied_records
from amux.integrations.migration.database import moment_of
from amux.integrations.migration.report import MigrationReport
from amux.store.session_store import SessionStore

_WRITES: Final = "checkpoint_ns, checkpoint_id, task_id, task_path, channel, type"
_THREADS: Final = "SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1"
_CHECKPOINTS: Final = "SELECT checkpoint_id, checkpoint_ns FROM checkpoints WHERE thread_id = "
_IN_ORDER: Final = "ORDER BY 1, 2"  # ids increase with time: parents come first

_UNREADABLE: Final = (
    ValueError, TypeError, LookupError, AttributeError, ImportError, msgspec.DecodeError,
)  # fmt: skip
"""The errors that LangGraph raises for a value that it cannot decode."""


class _Write(NamedTuple):
    """A value that a task wrote to a channel after a checkpoint, still encoded."""

    ns: str
    checkpoint_id: str
    task_id: str
    task_path: str
    channel: str
    type: str
    data: bytes


class _Place(NamedTuple):
    """The id of a checkpoint, and its namespace."""

    checkpoint_id: str
    ns: str


class _Source(NamedTuple):
    """A database of LangGraph: its saver, its threads, and the places and writes of a thread."""

    saver: BaseCheckpointSaver[Any]
    threads: Sequence[str]
    places_of: Callable[[str], list[_Place]]
    writes_of: Callable[[str], list[_Write]]


def import_sqlite(
    store: SessionStore, connection: sqlite3.Connection, tables: Mapping[str, frozenset[str]]
) -> MigrationReport:
    """Import the checkpoints of a `SqliteSaver` from a copy of its database."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    columns = _WRITES if "task_path" in tables["writes"] else _WRITES.replace("task_path", "''")
    query = f"SELECT {columns}, value FROM writes WHERE thread_id = ? ORDER BY 1, 2, 3, idx"  # noqa: S608 - constants

    def places_of(thread_id: str) -> list[_Place]:
        found = connection.execute(f"{_CHECKPOINTS}? {_IN_ORDER}", (thread_id,))
        return [_Place(*row) for row in found]

    def writes_of(thread_id: str) -> list[_Write]:
        return [_Write(*row) for row in connection.execute(query, (thread_id,))]

    threads = [str(row[0]) for row in connection.execute(_THREADS)]
    return _import(store, _Source(SqliteSaver(connection), threads, places_of, writes_of))


def import_postgres(store: SessionStore, url: str) -> MigrationReport:
    """Import the checkpoints of a `PostgresSaver` from its database, which is only read."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    query: Any = (
        f"SELECT {_WRITES}, blob FROM checkpoint_writes WHERE thread_id = %s ORDER BY 1, 2, 3, idx"  # noqa: S608 - constants
    )
    places: Any = f"{_CHECKPOINTS}%s {_IN_ORDER}"
    try:
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
            connection.execute("SET default_transaction_read_only = on")

            def places_of(thread_id: str) -> list[_Place]:
                found = connection.execute(places, (thread_id,))
                return [_Place(*row.values()) for row in found]

            def writes_of(thread_id: str) -> list[_Write]:
                return [_Write(*row.values()) for row in connection.execute(query, (thread_id,))]

            rows = connection.execute(cast("Any", _THREADS)).fetchall()
            threads = [str(row["thread_id"]) for row in rows]
            saver = PostgresSaver(connection)
            return _import(store, _Source(saver, threads, places_of, writes_of))
    except psycopg.Error as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise AmuxError(
            f"cannot read the checkpoints: {reason}",
            hint="give the URL of a database that `PostgresSaver` wrote",
        ) from error


def _import(store: SessionStore, source: _Source) -> MigrationReport:
    report = MigrationReport(framework=NAMESPACE)
    for thread_id in source.threads:
        clock = _Clock()
        with report.storing(thread_id), SessionStore("memory:", now=clock) as staging:
            if store.log.find(NAMESPACE, (thread_id,)) is not None:
                report.skipped.append(thread_id)
                continue
            count = _build(AmuxSaver(staging), source, thread_id, clock, report)
            _store(store, staging, thread_id, count, report)
    return report


class _Clock:
    """The time of the checkpoint that is being copied."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.time


def _build(
    staged: AmuxSaver, source: _Source, thread_id: str, clock: _Clock, report: MigrationReport
) -> int:
    """Copy the checkpoints of one thread, parents first, and return their number."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    writes = {key: list(each) for key, each in groupby(source.writes_of(thread_id), _place_of)}
    versions: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    for checkpoint_id, ns in source.places_of(thread_id):
        own = writes.pop((ns, checkpoint_id), [])
        config = _config(thread_id, ns, checkpoint_id)
        try:
            saved = source.saver.get_tuple(config)
        except _UNREADABLE as error:
            where = f"`{checkpoint_id}` of thread `{thread_id}`"
            report.problem(f"checkpoint {where} cannot be read: {error}")
            continue
        if saved is None:  # deleted meanwhile
            continue
        clock.time = moment_of(saved.checkpoint["ts"]) or clock.time
        parent = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        known = versions.get((ns, parent), {})
        current = saved.checkpoint["channel_versions"]
        changed = {name: value for name, value in current.items() if known.get(name) != value}
        staged.put(_config(thread_id, ns, parent), saved.checkpoint, saved.metadata, changed)
        versions[ns, checkpoint_id] = current
        _copy_writes(staged, config, own, report)
    for (ns, checkpoint_id), own in writes.items():  # their checkpoints were never stored
        _copy_writes(staged, _config(thread_id, ns, checkpoint_id), own, report)
    return len(versions)


def _place_of(write: _Write) -> tuple[str, str]:
    return write.ns, write.checkpoint_id


def _config(thread_id: str, ns: str, checkpoint_id: str | None) -> RunnableConfig:
    place = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {
        "configurable": {**place, **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
    }


def _copy_writes(
    staged: AmuxSaver, config: RunnableConfig, writes: Sequence[_Write], report: MigrationReport
) -> None:
    """Store what tasks wrote after a checkpoint, with the paths of the tasks."""
    for (task_id, task_path), group in _by_task(writes):
        try:
            values = [
                (each.channel, JsonPlusSerializer().loads_typed((each.type, each.data)))
                for each in group
            ]
        except _UNREADABLE as error:
            report.problem(f"writes of task `{task_id}` cannot be read: {error}")
            continue
        staged.put_writes(config, values, task_id, task_path)


def _by_task(writes: Sequence[_Write]) -> Iterator[tuple[tuple[str, str], Iterator[_Write]]]:
    return groupby(writes, lambda each: (each.task_id, each.task_path))


def _store(
    store: SessionStore, staging: SessionStore, thread_id: str, count: int, report: MigrationReport
) -> None:
    """Store a thread that was built elsewhere, in one step.

    Raises:
        ConflictError: The store has the thread by now.
    """
    found = staging.log.find(NAMESPACE, (thread_id,))
    if found is None:
        return
    records = copied_records(staging.log, found)
    for blob in {blob for record in records for blob in record.blobs}:
        store.log.put_blob(staging.log.get_blob(blob))
    store.log.create(staging.log.meta(found), records)
    report.imported.append(found)
    report.records += count
