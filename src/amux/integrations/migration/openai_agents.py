"""Imports the sessions of the OpenAI Agents SDK from its SQLite files, without the SDK.

`SQLiteSession` and `AdvancedSQLiteSession` wrote them, under any names of tables. A branch becomes
a thread of its own, as the integration has it, and the usage of its turns is imported with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from amux.errors import ValidationError
from amux.integrations._common import new_meta
from amux.integrations.migration.database import Tables, moment_of, quoted
from amux.integrations.migration.report import MigrationReport
from amux.integrations.openai_agents_thread import FORMAT, NAMESPACE, key_of
from amux.rollout import control
from amux.rollout.formats.base import count_of
from amux.rollout.records import (
    NewRecord,
    PayloadText,
    as_mapping,
    decode_payload,
    new_record_id,
)
from amux.store.session_store import SessionStore

_MESSAGES: Final = frozenset({"id", "session_id", "message_data", "created_at"})
_STRUCTURE: Final = "message_structure"
_USAGE: Final = "turn_usage"
_MAIN: Final = "main"


class _Item(NamedTuple):
    text: str
    created_at: object
    user_turn: int | None  # the number of the user's turn, in files with branches


class _Branch(NamedTuple):
    """A session, or a branch of one, with its items and the usage of its turns."""

    session_id: str
    branch: str
    items: list[_Item]
    usage: Mapping[int, Mapping[str, int]]

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.session_id, *(() if self.branch == _MAIN else (self.branch,)))

    @property
    def name(self) -> str:
        return self.session_id if self.branch == _MAIN else f"{self.session_id} ({self.branch})"


def message_tables(tables: Tables) -> list[str]:
    """Return the tables that hold items."""
    return [name for name, columns in tables.items() if columns >= _MESSAGES]


def import_sessions(
    store: SessionStore, connection: sqlite3.Connection, tables: Tables
) -> MigrationReport:
    """Store every session, and every branch of one, as a thread."""
    report = MigrationReport(framework=NAMESPACE)
    for table in message_tables(tables):
        sessions = connection.execute(
            f"SELECT session_id FROM {quoted(table)} GROUP BY session_id ORDER BY min(id)"  # noqa: S608 - a name of a table
        ).fetchall()
        has_branches = _STRUCTURE in tables
        for (session_id,) in sessions:
            branches = _branches(connection, session_id) if has_branches else [_MAIN]
            for branch in branches:
                items = _items(connection, table, session_id, branch if has_branches else None)
                usage = _usage(connection, session_id, branch) if _USAGE in tables else {}
                found = _Branch(str(session_id), branch, items, usage)
                with report.storing(found.name):
                    _import(store, report, found)
    return report


def _branches(connection: sqlite3.Connection, session_id: str) -> list[str]:
    query = f"SELECT branch_id FROM {_STRUCTURE} WHERE session_id = ? GROUP BY branch_id"  # noqa: S608
    found = [str(row[0]) for row in connection.execute(query, (session_id,))]
    return sorted(found, key=lambda branch: branch != _MAIN) or [_MAIN]


def _items(
    connection: sqlite3.Connection, table: str, session_id: str, branch: str | None
) -> list[_Item]:
    if branch is None:
        query = (
            f"SELECT message_data, created_at, NULL FROM {quoted(table)} "  # noqa: S608 - see above
            "WHERE session_id = ? ORDER BY id"
        )
        return [_Item(*row) for row in connection.execute(query, (session_id,))]
    query = (
        f"SELECT m.message_data, m.created_at, s.user_turn_number FROM {quoted(table)} m "  # noqa: S608
        f"JOIN {_STRUCTURE} s ON s.message_id = m.id "
        "WHERE s.session_id = ? AND s.branch_id = ? ORDER BY s.sequence_number"
    )
    found = [_Item(*row) for row in connection.execute(query, (session_id, branch))]
    return found or _items(connection, table, session_id, None)


def _usage(
    connection: sqlite3.Connection, session_id: str, branch: str
) -> dict[int, dict[str, int]]:
    """Return the usage of the turns of a branch, in counts that do not overlap."""
    query = (
        "SELECT user_turn_number, input_tokens, output_tokens, input_tokens_details, "
        "output_tokens_details FROM turn_usage WHERE session_id = ? AND branch_id = ?"
    )
    found: dict[int, dict[str, int]] = {}
    for number, given, output, inputs, outputs in connection.execute(query, (session_id, branch)):
        read = count_of(_details(inputs).get("cached_tokens"))
        found[number] = {
            "input_tokens": max(0, count_of(given) - read),
            "cache_read_tokens": read,
            "output_tokens": count_of(output),
            "reasoning_tokens": count_of(_details(outputs).get("reasoning_tokens")),
        }
    return found


def _details(text: object) -> Mapping[str, Any]:
    try:
        return as_mapping(decode_payload(str(text)))
    except ValidationError:
        return {}


def _import(store: SessionStore, report: MigrationReport, branch: _Branch) -> None:
    if store.log.find(NAMESPACE, branch.key) is not None:
        report.skipped.append(branch.name)
        return
    records = _records(branch, report)
    extra = {"session_id": branch.session_id}
    meta = new_meta(NAMESPACE, branch.key, payload_format=FORMAT, extra=extra)
    first = next((record.at for record in records if record.at is not None), meta.created_at)
    store.log.create(msgspec.structs.replace(meta, created_at=first), records)
    report.imported.append(meta.thread_id)
    report.records += sum(record.type == "response_item" for record in records)


def _records(branch: _Branch, report: MigrationReport) -> list[NewRecord]:
    """Return the items of a branch; the usage of a turn follows the first item of the turn."""
    records: list[NewRecord] = []
    unbilled = dict(branch.usage)
    for number, item in enumerate(branch.items, 1):
        record = _record(item)
        if record is None:
            report.problem(f"item {number} of session `{branch.name}` is not a JSON object")
            continue
        records.append(record)
        usage = None if item.user_turn is None else unbilled.pop(item.user_turn, None)
        if usage is not None:
            event = control.event(control.USAGE, usage=dict(usage), turn=record.id)
            records.append(msgspec.structs.replace(event, at=record.at))
    return records


def _record(item: _Item) -> NewRecord | None:
    try:
        payload = decode_payload(item.text)
    except (ValidationError, TypeError):
        return None
    if not isinstance(payload, dict):
        return None
    return NewRecord(
        payload=PayloadText(item.text), id=new_record_id(), at=moment_of(item.created_at)
    )
