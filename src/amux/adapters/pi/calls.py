"""Collects every billed call of a log, on all branches, and detects calls without a record.

A call's key is built from values that copies preserve: the times of its entry and message, and its
token counts. Entry ids do not work: a version 1 log has none, and each copy gets new ids when a
newer version rewrites it. Calls that are equal nevertheless (hand-made logs) are numbered.

A call that was cut off leaves no record; it is detected by a question without an answer. Copied
lines are ignored: an answer that is missing there is missing in another session.

An answer that was imported from Claude Code is one entry per content block, and each repeats the
usage of the call. The id of the answer, which is its key in both agents, makes them one.
"""

from __future__ import annotations

import re
from array import array
from typing import Any, Final

import msgspec

from amux.adapters._kit.usage import gaps_in, money_in, tokens_in
from amux.adapters._kit.values import count, is_mapping, text
from amux.adapters.pi.imports import is_imported
from amux.adapters.pi.records import FAILED_STOPS, Entry, Message
from amux.model.incomplete import (
    CALL_INTERRUPTED,
    COMPACTION_NOT_RECORDED,
    HELPER_CALL_NOT_RECORDED,
    OUTPUT_OVERSTATED,
    USAGE_NOT_RECORDED,
)
from amux.model.trace import LineKind, key_of
from amux.model.usage import Call, Purpose, Tokens

_MAX_COPY_KEYS: Final = 32
_GENERATED_ID: Final = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")
_SUMMARY_GAPS: Final = {
    "compaction": COMPACTION_NOT_RECORDED,
    "branch_summary": HELPER_CALL_NOT_RECORDED,
}


class CallCollector:
    """Collects the calls and gaps of one log in the order of its lines."""

    def __init__(self, purpose: Purpose, *, doubles_reasoning: bool = False) -> None:
        self._purpose: Purpose = purpose
        self._doubles_reasoning = doubles_reasoning
        self.calls: list[Call] = []
        self.gaps: dict[str, None] = {}
        self.imported: dict[str, Call] = {}  # calls of another agent, by key
        self.imports_lack_usage = False
        self._repeats: dict[str, int] = {}
        self._by_id: list[int] = []
        self._by_key: list[int] = []

    def identity(self, *, is_copy: bool) -> bytes:
        """Return keys that only copies of this log share: generated entry ids with their times.

        A log without such ids is identified by its call keys, but only if it is known to be a copy:
        hand-made logs may agree in everything that is recorded.
        """
        return array("q", self._by_id or (self._by_key if is_copy else [])).tobytes()

    def reply(self, entry: Entry, message_id: str, *, spoke: bool, copied: bool) -> bool:
        """Add the call of an assistant message; return False if no usage was recorded.

        A message without content may be a failed call.
        """
        failed = text(entry.message.stop_reason) in FAILED_STOPS
        gaps = (CALL_INTERRUPTED,) if failed else ()
        if self._doubles_reasoning and entry.doubles_reasoning:
            has_figure = tokens_of(usage_of(entry.message)).thinking is not None
            gaps = gaps if has_figure else (*gaps, OUTPUT_OVERSTATED)
        call = call_of(entry, self._purpose, gaps)
        if call is not None:
            call = msgspec.structs.replace(call, message_id=message_id, copied=copied)
        if is_imported(entry.id):
            self._import(entry, call, spoke=spoke)
        elif call is not None:
            self._add(entry, call)
        elif spoke and not copied:
            self.gaps.setdefault(CALL_INTERRUPTED if failed else USAGE_NOT_RECORDED)
        return call is not None

    def summary(self, entry: Entry, *, copied: bool) -> None:
        """Add the call that wrote a summary; older versions do not record its usage."""
        call = call_of(entry, "compaction")
        if is_imported(entry.id):
            self._import(entry, call, spoke=True)
        elif call is not None:
            self._add(entry, msgspec.structs.replace(call, copied=copied))
        elif not copied:
            self.gaps.setdefault(_SUMMARY_GAPS[entry.type])

    def helper(self, entry: Entry, *, copied: bool) -> None:
        """Add a call without a message: a classifier, a cache refresh, or a call of a tool."""
        call = call_of(entry, "auxiliary")
        if call is not None:
            self._add(entry, msgspec.structs.replace(call, copied=copied))

    def _import(self, entry: Entry, call: Call | None, *, spoke: bool) -> None:
        """Add an imported call; of its entries, the one with the largest output counts."""
        if call is None:
            self.imports_lack_usage |= spoke
            return
        key = text(entry.message.response_id) or call.key
        self._identify(entry, key)
        known = self.imported.get(key)
        repeats = 0 if known is None else known.repeats + 1
        if known is not None and known.tokens.output > call.tokens.output:
            call = known
        self.imported[key] = msgspec.structs.replace(call, key=key, repeats=repeats)

    def keep_imported(self) -> None:
        """Count the imported calls in this log, because their original is gone."""
        self.calls[:0] = self.imported.values()
        if self.imports_lack_usage:
            self.gaps.setdefault(USAGE_NOT_RECORDED)

    def _add(self, entry: Entry, call: Call) -> None:
        repeat = self._repeats.get(call.key, 0)
        self._repeats[call.key] = repeat + 1
        if repeat:
            call = msgspec.structs.replace(call, key=f"{call.key}#{repeat}")
        self._identify(entry, call.key)
        self.calls.append(call)

    def _identify(self, entry: Entry, key: str) -> None:
        if len(self._by_key) < _MAX_COPY_KEYS:
            self._by_key.append(key_of(key))
            id = entry.id
            if id is not None and (_GENERATED_ID.fullmatch(id) or is_imported(id)):
                self._by_id.append(key_of(f"{id}|{entry.stamp}"))


