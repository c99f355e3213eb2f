"""Imports the sessions of the Agent Development Kit from its databases, without the kit.

`SqliteSessionService` and `DatabaseSessionService` wrote them, in SQLite files or in PostgreSQL.
From a file, events come in the order in which they were appended, whatever their timestamps say;
PostgreSQL does not keep that order, so that they come in the order in which the kit reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from amux.errors import ValidationError
from amux.integrations._common import new_meta
from amux.integrations.adk_state import EMPTY, STATE_FORMAT, as_delta, as_register
from amux.integrations.migration.database import Rows, Tables, moment_of
from amux.integrations.migration.report import MigrationReport
from amux.rollout.records import (
    MAX_ID_LENGTH,
    NewRecord,
    as_mapping,
    decode_payload,
    encode_payload,
)
from amux.store.session_store import SessionStore

NAMESPACE: Final = "google-adk"
FORMAT: Final = "adk-event"

_SESSIONS: Final = frozenset({"app_name", "user_id", "id", "state", "create_time"})
_EVENTS: Final = frozenset({"app_name", "user_id", "session_id", "id", "timestamp"})
_STATE: Final = "CAST(state AS TEXT)"  # PostgreSQL has it as JSON
_WORD: Final = re.compile(r"_([a-z0-9])")
_FIRST_EVENT: Final = 3  # after the meta data and the register
_LONGEST_ID: Final = MAX_ID_LENGTH - 17
_PLAIN_PARTS: Final = frozenset({"args", "response"})  # their keys are those of a tool


class _StateRow(NamedTuple):
    """The state of a user, or of an application."""

    state: object
    updated: object
    app: str
    user: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.app,) if self.user is None else (self.app, self.user)

    @property
    def name(self) -> str:
        return f"the state of {'/'.join(self.key)}"


class _SessionRow(NamedTuple):
    app: str
    user: str
    session: str
    state: object
    created: object
    updated: object

    @property
    def key(self) -> tuple[str, str, str]:
        return self.app, self.user, self.session

    @property
    def name(self) -> str:
        return "/".join(self.key)


def has_tables(tables: Tables) -> bool:
    """Return whether a database holds sessions of the kit."""
    return (
        tables.get("sessions", frozenset()) >= _SESSIONS
        and tables.get("events", frozenset()) >= _EVENTS
    )


def import_sessions(store: SessionStore, rows: Rows, tables: Tables) -> MigrationReport:
    """Store every session, and the states of users and applications, as threads."""
    if "event_data" not in tables["events"]:
        raise ValidationError(
            "the events in this database are pickled Python objects, which amux never loads",
            fields=("origin",),
            hint="convert it with the migration of the kit: `adk migrate session`",
        )
    report = MigrationReport(framework=NAMESPACE)
    for table, names in (("app_states", "app_name"), ("user_states", "app_name, user_id")):
        if table in tables:
            query = f"SELECT {_STATE}, update_time, {names} FROM {table}"  # noqa: S608 - constants
            for row in (_StateRow(*each) for each in rows.fetch(query)):
                with report.storing(row.name):
                    _import_state(store, report, row)
    query = (
        f"SELECT app_name, user_id, id, {_STATE}, create_time, update_time FROM sessions "  # noqa: S608 - constants
        f"ORDER BY {rows.row_number or 'create_time'}"
    )
    for session in (_SessionRow(*each) for each in rows.fetch(query)):
        with report.storing(session.name):
            _import_session(store, report, session, rows)
    return report


def _import_state(store: SessionStore, report: MigrationReport, row: _StateRow) -> None:
    values = _object(row.state)
    if not values:
        return
    if store.log.find(NAMESPACE, row.key) is not None:
        report.skipped.append(row.name)
        return
    at = moment_of(row.updated)
    meta = new_meta(NAMESPACE, row.key, payload_format=STATE_FORMAT, user_id=row.user)
    record = msgspec.structs.replace(as_delta(values, None), at=at)
    store.log.create(msgspec.structs.replace(meta, created_at=at or meta.created_at), (record,))


def _import_session(
    store: SessionStore, report: MigrationReport, row: _SessionRow, rows: Rows
) -> None:
    if store.log.find(NAMESPACE, row.key) is not None:
        report.skipped.append(row.name)
        return
    created, updated = moment_of(row.created), moment_of(row.updated)
    events = list(_events(rows, row, report))
    changed = updated or created
    start = EMPTY._replace(updated_at=changed.timestamp() if changed else 0.0)
    last = _FIRST_EVENT + len(events) - 1
    end = start._replace(
        head=last, revision=last if events else 0, text=encode_payload(_object(row.state))
    )
    meta = new_meta(NAMESPACE, row.key, payload_format=FORMAT, user_id=row.user)
    meta = msgspec.structs.replace(meta, created_at=created or meta.created_at)
    store.log.create(meta, [as_register(start), *events, as_register(end)])
    report.imported.append(meta.thread_id)
    report.records += len(events)


def _events(rows: Rows, row: _SessionRow, report: MigrationReport) -> Iterator[NewRecord]:
    query = (
        "SELECT id, invocation_id, timestamp, CAST(event_data AS TEXT) FROM events "  # noqa: S608 - constants
        "WHERE app_name = ? AND user_id = ? AND session_id = ? "
        f"ORDER BY {rows.row_number or 'timestamp, id'}"
    )
    for event_id, invocation, timestamp, data in rows.fetch(query, row.key):
        event = _object(data)
        if not event:
            report.problem(f"event `{event_id}` of session `{row.name}` is not a JSON object")
            continue
        at = moment_of(event.get("timestamp", timestamp))
        known = {"id": event_id, "invocationId": invocation}
        if at is not None:
            known["timestamp"] = event.get("timestamp", at.timestamp())
        yield NewRecord(
            payload={**_with_aliases(event), **known},
            id=event_id if 0 < len(str(event_id)) <= _LONGEST_ID else None,
            at=at,
        )


def _object(text: object) -> Mapping[str, Any]:
    try:
        return as_mapping(decode_payload(str(text)))
    except ValidationError:
        return {}


def _with_aliases(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with the names that the kit writes in JSON: `functionCall`, not `_call`.

    Only the fields of the kit are renamed. Keys of states and of the arguments and results of tools
    stay as they are.
    """
    renamed = _camel(event)
    for name in ("actions", "usageMetadata"):
        if as_mapping(renamed.get(name)):
            renamed[name] = _camel(renamed[name])
    content = as_mapping(renamed.get("content"))
    if isinstance(content.get("parts"), list):
        renamed["content"] = {**content, "parts": [_part(each) for each in content["parts"]]}
    return renamed


def _part(part: object) -> Any:
    fields = as_mapping(part)
    if not fields:
        return part
    return {
        name: {
            **{key: each for key, each in as_mapping(value).items() if key in _PLAIN_PARTS},
            **_camel(
                {key: each for key, each in as_mapping(value).items() if key not in _PLAIN_PARTS}
            ),
        }
        if as_mapping(value)
        else value
        for name, value in _camel(fields).items()
    }


def _camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {_WORD.sub(lambda found: found[1].upper(), name): each for name, each in fields.items()}
