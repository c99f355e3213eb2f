"""Folding messages and calls into facts, for sources that are read whole anyway.

Adapters of large line logs build their facts while scanning, without bodies; documents, databases
and third-party adapters use this, and the conformance suite compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from amux.adapters._kit.times import to_millis
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
