"""Collects model calls: most are recorded twice, in a telemetry event and in the answer's line.

The events are more complete (retries, helpers, compressions), but older versions have none. An
answer and an event with equal token counts are one call. Calls of a sub-agent that has its own
file are collected separately: they belong to the sub-agent. Its file repeats them without the ids
of the events, so the keys of both are built from the token counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from amux.adapters._kit.values import mapping, moment, text
from amux.adapters.gemini.records import API_FIELDS, TELEMETRY_FIELDS, Counts, counts_of
from amux.adapters.qwen.records import Entry
from amux.model.usage import Call, Purpose, Tokens

_Figures = tuple[int, int, int, int]


class FigureKeys:
    """Builds keys for calls without an id from their owner, token counts and a sequence number."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, _Figures]] = Counter()

    def next_key(self, owner: str, counts: Counts) -> str:
        """Return the key of the next call with these token counts."""
        figures = _figures(counts)
        self._seen[owner, figures] += 1
        return f"{owner}:{':'.join(map(str, figures))}#{self._seen[owner, figures]}"


def _figures(counts: Counts) -> _Figures:
    return (counts.prompt, counts.candidates, counts.cached, counts.thoughts or 0)


def billed(counts: Counts) -> Tokens:
    """Return the tokens of a call; over the OpenAI protocol the output includes the thoughts."""
    return counts.tokens(thoughts_beside=False)


def usage_of(entry: Entry) -> Counts | None:
    """Return the token counts in the line of an answer; None if it has none."""
    return counts_of(mapping(entry.line.usage_metadata), API_FIELDS)


class CallBook:
    """Collects the calls of one transcript."""

    def __init__(self, has_file: Callable[[str], bool]) -> None:
        self.delegated: dict[str, list[Call]] = {}  # sub-agent -> its calls
        self._has_file = has_file
        self._figure_keys = FigureKeys()
        self._calls: dict[str, Call] = {}
        self._events: dict[_Figures, list[str]] = {}  # calls without an answer so far
        self._answers: dict[_Figures, list[str]] = {}  # calls without an event so far

    def event(self, entry: Entry, event: Mapping[str, Any]) -> None:
        """Add the call of a telemetry event."""
        counts = counts_of(dict(event), TELEMETRY_FIELDS)
        if counts is None:
            return
        agent = text(event.get("subagent_id"))
        owner = agent if agent is not None and self._has_file(agent) else None
        if owner is not None and entry.copied:
            return  # the file and its calls belong to the origin of the fork
        response = text(event.get("response_id"))
        if owner is not None:
            key = self._figure_keys.next_key(owner, counts)
        else:
            figures = ":".join(map(str, _figures(counts)))
            key = entry.id if response is None else f"{response}:{figures}"
        call = Call(
            key=key,
            model=text(event.get("model")),
            at=moment(event.get("event.timestamp")) or entry.at,
            tokens=billed(counts),
            purpose=_purpose(event) if owner is None else "subagent",
            copied=entry.copied,
            gaps=counts.gaps,
        )
        if owner is not None:
            self.delegated.setdefault(owner, []).append(call)
            return
        if call.key in self._calls:
            return
        waiting = self._answers.get(_figures(counts))
        if waiting:
            answer = self._calls.pop(waiting.pop(0))
            call = replace(call, message_id=answer.message_id, repeats=1)
        elif agent is None:
            self._events.setdefault(_figures(counts), []).append(call.key)
        self._calls[call.key] = call

    def answer(self, entry: Entry, counts: Counts, message_id: str) -> None:
        """Add the usage of an answer."""
        events = self._events.get(_figures(counts))
        if events:
            key = events.pop(0)
            self._calls[key] = replace(self._calls[key], message_id=message_id, repeats=1)
            return
        self._calls[entry.id] = Call(
            key=entry.id,
            model=text(entry.line.model),
            at=entry.at,
            tokens=billed(counts),
            message_id=message_id,
            copied=entry.copied,
            gaps=counts.gaps,
        )
        self._answers.setdefault(_figures(counts), []).append(entry.id)

    def own_calls(self) -> tuple[Call, ...]:
        """Return all calls except those of sub-agents that have their own files."""
        return tuple(self._calls.values())


def _purpose(event: Mapping[str, Any]) -> Purpose:
    if (text(event.get("prompt_id")) or "").startswith("compress"):
        return "compaction"
    agent = text(event.get("subagent_name"))
    if agent is None:
        return "main"
    return "auxiliary" if agent.startswith("managed-") else "subagent"
