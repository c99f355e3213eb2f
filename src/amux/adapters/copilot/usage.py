"""Collects usage: one record per model call, one per compaction.

Recorded input includes cache reads and cache writes; output includes reasoning. `processes` counts
the calls of versions that wrote no records.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.values import count, damage_in, mapping, text
from amux.adapters.copilot.events import Event
from amux.model.incomplete import CALL_INTERRUPTED, COMPACTION_NOT_RECORDED, USAGE_NOT_RECORDED
from amux.model.usage import Call, Purpose, Tokens

FIGURES: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


class CallCollector:
    """Collects the calls of one conversation, and the reasons why some may be missing."""

    def __init__(self, *, is_subagent: bool) -> None:
        self.purpose: Purpose = "subagent" if is_subagent else "main"
        self._calls: dict[str, Call] = {}
        self._sources: dict[str, None] = {}
        self._replies: dict[str, str] = {}  # provider's id of a call -> message
        self._api_ids: dict[str, str] = {}  # key of a call -> provider's id
        self._waiting = False
        self._gaps: dict[str, None] = {}
        self.replies = 0
        self.records = 0
        self.covered = 0  # replies whose usage is part of the total of a shutdown

    def take(self, event: Event, *, copied: bool) -> None:
        """Add one event; usage that a copied event lacks is missing in another session."""
        match event.type:
            case "session.usage_record":
                self._record(event, copied=copied)
            case "assistant.message":
                self._waiting = False
                api_id = text(event.data.api_call_id)
                is_new = api_id is None or api_id not in self._replies
                self.replies += is_new and not copied
                if api_id is not None:
                    self._replies.setdefault(api_id, event.name)
            case "assistant.turn_start":
                self._stop_waiting()
                self._waiting = True
            case "user.message" | "session.resume" | "abort":
                self._stop_waiting()
            case "assistant.turn_end" | "session.error" | "session.shutdown":
                self._waiting = False
            case "session.compaction_complete":
                usage = mapping(event.data.compaction_tokens_used)
                if tokens_of(usage).total or damage_in(usage, *FIGURES):
                    self._add(f"compaction:{event.name}", usage, event.at, "compaction")
                else:
                    self._gaps.setdefault(COMPACTION_NOT_RECORDED)
            case _:
                pass

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._gaps.setdefault(CALL_INTERRUPTED)
        self._waiting = False

    def _record(self, event: Event, *, copied: bool) -> None:
        usage = mapping(event.data.usage)
        if not usage:
            return
        self.records += not copied
        self._waiting = False
        accounting = mapping(usage.get("accounting"))
        source = text(accounting.get("sourceSessionId"))
        if source is not None:
            self._sources.pop(source, None)
            self._sources[source] = None
        key = _key(source, accounting, event)
        self._api_ids[key] = text(usage.get("apiCallId")) or ""
        self._add(key, usage, event.at, self.purpose)

    def _add(self, key: str, usage: dict[str, Any], at: datetime | None, purpose: Purpose) -> None:
        tokens, gaps = tokens_of(usage), damage_in(usage, *FIGURES)
        known = self._calls.get(key)
        if known is not None:
            self._calls[key] = msgspec.structs.replace(known, repeats=known.repeats + 1)
        elif tokens.total or gaps:
            self._calls[key] = Call(
                key=key,
                model=text(usage.get("model")),
                at=at,
                tokens=tokens,
                purpose=purpose,
                gaps=gaps,
            )

    def add(self, call: Call) -> None:
        """Add a call that is known from other events than a usage record."""
        self._calls[call.key] = call

    @property
    def sources(self) -> list[str]:
        """The sessions that calls were accounted to, in the order of their last call."""
        return list(self._sources)

    def calls(self, *, copied_before: datetime | None) -> tuple[Call, ...]:
        """Return all calls; those of a fork from before `copied_before` are copies."""
        return tuple(
            msgspec.structs.replace(
                call,
                message_id=call.message_id or self._replies.get(self._api_ids.get(call.key, "")),
                copied=bool(copied_before and call.at and call.at < copied_before),
            )
            for call in self._calls.values()
        )

    def gaps(self) -> tuple[str, ...]:
        """Return the reasons why the usage may be incomplete."""
        self._stop_waiting()
        if self.replies > self.records + self.covered:
            self._gaps.setdefault(USAGE_NOT_RECORDED)
        return tuple(self._gaps)


def _key(source: str | None, accounting: dict[str, Any], event: Event) -> str:
    """Return a key that all copies of a record share and that no two calls have in common."""
    sequence = count(accounting.get("sequence"))
    if source is None or sequence is None:
        return f"event:{event.name}"
    return f"{source}:{sequence}:{text(accounting.get('usageId')) or ''}"


def tokens_of(usage: dict[str, Any]) -> Tokens:
    """Return disjoint buckets of a record whose input includes the cache."""
    everything = count(usage.get("inputTokens")) or 0
    read = count(usage.get("cacheReadTokens")) or 0
    written = count(usage.get("cacheWriteTokens")) or 0
    output = count(usage.get("outputTokens")) or 0
    thinking = count(usage.get("reasoningTokens"))
    return Tokens(
        input=max(0, everything - read - written),
        cache_read=read,
        cache_write=written,
        output=output,
        thinking=None if thinking is None else min(thinking, output),
    )
