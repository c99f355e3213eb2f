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
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from amux.errors import AmuxError, ConflictError, StoreError, ValidationError
from amux.integrations.langgraph import AmuxSaver
from amux.integrations.langgraph_threads import NAMESPACE, copied_records
from amux.integrations.migration.database import moment_of
from amux.integrations.migration.report import MigrationReport
from amux.store.session_store import SessionStore

_WRITES: Final = "checkpoint_ns, checkpoint_id, task_id, task_path, channel, type"
_THREADS: Final = "SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1"


class _Write(NamedTuple):
    """A value that a task wrote to a channel after a checkpoint, still encoded."""

    ns: str
    checkpoint_id: str
    task_id: str
    task_path: str
    channel: str
    type: str
    data: bytes


class _Source(NamedTuple):
    """A database of LangGraph: its saver, its threads, and the writes of a thread in order."""

    saver: BaseCheckpointSaver[Any]
    threads: Sequence[str]
    writes_of: Callable[[str], list[_Write]]


def import_sqlite(
    store: SessionStore, connection: sqlite3.Connection, tables: Mapping[str, frozenset[str]]
) -> MigrationReport:
    """Import the checkpoints of a `SqliteSaver` from a copy of its database."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    columns = _WRITES if "task_path" in tables["writes"] else _WRITES.replace("task_path", "''")
    query = f"SELECT {columns}, value FROM writes WHERE thread_id = ? ORDER BY 1, 2, 3, idx"  # noqa: S608 - constants

    def writes_of(thread_id: str) -> list[_Write]:
        return [_Write(*row) for row in connection.execute(query, (thread_id,))]

    threads = [str(row[0]) for row in connection.execute(_THREADS)]
    return _import(store, _Source(SqliteSaver(connection), threads, writes_of))


def import_postgres(store: SessionStore, url: str) -> MigrationReport:
    """Import the checkpoints of a `PostgresSaver` from its database, which is only read."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    query: Any = (
        f"SELECT {_WRITES}, blob FROM checkpoint_writes WHERE thread_id = %s ORDER BY 1, 2, 3, idx"  # noqa: S608 - constants
    )
    try:
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
            connection.execute("SET default_transaction_read_only = on")

            def writes_of(thread_id: str) -> list[_Write]:
                return [_Write(*row.values()) for row in connection.execute(query, (thread_id,))]

            rows = connection.execute(cast("Any", _THREADS)).fetchall()
            threads = [str(row["thread_id"]) for row in rows]
            return _import(store, _Source(PostgresSaver(connection), threads, writes_of))
    except psycopg.Error as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise AmuxError(
            f"cannot read the checkpoints: {reason}",
            hint="give the URL of a database that `PostgresSaver` wrote",
        ) from error


def _import(store: SessionStore, source: _Source) -> MigrationReport:
    report = MigrationReport(framework=NAMESPACE)
    for thread_id in source.threads:
        if store.log.find(NAMESPACE, (thread_id,)) is not None:
            report.skipped.append(thread_id)
            continue
        clock = _Clock()
        with SessionStore("memory:", now=clock) as staging:
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
    checkpoints = sorted(source.saver.list(config), key=_place)
    for each in checkpoints:
        checkpoint_id, ns = _place(each)
        clock.time = moment_of(each.checkpoint["ts"]) or clock.time
        parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        known = versions.get((ns, parent), {})
        current = each.checkpoint["channel_versions"]
        changed = {name: value for name, value in current.items() if known.get(name) != value}
        staged.put(_config(thread_id, ns, parent), each.checkpoint, each.metadata, changed)
        versions[ns, checkpoint_id] = current
        own = writes.pop((ns, checkpoint_id), [])
        _copy_writes(staged, _config(thread_id, ns, checkpoint_id), own, report)
    for (ns, checkpoint_id), own in writes.items():  # their checkpoints were never stored
        _copy_writes(staged, _config(thread_id, ns, checkpoint_id), own, report)
    return len(checkpoints)


def _place(checkpoint: CheckpointTuple) -> tuple[str, str]:
    """Return the id and the namespace of a checkpoint: ids increase with time."""
    place = checkpoint.config["configurable"]
    return place["checkpoint_id"], place["checkpoint_ns"]


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
        except (ValueError, TypeError, ImportError, msgspec.DecodeError) as error:
            report.problem(f"writes of task `{task_id}` cannot be read: {error}")
            continue
        staged.put_writes(config, values, task_id, task_path)


def _by_task(writes: Sequence[_Write]) -> Iterator[tuple[tuple[str, str], Iterator[_Write]]]:
    return groupby(writes, lambda each: (each.task_id, each.task_path))


def _store(
    store: SessionStore, staging: SessionStore, thread_id: str, count: int, report: MigrationReport
) -> None:
    """Store a thread that was built elsewhere, in one step."""
    found = staging.log.find(NAMESPACE, (thread_id,))
    if found is None:
        return
    records = copied_records(staging.log, found)
    for blob in {blob for record in records for blob in record.blobs}:
        store.log.put_blob(staging.log.get_blob(blob))
    try:
        store.log.create(staging.log.meta(found), records)
    except ConflictError:
        report.skipped.append(thread_id)
    except (StoreError, ValidationError) as error:
        report.problem(f"thread `{thread_id}` cannot be stored: {error}")
    else:
        report.imported.append(found)
        report.records += count
