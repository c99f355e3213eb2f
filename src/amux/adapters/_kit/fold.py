"""Builds the facts of a session from its messages and calls, and samples records of unknown types.

Adapters of large line logs build facts while they scan, without bodies. Adapters of documents and
databases, and those of third parties, use `Fold`; the conformance suite compares the two.

`Unknowns` stores samples of records that amux does not understand, for `Facts.raw`. A hostile file
could contain millions of them, each megabytes long, so their number and size are limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.values import document, to_millis
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, TraceBuilder, key_of
from amux.model.usage import Call

MAX_PROBLEMS = 100
"""Maximum number of problems stored per session; further ones are only counted."""
_MOST_TYPES: Final = 50  # a hostile file could have a new type in every line
_OF_EACH_TYPE: Final = 2
_MOST_SAMPLES: Final = 20
_LARGEST_SAMPLE: Final = 2 << 10
_JSON: Final = (bytes, bytearray, msgspec.Raw)
_NO_JSON: Final = (OverflowError, RecursionError, TypeError, UnicodeError)


def line_kind(message: SessionMessage) -> LineKind:
    """Return the kind of a message in the trace."""
    match message.role:
        case "user":
            return LineKind.INJECTED if message.synthetic else LineKind.PROMPT
        case "assistant":
            return LineKind.NOTICE if message.synthetic else LineKind.REPLY
        case "tool":
            return LineKind.TOOL
        case "system":
            return LineKind.INJECTED if message.synthetic else LineKind.SYSTEM


class Fold:
    """Collects the items of one session; `facts()` returns the result."""

    def __init__(self) -> None:
        self._trace = TraceBuilder()
        self._count = 0
        self._first_prompt: str | None = None
        self._earliest: datetime | None = None
        self._latest: datetime | None = None
        self._models: dict[str, None] = {}
        self._calls: list[Call] = []
        self._problems: list[Problem] = []
        self._problem_count = 0

    def message(self, message: SessionMessage) -> None:
        """Add a message."""
        kind = line_kind(message)
        key = key_of(message.id) if message.id is not None else self._count
        self._count += 1
        self._trace.add(key, to_millis(message.timestamp), kind)
        if kind is LineKind.PROMPT and self._first_prompt is None:
            self._first_prompt = fold_title(message.content) or None
        if kind is LineKind.REPLY and message.model:
            self._models.setdefault(message.model)
        self.moment(message.timestamp)

    def moment(self, at: datetime | None) -> None:
        """Extend the session's time span to include a time; None is ignored."""
        if at is None:
            return
        if self._earliest is None or at < self._earliest:
            self._earliest = at
        if self._latest is None or at > self._latest:
            self._latest = at

    def call(self, call: Call) -> None:
        """Add a call that no longer changes."""
        self._calls.append(call)

    def problem(self, problem: Problem) -> None:
        """Count a problem, and store it unless there are `MAX_PROBLEMS` already."""
        self._problem_count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)

    @property
    def problems(self) -> Sequence[Problem]:
        """The stored problems."""
        return self._problems

    def facts(self, session_id: str, **known: Any) -> Facts:
        """Return the facts; `known` fields that are not None override the collected values."""
        fields: dict[str, Any] = {
            "first_prompt": self._first_prompt,
            "created_at": self._earliest,
            "updated_at": self._latest,
            "trace": self._trace.build(),
            "calls": tuple(self._calls),
            "models": tuple(self._models),
            "problems": tuple(self._problems),
            "problem_count": self._problem_count,
        }
        fields.update({key: value for key, value in known.items() if value is not None})
        return Facts(session_id=session_id, **fields)


def add_messages(
    fold: Fold, messages: Iterable[SessionMessage], *, bodies: bool
) -> Iterator[SessionMessage]:
    """Add messages to a fold, and yield them if `bodies` is true."""
    for message in messages:
        fold.message(message)
        if bodies:
            yield message


def json_of(record: object) -> bytes:
    """Return a record as JSON; b"" if JSON cannot represent it."""
    try:
        return msgspec.json.encode(record)
    except _NO_JSON:
        return b""


def bounded(data: bytes, largest: int) -> Any:
    """Return the value of JSON data; if it is longer than `largest`, its beginning as text."""
    if len(data) <= largest:
        found = document(data)
        if found is not None:
            return found
    return {"truncated": data[:largest].decode("utf-8", "replace")}


class Unknowns(msgspec.Struct):
    """Records of unknown types: the number of each type, and the first records unchanged."""

    counts: dict[str, int] = {}
    records: list[bytes] = []  # as JSON

    def take(self, kind: str, record: object) -> None:
        """Count a record and store it if it is a sample; `record` is a value or JSON bytes."""
        if self.count(kind):
            self.keep(record)

    def count(self, kind: str) -> bool:
        """Count a record; return whether it is one of the first of its type, to be stored."""
        known = self.counts.get(kind, 0)
        if not known and len(self.counts) >= _MOST_TYPES:
            return False
        self.counts[kind] = known + 1
        return known < _OF_EACH_TYPE

    def keep(self, record: object) -> None:
        """Store a record that was counted."""
        if len(self.records) < _MOST_SAMPLES:
            data = bytes(record) if isinstance(record, _JSON) else json_of(record)
            self.records += [data[: _LARGEST_SAMPLE + 1]] if data else []

    def raw(self) -> dict[str, Any]:
        """Return the entries for `Facts.raw`; empty if there are no such records."""
        if not self.counts:
            return {}
        samples = [bounded(data, _LARGEST_SAMPLE) for data in self.records]
        found = {"unknownTypes": dict(sorted(self.counts.items())), "unknownRecords": samples}
        return {name: value for name, value in found.items() if value}


class Pool:
    """Accepts records up to a total number of bytes."""

    def __init__(self, *, largest: int, total: int) -> None:
        self._largest = largest
        self._rest = total

    def take(self, record: object) -> Any:
        """Return the record or its beginning; None if the limit is reached."""
        data = json_of(record)
        size = min(len(data), self._largest)
        if not size or size > self._rest:
            return None
        self._rest -= size
        return bounded(data, self._largest)
