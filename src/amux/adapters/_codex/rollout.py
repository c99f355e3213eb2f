"""One rollout, record by record: the place where all rules meet.

The same rules run in both modes; without bodies they only build no message. A record of a shape
that cannot be read costs that record and is reported.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item
from amux.adapters._codex.conversation import Conversation
from amux.adapters._codex.lineage import Lineage, file_name, is_migrated_id
from amux.adapters._codex.records import (
    CALL_TYPES,
    COMPACTED,
    EVENT,
    IGNORED,
    META,
    OUTPUT_TYPES,
    RESPONSE_ITEM,
    TURN_CONTEXT,
    USAGE_RECORD,
    Event,
    Record,
    ResponseItem,
    TurnItem,
    decode,
)
from amux.adapters._codex.texts import is_injected, joined
from amux.adapters._codex.tools import Tools, tool_message, was_aborted
from amux.adapters._codex.usage import Billing, Ledger
from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.model.trace import key_of
from amux.model.usage import Call

_IDENTITY_MARKS: Final = 32
_UNKNOWN_TYPES: Final = 50  # a hostile file could have a new type in every line
_TURN_EVENTS: Final = frozenset({"task_started", "turn_started"})
_TURN_ENDS: Final = frozenset({"task_complete", "turn_complete", "thread_rolled_back"})


def read_rollout(
    records: Iterable[Record | Problem], *, path: Path, bodies: bool, archived: bool
) -> Iterator[Item]:
    """Stream one rollout: head, messages and calls, facts; problems where they turn up."""
    rollout = _Rollout(path, bodies=bodies)
    given = 0
    begun = False
    for record in records:
        problem = record if isinstance(record, Problem) else rollout.take(record)
        if not begun and rollout.begun:
            begun = True
            yield Head(session_id=rollout.lineage.session_id)
        if problem is not None:
            rollout.note(problem)
            yield problem
        if bodies:
            yield from rollout.conversation.drain()
        # The newest call may still turn out to be a compaction's.
        while given < len(rollout.ledger.calls) - 1:
            yield rollout.ledger.calls[given]
            given += 1
    if not begun:
        if rollout.is_closed_to_us:
            return
        message = "no record of a Codex session was found"
        yield Problem(code="unknown-format", message=message, path=str(path))
        return
    rollout.conversation.end_turn()
    yield from rollout.conversation.drain()
    yield from rollout.ledger.calls[given:]
    yield rollout.facts(archived=archived)


class _Rollout:
    """All that is known of a file while it is read."""

    def __init__(self, path: Path, *, bodies: bool) -> None:
        self.lineage = Lineage(file_name(path))
        self.ledger = Ledger()
        self.conversation = Conversation(self.ledger, bodies=bodies)
        self.begun = False
        self.is_closed_to_us = False  # the operating system or a missing decoder stood in the way
        self._bodies = bodies
        self._path = str(path)
        self._tools = Tools()
        self._intact = True  # nothing unreadable so far
        self._spoken = False
        self._after_compaction = False
        self._name: str | None = None
        self._effort: str | None = None
        self._first_at: datetime | None = None
        self._last_at: datetime | None = None
        self._models: dict[str, None] = {}
        self._identity: dict[int, None] = {}
        self._migrated = False
        self._unknown: dict[str, int] = {}
        self._problems: list[Problem] = []
        self._problem_count = 0

    def note(self, problem: Problem) -> None:
        """Remember that something could not be read."""
        self._intact = False
        self.is_closed_to_us |= problem.code in {"unreadable", "decoder-missing"}
        self._problem_count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)

    def take(self, record: Record) -> Problem | None:
        """Apply one record; a problem when it cannot be understood."""
        self._first_at = self._first_at or record.at
        self._last_at = record.at or self._last_at
        position = self.conversation.place(record)
        try:
            return self._dispatch(record, position)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            message = f"a {record.kind} record has an unexpected shape ({error})"
            return Problem(code="bad-record", message=message, path=self._path, line=record.line)

    def _dispatch(self, record: Record, position: int) -> Problem | None:
        kind = record.kind
        if kind == "session_meta":
            self._meta(record)
        elif kind == "response_item":
            return self._item(record, position)
        elif kind == "event_msg":
            self._event(record, position)
        elif record.key < self.lineage.own_from:
            return None
        elif kind == "turn_context":
            self._turn_context(record)
        elif kind == "token_usage_record":
            self._bill(
                self.ledger.record(decode(record.payload, USAGE_RECORD), self._billing(record))
            )
        elif kind == "compacted":
            self._after_compaction = True
            message = decode(record.payload, COMPACTED).message
            self.conversation.compacted(position, record, message)
        else:
            self._pass_over(kind)
            return None
        self.begun = True
        return None

    def _meta(self, record: Record) -> None:
        meta = decode(record.payload, META)
        first_line = self._intact and not self.begun
        self.lineage.take(meta, first_line=first_line, begun=self.begun)
        prefix = self.lineage.prefix
        if self.ledger.calls:
            return
        if prefix is not None:
            self.ledger.seed(f"{prefix.of}:{prefix.until}", continues=True)
        elif self.lineage.kind == "subagent":
            # Siblings may be billed alike; only a file that repeats its parent needs its keys.
            seed = "" if self.lineage.replays else self.lineage.session_id
            self.ledger.seed(seed, continues=False)

    def _turn_context(self, record: Record) -> None:
        context = decode(record.payload, TURN_CONTEXT)
        self._migrated |= record.numbered and is_migrated_id(context.turn_id)
        self._effort = context.effort or self._effort
        self.conversation.close()
        if context.model:
            self.conversation.model = context.model
            self._models[context.model] = None

    # response items

    def _item(self, record: Record, position: int) -> Problem | None:
        item = decode(record.payload, RESPONSE_ITEM)
        self.begun = True
        if record.key < self.lineage.own_from:
            return None
        self._identify(item)
        if item.type == "message":
            self._message(record, position, item)
        elif item.type == "reasoning":
            self._spoken = True
            self.conversation.thought(position, record, item)
        elif item.type in CALL_TYPES:
            self._spoken = True
            name = self._tools.called(item)
            self.conversation.tool_call(position, record, item, name=name)
        elif item.type in OUTPUT_TYPES:
            return self._output(record, position, item)
        elif item.type == "agent_message":
            self.conversation.injected(position, record, item, role="user")
        else:
            self._pass_over(f"response_item/{item.type}")
        return None

    def _message(self, record: Record, position: int, item: ResponseItem) -> None:
        if item.role == "assistant":
            self._spoken = True
            self.conversation.answer(position, record, item)
        elif item.role == "user":
            self.conversation.said_by_user(position, record, item)
        else:
            self.conversation.injected(position, record, item, role="system")

    def _output(self, record: Record, position: int, item: ResponseItem) -> Problem | None:
        name, failed = self._tools.returned(item)
        self.conversation.gaps.tool_returned(aborted=was_aborted(item.output))
        message = tool_message(record, item, name=name, failed=failed) if self._bodies else None
        self.conversation.tool_message(position, message)
        if name is not None:
            return None
        return Problem(
            code="orphan-result",
            message="a tool's output without its call",
            path=self._path,
            line=record.line,
        )

    def _identify(self, item: ResponseItem) -> None:
        """Collect marks that only a copy of this file can share."""
        if len(self._identity) >= _IDENTITY_MARKS:
            return
        for mark in (item.call_id, bytes(item.encrypted_content).decode("utf-8", "replace")):
            if mark and mark != "null":
                self._identity[key_of(mark)] = None

    # events

    def _event(self, record: Record, position: int) -> None:
        event = decode(record.payload, EVENT)
        self.begun = True
        if record.key < self.lineage.own_from:
            return
        if event.item is not None:
            self._turn_item(record, position, event.item)
            self._migrated |= record.numbered and is_migrated_id(event.turn_id)
            return
        self._legacy_event(record, position, event)

    def _legacy_event(self, record: Record, position: int, event: Event) -> None:
        conversation = self.conversation
        if event.type == "token_count":
            if event.info is not None:
                self._bill(self.ledger.count(event.info, self._billing(record)))
        elif event.type == "user_message":
            text = joined(event.message)
            if event.kind in {None, "plain"} and not is_injected(text):
                conversation.prompt_event(position, record, text)
        elif event.type == "agent_reasoning":
            conversation.thought_event(position, record, event.text)
        elif event.type == "agent_message":
            if not self._after_compaction:  # older versions announce the end of a compaction so
                conversation.answer_event()
        elif event.type == "thread_name_updated":
            if event.thread_id in {None, self.lineage.session_id}:
                self._name = event.thread_name or self._name
        else:
            self._turn_event(event)
            return
        self._after_compaction = False

    def _turn_event(self, event: Event) -> None:
        if event.type == "turn_aborted":
            self.conversation.end_turn(aborted=True)
        elif event.type in _TURN_ENDS:
            self.conversation.end_turn()
        elif event.type in _TURN_EVENTS:
            self.conversation.close()
        else:
            self._pass_over(f"event_msg/{event.type}")

    def _turn_item(self, record: Record, position: int, item: TurnItem) -> None:
        self._migrated |= record.numbered and is_migrated_id(item.id)
        if item.type == "UserMessage":
            self.conversation.prompt_event(position, record, joined(item.content))
        elif item.type == "Reasoning":
            self.conversation.thought_event(position, record, item.summary_text)
        elif item.type == "AgentMessage":
            self.conversation.answer_event()
        else:
            self._tools.reported(item)

    # usage

    def _billing(self, record: Record) -> Billing:
        return Billing(
            model=self.conversation.model,
            at=record.at,
            purpose="subagent" if self.lineage.kind == "subagent" else "main",
            session_id=self.lineage.session_id,
            model_has_spoken=self._spoken,
        )

    def _bill(self, call: Call | None) -> None:
        if call is None:
            return
        if not call.key.startswith("tc:") and len(self._identity) < _IDENTITY_MARKS:
            self._identity[key_of(call.key)] = None
        self.conversation.billed(call)

    # what it comes to

    def _pass_over(self, kind: str) -> None:
        if kind not in IGNORED and (kind in self._unknown or len(self._unknown) < _UNKNOWN_TYPES):
            self._unknown[kind] = self._unknown.get(kind, 0) + 1

    def facts(self, *, archived: bool) -> Facts:
        """What the whole file says."""
        lineage, conversation = self.lineage, self.conversation
        billed = {call.model for call in self.ledger.calls}
        return Facts(
            session_id=lineage.session_id,
            aliases=lineage.aliases,
            kind=lineage.kind,
            parent=lineage.parent,
            cwd=lineage.meta.cwd or conversation.cwd,
            name=self._name,
            first_prompt=conversation.first_prompt,
            fallback_title=lineage.nickname,
            created_at=lineage.created_at or self._first_at,
            updated_at=self._last_at or lineage.created_at or self._first_at,
            version=lineage.meta.cli_version,
            archived=archived,
            trace=conversation.trace.build(),
            calls=tuple(self.ledger.calls),
            models=tuple(model for model in self._models if model not in billed),
            identity=array("q", self._identity).tobytes(),
            unnamed_copies=self._migrated,
            prefix=lineage.prefix,
            rollout=lineage.rollout,
            children=tuple(self._tools.children),
            compactions=conversation.compactions,
            gaps=conversation.gaps.finish(),
            problems=tuple(self._problems),
            problem_count=self._problem_count,
            raw=self._raw(),
        )

    def _raw(self) -> dict[str, Any]:
        raw = self.lineage.raw()
        if self._effort:
            raw["effort"] = self._effort
        if self._unknown:
            raw["unknownTypes"] = dict(sorted(self._unknown.items()))
        return raw
