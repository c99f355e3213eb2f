"""Reads state.db with a fixed number of statements, for all sessions or for some.

Statements select only columns that exist. Facts are built from the beginnings of texts, even if
whole messages are read, so that they do not depend on what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amux.adapters._kit.tables import Row, SelectedIds, columns, rows
from amux.adapters.hermes.compaction import COLUMNS as REPLAY_COLUMNS
from amux.adapters.hermes.compaction import Replays, find_replays
from amux.adapters.hermes.facts import MessageHead, SessionBuilder
from amux.adapters.hermes.profiles import DEFAULT_PROFILE, Profile
from amux.adapters.hermes.prompts import BLANKS, OPENING_WITHIN, WHOLE_READ
from amux.adapters.hermes.rows import SESSION_COLUMNS, USAGE_COLUMNS, SessionRow, UsageRow
from amux.adapters.hermes.texts import messages_of
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem

if TYPE_CHECKING:
    import sqlite3

_KEYS: Final = ("rowid", "session_id", "role")
_HEAD_COLUMNS: Final = ("tool_call_id", "timestamp", "finish_reason", "observed")
_BODY_COLUMNS: Final[tuple[str, ...]] = (
    "rowid",
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "timestamp",
    "observed",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
)
_PROMPT_BYTES: Final = 20_000  # enough for every title, even after folding of white space
_OTHER_BYTES: Final = 64  # enough to recognise a summary

_ANCESTORS: Final = """WHERE id IN (WITH RECURSIVE line(id) AS (
    SELECT id FROM sessions WHERE id IN {}
    UNION SELECT child.parent_session_id FROM sessions child JOIN line USING (id))
    SELECT id FROM line)"""
_OPENING: Final = f"""ltrim(substr("content", 1, {OPENING_WITHIN}), '{BLANKS}')"""
_KNOWN: Final = " OR ".join(f"{_OPENING} LIKE '{opening}%'" for opening in WHOLE_READ)
_IS_INJECTED: Final = f"{_OPENING} LIKE '[%' AND ({_KNOWN})"
# The whole content if its beginning is not sufficient: JSON parts, and injected texts with an end.
_HEAD: Final = f"""CASE
    WHEN "role" IN ('user', 'assistant')
        AND (substr(CAST("content" AS BLOB), 1, 6) = x'006A736F6E3A' OR {_IS_INJECTED})
        THEN "content"
    ELSE CAST(substr(CAST("content" AS BLOB), 1,
        CASE "role" WHEN 'user' THEN {_PROMPT_BYTES} ELSE {_OTHER_BYTES} END) AS TEXT) END"""


@dataclass(slots=True)
class DatabaseContents:
    """The contents of a database: sessions in the order of their rows."""

    facts: list[Facts] = field(default_factory=list[Facts])
    messages: dict[str, list[SessionMessage]] = field(
        default_factory=dict[str, list[SessionMessage]]
    )
    problems: list[Problem] = field(default_factory=list[Problem])


def read_sessions(
    connection: sqlite3.Connection,
    path: str,
    *,
    profile: Profile = DEFAULT_PROFILE,
    only: SelectedIds | None = None,
    bodies: bool = False,
) -> DatabaseContents:
    """Return the facts of all sessions, or of some; with `bodies` also the messages of these."""
    store = _Queries(connection, path)
    found = DatabaseContents(problems=store.problems)
    if "id" not in store.session_columns:
        message = "the database has no table `sessions` with a column `id`"
        store.problems.append(Problem(code="unknown-format", message=message, path=path))
        return found
    family = store.sessions(only)
    builders = {
        id: SessionBuilder(row, path, profile)
        for id, row in family.items()
        if only is None or id in only.ids
    }
    for usage in store.usage(only):
        if usage.session_id in builders:
            builders[usage.session_id].usage.append(usage)
    replays = store.replays(only)
    for head in store.heads(only):
        builder = builders.get(head.session_id)
        if builder is None:  # the row of the session is missing, but its messages exist
            builder = SessionBuilder(SessionRow(id=head.session_id), path, profile)
            builders[head.session_id] = builder
        builder.add(head, replays)
    found.facts = [
        builder.facts(family, replays, has_flags="compacted" in store.message_columns)
        for builder in builders.values()
    ]
    for id in only.ids if bodies and only is not None else ():
        found.messages[id] = list(store.messages(id, replays))
    return found


class _Queries:
    """Runs the statements."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self.problems: list[Problem] = []
        self.session_columns = columns(connection, "sessions")
        messages = columns(connection, "messages")
        self.message_columns = ("rowid", *messages) if messages else ()
        self._usage_columns = columns(connection, "session_model_usage")

    def sessions(self, only: SelectedIds | None) -> dict[str, SessionRow]:
        """Return all sessions; or some with their ancestors, which determine their kind."""
        where = ""
        if only is not None:
            has_parents = "parent_session_id" in self.session_columns
            where = _ANCESTORS.format(only.sql) if has_parents else f"WHERE id IN {only.sql}"
        found: dict[str, SessionRow] = {}
        for cells in self._rows("sessions", SESSION_COLUMNS, self.session_columns, where, only):
            row = SessionRow.of(cells)
            if row is None:
                self._skipped("a session without an id")
            else:
                found.setdefault(row.id, row)
        return found

    def usage(self, only: SelectedIds | None) -> Iterator[UsageRow]:
        """Yield usage by model, in the order of its first record."""
        if not {"session_id", "model"} <= set(self._usage_columns):
            return
        where = "" if only is None else f"WHERE session_id IN {only.sql}"
        for cells in self._rows(
            "session_model_usage", USAGE_COLUMNS, self._usage_columns, where, only
        ):
            row = UsageRow.of(cells)
            if row is None:
                self._skipped("usage without a session or a model")
            else:
                yield row

    def replays(self, only: SelectedIds | None) -> Replays:
        """Return the rows that compaction in place repeats; none in older schemas."""
        if not {"compacted", "active", *_KEYS} <= set(self.message_columns):
            return Replays()
        concerned = "SELECT session_id FROM messages WHERE compacted = 1"
        if only is not None:
            concerned += f" AND session_id IN {only.sql}"
        where = f"WHERE session_id IN ({concerned}) AND {self._visible()}"
        return find_replays(
            self._rows("messages", REPLAY_COLUMNS, self.message_columns, where, only)
        )

    def heads(self, only: SelectedIds | None) -> Iterator[MessageHead]:
        """Yield every visible message without its body."""
        names = set(self.message_columns)
        if not names >= set(_KEYS):
            return
        reasoning = [name for name in ("reasoning", "reasoning_content") if name in names]
        chosen = ", ".join(
            (
                *_KEYS,
                _HEAD if "content" in names else "NULL",
                "CAST(tool_calls AS BLOB)" if "tool_calls" in names else "NULL",
                *(name if name in names else "NULL" for name in _HEAD_COLUMNS),
                " OR ".join(f"length({name}) > 0" for name in reasoning) or "NULL",
            )
        )
        statement = f"SELECT {chosen} FROM messages {self._conversation(only)} ORDER BY rowid"  # noqa: S608 - constants
        for cells in self._connection.execute(statement, _bound(only)):
            head = MessageHead.of(cells)
            if head is None:
                self._skipped("a message without a session")
            else:
                yield head

    def messages(self, session_id: str, replays: Replays) -> Iterator[SessionMessage]:
        """Yield the messages of one session."""
        if not set(self.message_columns) >= set(_KEYS):
            return
        names: dict[str, str] = {}
        only = SelectedIds((session_id,))
        where = self._conversation(only)
        for record in self._rows("messages", _BODY_COLUMNS, self.message_columns, where, only):
            id = record["rowid"]
            if isinstance(id, int) and id not in replays.repeated:
                yield from messages_of(
                    record, id=str(id), names=names, only_summary=id in replays.only_summary
                )

    def _conversation(self, only: SelectedIds | None) -> str:
        chosen = "" if only is None else f" AND session_id IN {only.sql}"
        return f"WHERE {self._visible()}{chosen}"

    def _visible(self) -> str:
        """Return the condition of visible rows; neither active nor compacted means undone."""
        if "active" not in self.message_columns:
            return "1"
        compacted = " OR compacted = 1" if "compacted" in self.message_columns else ""
        return f"(active IS NULL OR active <> 0{compacted})"

    def _rows(
        self,
        table: str,
        wanted: Sequence[str],
        present: Sequence[str],
        where: str,
        only: SelectedIds | None,
    ) -> Iterator[Row]:
        names = [name for name in wanted if name in present]
        return rows(
            self._connection, table, names, where=where, order="ORDER BY rowid", values=_bound(only)
        )

    def _skipped(self, what: str) -> None:
        message = f"skipped {what}"
        self.problems.append(Problem(code="bad-record", message=message, path=self._path))


def _bound(only: SelectedIds | None) -> tuple[str, ...]:
    return () if only is None else only.values
