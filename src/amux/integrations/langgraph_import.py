"""Imports the checkpoints of LangGraph's own savers: SQLite files and tables in PostgreSQL.

Values in checkpoints are instances of classes that only Python can make again, so LangGraph reads
them and `AmuxSaver` stores them. Checkpoints come in the order of their ids, parents first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from amux.errors import AmuxError
from amux.integrations.langgraph import AmuxSaver
from amux.integrations.langgraph_threads import NAMESPACE
from amux.integrations.migration.report import MigrationReport
from amux.store.session_store import SessionStore

_WRITES: Final = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, channel, type"


class _Write(NamedTuple):
    """A value that a task wrote to a channel after a checkpoint, still encoded."""

    thread_id: str
    ns: str
    checkpoint_id: str
    task_id: str
    task_path: str
    channel: str
    type: str
    data: bytes


def import_sqlite(
    store: SessionStore, connection: sqlite3.Connection, tables: Mapping[str, frozenset[str]]
) -> MigrationReport:
    """Import the checkpoints of a `SqliteSaver` from a copy of its database."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    columns = _WRITES if "task_path" in tables["writes"] else _WRITES.replace("task_path", "''")
    query = f"SELECT {columns}, value FROM writes ORDER BY 1, 2, 3, 4, idx"  # noqa: S608 - constants
    writes = [_Write(*row) for row in connection.execute(query)]
    return _import(store, SqliteSaver(connection), writes)


def import_postgres(store: SessionStore, url: str) -> MigrationReport:
    """Import the checkpoints of a `PostgresSaver` from its database, which is only read."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    query = f"SELECT {_WRITES}, blob FROM checkpoint_writes ORDER BY 1, 2, 3, 4, idx"  # noqa: S608
    try:
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
            connection.execute("SET default_transaction_read_only = on")
            rows = connection.execute(cast("Any", query)).fetchall()
            writes = [_Write(*row.values()) for row in rows]
            return _import(store, PostgresSaver(connection), writes)
    except psycopg.Error as error:
        raise AmuxError(f"cannot read the checkpoints: {error}") from error


def _import(
    store: SessionStore, source: BaseCheckpointSaver[Any], writes: Iterable[_Write]
) -> MigrationReport:
    report = MigrationReport(framework=NAMESPACE)
    target, serde = AmuxSaver(store), JsonPlusSerializer()
    by_thread = {key: list(each) for key, each in groupby(writes, lambda write: write.thread_id)}
    found = sorted(source.list(None), key=_place)
    for thread_id, checkpoints in groupby(found, lambda each: _place(each)[0]):
        if store.log.find(NAMESPACE, (thread_id,)) is not None:
            report.skipped.append(thread_id)
            continue
        report.records += _copy(target, checkpoints)
        _copy_writes(target, by_thread.get(thread_id, []), serde.loads_typed, report)
        made = store.log.find(NAMESPACE, (thread_id,))
        if made is not None:
            report.imported.append(made)
    return report


def _place(checkpoint: CheckpointTuple) -> tuple[str, str, str]:
    """Return the thread, the id and the namespace of a checkpoint: ids increase with time."""
    place = checkpoint.config["configurable"]
    return str(place["thread_id"]), place["checkpoint_id"], place["checkpoint_ns"]


def _copy(target: AmuxSaver, checkpoints: Iterator[CheckpointTuple]) -> int:
    """Store the checkpoints of one thread and return their number."""
    versions: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    count = 0
    for each in checkpoints:
        _, checkpoint_id, ns = _place(each)
        parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        known = versions.get((ns, parent), {})
        current = each.checkpoint["channel_versions"]
        changed = {name: value for name, value in current.items() if known.get(name) != value}
        config = _config(each.config, ns, parent)
        target.put(config, each.checkpoint, each.metadata, changed)
        versions[ns, checkpoint_id] = current
        count += 1
    return count


def _config(config: RunnableConfig, ns: str, checkpoint_id: str | None) -> RunnableConfig:
    place = {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": ns}
    return {
        "configurable": {**place, **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
    }


def _copy_writes(
    target: AmuxSaver,
    writes: Iterable[_Write],
    load: Callable[[tuple[str, bytes]], Any],
    report: MigrationReport,
) -> None:
    """Store what tasks wrote, with the paths of the tasks."""
    for place, group in groupby(writes, lambda each: each[:5]):
        thread_id, ns, checkpoint_id, task_id, task_path = place
        config: RunnableConfig = {
            "configurable": {
                "thread_id": thread_id,
                "checkpoint_ns": ns,
                "checkpoint_id": checkpoint_id,
            }
        }
        try:
            values = [(each.channel, load((each.type, each.data))) for each in group]
        except (ValueError, TypeError, ImportError, msgspec.DecodeError) as error:
            report.problem(f"writes of task `{task_id}` cannot be read: {error}")
            continue
        target.put_writes(config, values, task_id, task_path)
