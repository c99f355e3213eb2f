"""One rollout, record by record: the place where all rules meet.

The same rules run whatever is wanted; without bodies they only build no message, and where only
usage is wanted no trace. A record of a shape that cannot be read costs that record and is reported.
Everything that is known is in plain fields, so that a reading can be put away and taken up again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amux.adapters._codex.conversation import Conversation
from amux.adapters._codex.entries import (
    UNREADABLE,
    AnyEntry,
    CompactedEntry,
    ContextEntry,
    EventEntry,
    ItemEntry,
    MetaEntry,
    Run,
    UsageEntry,
    WorldEntry,
    entry_of,
)
from amux.adapters._codex.lineage import Lineage, file_name, is_migrated_id
from amux.adapters._codex.records import (
    CALL_TYPES,
    IGNORED,
    OUTPUT_TYPES,
    Event,
    Record,
    ResponseItem,
    TurnItem,
)
from amux.adapters._codex.texts import is_injected, joined
from amux.adapters._codex.tools import Tools, tool_message, was_aborted
from amux.adapters._codex.track import Track, time_of
from amux.adapters._codex.usage import Ledger
from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.model.trace import key_of
from amux.model.usage import Call

_IDENTITY_MARKS: Final = 32
_UNKNOWN_TYPES: Final = 50  # a hostile file could have a new type in every line
_COPIED_KINDS: Final = frozenset({"session_meta", "response_item", "event_msg"})
"""Kinds that are looked at even where a sub-agent's file repeats its parent's context."""


@dataclass(slots=True, kw_only=True)
class Rollout:
    """All that is known of a file while it is read."""

    path: str
    lineage: Lineage
    conversation: Conversation
    tools: Tools = field(default_factory=Tools)
    begun: bool = False
    is_closed_to_us: bool = False  # the operating system or a missing decoder stood in the way
    intact: bool = True  # nothing unreadable so far
    own_from: int = 0  # the key before which the lines are those of a parent
    after_compaction: bool = False
    name: str | None = None
    effort: str | None = None
    models: dict[str, None] = field(default_factory=dict[str, None])
    identity: dict[int, None] = field(default_factory=dict[int, None])
    migrated: bool = False
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[Problem] = field(default_factory=list[Problem])
    problem_count: int = 0
    fresh: list[Problem] = field(default_factory=list[Problem])  # not yet told to the reader

    def note(self, problem: Problem) -> None:
        """Remember that something could not be read."""
        self.intact = False
        self.is_closed_to_us |= problem.code in {"unreadable", "decoder-missing"}
        self.problem_count += 1
        self.fresh.append(problem)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    # lines

    def take_run(self, run: Run) -> None:
        """Apply many lines."""
        track = self.conversation.track
        track.line = run.first - 1
        traced = track.traced
        for entry in run.entries:
            track.line = line = track.line + 1
            track.ordinal = ordinal = entry.ordinal
            track.moment = entry.timestamp
            if traced:
                track.place(line if ordinal is None else ordinal)
            else:
                track.position = line
            try:
                _HANDLERS[entry.__class__](self, entry)
            except UNREADABLE as error:
                self._refuse(str(entry.__struct_config__.tag), error)
        self._pass_time(run)

    def take(self, record: Record) -> None:
        """Apply one line of any form."""
        track = self.conversation.track
        track.line = record.line
        track.ordinal = record.key if record.numbered else None
        track.moment = record.at
        track.pass_time(record.at)
        track.place(record.key)
        if record.key < self.own_from and record.kind not in _COPIED_KINDS:
            return
        try:
            entry = entry_of(record)
            if entry is None:
                self._pass_over(record.kind)
            else:
                _HANDLERS[entry.__class__](self, entry)
        except UNREADABLE as error:
            self._refuse(record.kind, error)

    def _pass_time(self, run: Run) -> None:
        """Only the first and the last time of a file are of interest."""
        track = self.conversation.track
        times = (time_of(entry.timestamp) for entry in run.entries)
        if track.first_at is None:
            track.first_at = next(filter(None, times), None)
        times = (time_of(entry.timestamp) for entry in reversed(run.entries))
        track.pass_time(next(filter(None, times), None))

    def _refuse(self, kind: str, error: Exception) -> None:
        message = f"a {kind} record has an unexpected shape ({error})"
        line = self.conversation.track.line
        self.note(Problem(code="bad-record", message=message, path=self.path, line=line))

    def _is_copied(self) -> bool:
        """Whether the line belongs to the context that a sub-agent got from its parent."""
        return self.conversation.track.key < self.own_from

    def _pass_over(self, kind: str) -> None:
        if kind not in IGNORED and (kind in self.unknown or len(self.unknown) < _UNKNOWN_TYPES):
            self.unknown[kind] = self.unknown.get(kind, 0) + 1

    def on_meta(self, entry: MetaEntry) -> None:
        """A `session_meta`: the session's own, or one copied from its parent."""
        lineage, ledger = self.lineage, self.conversation.ledger
        first_line = self.intact and not self.begun
        lineage.take(entry.payload, first_line=first_line, begun=self.begun)
        self.begun = True
        self.own_from = lineage.own_from
        ledger.session_id = lineage.session_id
        ledger.purpose = "subagent" if lineage.kind == "subagent" else "main"
        prefix = lineage.prefix
        if ledger.calls:
            return
        if prefix is not None:
            ledger.seed(f"{prefix.of}:{prefix.until}", continues=True)
        elif lineage.kind == "subagent":
            # Siblings may be billed alike; only a file that repeats its parent needs its keys.
            ledger.seed("" if lineage.replays else lineage.session_id, continues=False)

    def on_context(self, entry: ContextEntry) -> None:
        """A `turn_context`: the model of what follows."""
        if self._is_copied():
            return
        context = entry.payload
        self._mark_migrated(context.turn_id)
        self.effort = context.effort or self.effort
        self.conversation.close()
        if context.model:
            self.conversation.ledger.model = context.model
            self.models[context.model] = None
        self.begun = True

    def on_compacted(self, entry: CompactedEntry) -> None:
        """A summary."""
        if self._is_copied():
            return
        self.after_compaction = True
        self.conversation.compacted(entry.payload.message)
        self.begun = True

    def on_world(self, entry: WorldEntry) -> None:
        """Bookkeeping."""

    def _mark_migrated(self, id: str | None) -> None:
        if self.conversation.track.ordinal is not None and is_migrated_id(id):
            self.migrated = True

    # response items

    def on_item(self, entry: ItemEntry) -> None:
        """A `response_item`."""
        self.begun = True
        if self.own_from and self._is_copied():
            return
        item = entry.payload
        if len(self.identity) < _IDENTITY_MARKS:
            self._identify(item)
        handler = _ITEMS.get(item.type)
        if handler is None:
            self._pass_over(f"response_item/{item.type}")
        else:
            handler(self, item)

    def _message(self, item: ResponseItem) -> None:
        if item.role == "assistant":
            self.conversation.ledger.spoken = True
            self.conversation.answer(item)
        elif item.role == "user":
            self.conversation.said_by_user(item)
        else:
            self.conversation.injected(item, role="system")

    def _reasoning(self, item: ResponseItem) -> None:
        self.conversation.ledger.spoken = True
        self.conversation.thought(item)

    def _tool_call(self, item: ResponseItem) -> None:
        self.conversation.ledger.spoken = True
        name = self.tools.called(item)
        self.conversation.tool_call(item, name=name)

    def _task(self, item: ResponseItem) -> None:
        self.conversation.injected(item, role="user")

    def _output(self, item: ResponseItem) -> None:
        conversation = self.conversation
        name, failed = self.tools.returned(item)
        conversation.gaps.tool_returned(aborted=was_aborted(item.output))
        conversation.tool_returned()
        if conversation.bodies:
            at = conversation.track.at
            conversation.done.append(tool_message(at, item, name=name, failed=failed))
        if name is None:
            message, line = "a tool's output without its call", conversation.track.line
            self.note(Problem(code="orphan-result", message=message, path=self.path, line=line))

    def _identify(self, item: ResponseItem) -> None:
        """Collect marks that only a copy of this file can share."""
        for mark in (item.call_id, bytes(item.encrypted_content).decode("utf-8", "replace")):
            if mark and mark != "null":
                self.identity[key_of(mark)] = None

    # events

    def on_event(self, entry: EventEntry) -> None:
        """An `event_msg`."""
        self.begun = True
        if self.own_from and self._is_copied():
            return
        event = entry.payload
        if event.item is not None:
            self._turn_item(event.item)
            self._mark_migrated(event.turn_id)
            return
        handler = _EVENTS.get(event.type)
        if handler is not None:
            handler(self, event)
            self.after_compaction = False
            return
        handler = _TURN_EVENTS.get(event.type)
        if handler is not None:
            handler(self, event)
        else:
            self._pass_over(f"event_msg/{event.type}")

    def _token_count(self, event: Event) -> None:
        if event.info is not None:
            conversation = self.conversation
            self._bill(conversation.ledger.count(event.info, conversation.track.moment))

    def _user_message(self, event: Event) -> None:
        text = joined(event.message)
        if event.kind in {None, "plain"} and not is_injected(text):
            self.conversation.prompt_event(text)

    def _agent_reasoning(self, event: Event) -> None:
        self.conversation.thought_event(event.text)

    def _agent_message(self, _: Event) -> None:
        if not self.after_compaction:  # older versions announce the end of a compaction so
            self.conversation.answer_event()

    def _name_updated(self, event: Event) -> None:
        if event.thread_id in {None, self.lineage.session_id}:
            self.name = event.thread_name or self.name

    def _turn_aborted(self, _: Event) -> None:
        self.conversation.end_turn(aborted=True)

    def _turn_ended(self, _: Event) -> None:
        self.conversation.end_turn()

    def _turn_started(self, _: Event) -> None:
        self.conversation.close()

    def _turn_item(self, item: TurnItem) -> None:
        self._mark_migrated(item.id)
        if item.type == "UserMessage":
            self.conversation.prompt_event(joined(item.content))
        elif item.type == "Reasoning":
            self.conversation.thought_event(item.summary_text)
        elif item.type == "AgentMessage":
            self.conversation.answer_event()
        else:
            self.tools.reported(item)

    # usage

    def on_usage(self, entry: UsageEntry) -> None:
        """A `token_usage_record`."""
        if self._is_copied():
            return
        conversation = self.conversation
        self._bill(conversation.ledger.record(entry.payload, conversation.track.moment))
        self.begun = True

    def _bill(self, call: Call | None) -> None:
        if call is None:
            return
        if len(self.identity) < _IDENTITY_MARKS and not call.key.startswith("tc:"):
            self.identity[key_of(call.key)] = None
        self.conversation.billed(call)

    # what it comes to

    def facts(self, *, archived: bool) -> Facts:
        """What the whole file says."""
        lineage, conversation = self.lineage, self.conversation
        ledger, track = conversation.ledger, conversation.track
        billed = {call.model for call in ledger.calls}
        return Facts(
            session_id=lineage.session_id,
            aliases=lineage.aliases,
            kind=lineage.kind,
            parent=lineage.parent,
            cwd=lineage.meta.cwd or conversation.cwd,
            name=self.name,
            first_prompt=conversation.first_prompt,
            fallback_title=lineage.nickname,
            created_at=lineage.created_at or track.first_at,
            updated_at=track.last_at or lineage.created_at or track.first_at,
            version=lineage.meta.cli_version,
            archived=archived,
            trace=track.build(),
            calls=tuple(ledger.calls),
            models=tuple(model for model in self.models if model not in billed),
            identity=array("q", self.identity).tobytes(),
            unnamed_copies=self.migrated,
            prefix=lineage.prefix,
            rollout=lineage.rollout,
            children=tuple(self.tools.children),
            compactions=conversation.compactions,
            gaps=conversation.gaps.finish(),
            problems=tuple(self.problems),
            problem_count=self.problem_count,
            raw=self._raw(),
        )

    def _raw(self) -> dict[str, Any]:
        raw = self.lineage.raw()
        if self.effort:
            raw["effort"] = self.effort
        if self.unknown:
            raw["unknownTypes"] = dict(sorted(self.unknown.items()))
        return raw