def call_of(entry: Entry, purpose: Purpose, gaps: tuple[str, ...] = ()) -> Call | None:
    """Return the call that an entry records; None if it has no usage, or only zeros."""
    usage = usage_of(entry.message)
    tokens = tokens_of(usage) if usage else Tokens()
    # A cost of 0 means that the agent knew no price.
    nusd = money_in(usage) or money_in({"cost": entry.message.cost}) or None
    damage = gaps_in(usage)
    if tokens.total == 0 and not damage:
        if nusd is None:
            return None
        gaps = gaps or (USAGE_NOT_RECORDED,)
    name = entry.stamp or entry.id or f"line-{entry.number}"
    figures = (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output)
    return Call(
        key=f"{name}|{':'.join(map(str, figures))}",
        model=text(entry.message.model) or text(entry.line.model),
        at=entry.at,
        tokens=tokens,
        native_nusd=nusd,
        purpose=purpose,
        gaps=(*gaps, *damage),
    )


def usage_of(message: Message) -> dict[str, Any]:
    """Return the usage object of a message, under any of its names, or an empty dict."""
    for value in (message.usage, message.token_usage, message.token_usage_, message.tokens):
        if is_mapping(value):
            return value
    return {}


def tokens_of(usage: dict[str, Any]) -> Tokens:
    """Return disjoint buckets: input excludes the cache, reasoning is part of the output."""
    tokens = tokens_in(usage)
    kept = min(tokens.cache_write, count(usage.get("cacheWrite1h")) or 0)
    return msgspec.structs.replace(tokens, cache_write_1h=kept) if kept else tokens


class ExpectedAnswers:
    """Tracks prompts without an answer and tool results without a call, in the order of lines."""

    def __init__(self) -> None:
        self._model_is_asked = False
        self._by_person = False
        self._was_interrupted = False
        self._tool_calls: set[str] = set()
        self._unknown_calls: list[tuple[str, int]] = []

    @property
    def misses_an_answer(self) -> bool:
        """Whether a question to the model has no recorded answer."""
        return self._was_interrupted or self._model_is_asked

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model has called any tool."""
        return bool(self._tool_calls)

    def take(self, entry: Entry, kind: LineKind, *, copied: bool) -> None:
        """Add one message."""
        if kind in {LineKind.REPLY, LineKind.NOTICE}:
            self.stop_waiting()
            calls = (text(block.id) for block in entry.blocks if block.type == "toolCall")
            self._tool_calls.update(call or "" for call in calls)
        elif kind is LineKind.PROMPT:
            self._was_interrupted |= self._model_is_asked and self._by_person
            self._expect(by_person=True, copied=copied)
        elif kind is LineKind.TOOL:
            self._expect(by_person=False, copied=copied)
            call = text(entry.message.tool_call_id) or ""
            if call not in self._tool_calls:
                self._unknown_calls.append((call, entry.number))
        elif entry.role == "user":
            self._expect(by_person=False, copied=copied)

    def _expect(self, *, by_person: bool, copied: bool) -> None:
        self._model_is_asked, self._by_person = not copied, by_person

    def stop_waiting(self) -> None:
        """Expect no answer any more: the model answered, or the agent exited normally."""
        self._model_is_asked = False

    def orphans(self) -> list[int]:
        """Return the numbers of the lines with a tool result that belongs to no call of the log."""
        return [number for call, number in self._unknown_calls if call not in self._tool_calls]
