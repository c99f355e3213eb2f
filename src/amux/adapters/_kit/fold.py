"""Folding messages and calls into facts, for sources that are read whole anyway.

Adapters of large line logs build their facts while scanning, without bodies; documents, databases
and third-party adapters use this, and the conformance suite compares the two.

Records kept as they stand, few and small: what is shown of data that is not understood.

A hostile file could hold millions of such records, each of megabytes, and what is kept of them is
read with the facts of the session. So number and size have bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
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
"""Problems kept per session; beyond that they are only counted."""


def mark_of(message: SessionMessage) -> LineKind:
    """What a message is in a trace."""
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
    """Collects what a session's items say; `facts()` closes it."""

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
        """Count a message."""
        mark = mark_of(message)
        key = key_of(message.id) if message.id is not None else self._count
        self._count += 1
        self._trace.add(key, to_millis(message.timestamp), mark)
        if mark is LineKind.PROMPT and self._first_prompt is None:
            self._first_prompt = fold_title(message.content) or None
        if mark is LineKind.REPLY and message.model:
            self._models.setdefault(message.model)
        self.moment(message.timestamp)

    def moment(self, at: datetime | None) -> None:
        """Widen the session's time span."""
        if at is None:
            return
        if self._earliest is None or at < self._earliest:
            self._earliest = at
        if self._latest is None or at > self._latest:
            self._latest = at

    def call(self, call: Call) -> None:
        """Add a settled call."""
        self._calls.append(call)

    def problem(self, problem: Problem) -> None:
        """Keep a problem, up to a bound."""
        self._problem_count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)

    @property
    def problems(self) -> Sequence[Problem]:
        """Those that are kept."""
        return self._problems

    def facts(self, session_id: str, **known: Any) -> Facts:
        """The facts; what the source says outright (`known`) wins over what was folded."""
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


_MOST_TYPES: Final = 50  # a hostile file could have a new type in every line
_OF_EACH_TYPE: Final = 2
_MOST_SAMPLES: Final = 20
_LARGEST_SAMPLE: Final = 2 << 10
_JSON: Final = (bytes, bytearray, msgspec.Raw)
_NO_JSON: Final = (OverflowError, RecursionError, TypeError, UnicodeError)


def json_of(record: object) -> bytes:
    """A record as JSON; nothing for one that JSON cannot hold."""
    try:
        return msgspec.json.encode(record)
    except _NO_JSON:
        return b""


def bounded(data: bytes, largest: int) -> Any:
    """The record of a JSON text; of a longer one its beginning, as text."""
    if len(data) <= largest:
        found = document(data)
        if found is not None:
            return found
    return {"truncated": data[:largest].decode("utf-8", "replace")}


class Unknowns(msgspec.Struct):
    """Records of types that are not known: how many of each, and the first ones as they stand."""

    counts: dict[str, int] = {}
    records: list[bytes] = []  # as JSON

    def take(self, kind: str, record: object) -> None:
        """Count one; `record` is a value, or the bytes of its JSON."""
        if self.count(kind):
            self.keep(record)

    def count(self, kind: str) -> bool:
        """Count one; whether it is one of the first of its type, which are kept."""
        known = self.counts.get(kind, 0)
        if not known and len(self.counts) >= _MOST_TYPES:
            return False
        self.counts[kind] = known + 1
        return known < _OF_EACH_TYPE

    def keep(self, record: object) -> None:
        """Keep one that was counted."""
        if len(self.records) < _MOST_SAMPLES:
            data = bytes(record) if isinstance(record, _JSON) else json_of(record)
            self.records += [data[: _LARGEST_SAMPLE + 1]] if data else []

    def raw(self) -> dict[str, Any]:
        """What `raw` says of them; nothing when there are none."""
        if not self.counts:
            return {}
        samples = [bounded(data, _LARGEST_SAMPLE) for data in self.records]
        found = {"unknownTypes": dict(sorted(self.counts.items())), "unknownRecords": samples}
        return {name: value for name, value in found.items() if value}


class Pool:
    """Takes records until there are too many bytes of them."""

    def __init__(self, *, largest: int, total: int) -> None:
        self._largest = largest
        self._rest = total

    def take(self, record: object) -> Any:
        """The record, or its beginning; None when there is no room any more."""
        data = json_of(record)
        size = min(len(data), self._largest)
        if not size or size > self._rest:
            return None
        self._rest -= size
        return bounded(data, self._largest)