def new_rollout(path: Path, *, bodies: bool, traced: bool) -> Rollout:
    """A file of which nothing has been read yet."""
    name = file_name(path)
    ledger, track = Ledger(session_id=name.thread_id), Track(traced=traced)
    return Rollout(
        path=str(path),
        lineage=Lineage(name=name, session_id=name.thread_id),
        conversation=Conversation(track=track, ledger=ledger, bodies=bodies),
    )


_HANDLERS: Final[dict[type[AnyEntry], Callable[[Rollout, Any], None]]] = {
    MetaEntry: Rollout.on_meta,
    ItemEntry: Rollout.on_item,
    EventEntry: Rollout.on_event,
    ContextEntry: Rollout.on_context,
    UsageEntry: Rollout.on_usage,
    CompactedEntry: Rollout.on_compacted,
    WorldEntry: Rollout.on_world,
}
_ITEMS: Final[dict[str, Callable[[Rollout, ResponseItem], None]]] = {
    "message": Rollout._message,
    "reasoning": Rollout._reasoning,
    "agent_message": Rollout._task,
    **dict.fromkeys(CALL_TYPES, Rollout._tool_call),
    **dict.fromkeys(OUTPUT_TYPES, Rollout._output),
}
_EVENTS: Final[dict[str, Callable[[Rollout, Event], None]]] = {
    "token_count": Rollout._token_count,
    "user_message": Rollout._user_message,
    "agent_reasoning": Rollout._agent_reasoning,
    "agent_message": Rollout._agent_message,
    "thread_name_updated": Rollout._name_updated,
}
_TURN_EVENTS: Final[dict[str, Callable[[Rollout, Event], None]]] = {
    "turn_aborted": Rollout._turn_aborted,
    "task_complete": Rollout._turn_ended,
    "turn_complete": Rollout._turn_ended,
    "thread_rolled_back": Rollout._turn_ended,
    "task_started": Rollout._turn_started,
    "turn_started": Rollout._turn_started,
}
