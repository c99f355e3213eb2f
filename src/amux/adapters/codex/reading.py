"""Reads a rollout by applying rules to its records, from the start or from a checkpoint.

The same rules apply with and without bodies; without them no messages are built. A record of an
unexpected shape is skipped and reported.

The state at the end of the last whole line is serialized. A last line without a line end
contributes to the facts but not to that state, because it may still grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from amux.adapters._base import Checkpoint, Head, Item, Reading
from amux.adapters._kit.values import parse_time
from amux.adapters.codex.content import is_injected, joined_text, request_in, tool_message
from amux.adapters.codex.conversation import OUTPUT
from amux.adapters.codex.cursor import millis, save
from amux.adapters.codex.lines import (
    DECODERS,
    UNREADABLE,
    AgentsEntry,
    AnyEntry,
    CompactedEntry,
    ContextEntry,
    EventEntry,
    ItemEntry,
    LineBatch,
    Log,
    LogPart,
    MetaEntry,
    UsageEntry,
    WorldEntry,
)
from amux.adapters.codex.records import (
    CALL_TYPES,
    OUTPUT_TYPES,
    Compacted,
    Event,
    Meta,
    Record,
    ResponseItem,
    TurnContext,
    TurnItem,
    UsageRecord,
    body,
    decode,
    is_object,
)
from amux.adapters.codex.rollout import MAX_IDENTITY_KEYS, Rollout
from amux.launchers import is_since
from amux.model.problems import Problem

_DELEGATES_REVIEWS: Final = (0, 51)
"""Whether the calls of a review are recorded in a file of their own."""


class RolloutState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a reading after `lines` lines."""

    lines: int
    rollout: Rollout


def read_rollout(
    batches: Iterable[LogPart | Problem], rollout: Rollout, *, archived: bool
) -> Iterator[Item]:
    """Stream one rollout: head, messages and calls, facts, and problems as they occur."""
    unreported = _UnreportedItems(rollout)
    for batch in batches:
        if isinstance(batch, LineBatch) and rollout.conversation.bodies:
            # Line by line, so that messages are yielded while a large file is read.
            for index in range(len(batch.entries)):
                apply_batch(rollout, batch.part(index, index + 1))
                yield from unreported.items()
            extend_time_span(rollout, batch)
        else:
            _take(rollout, batch)
            yield from unreported.items()
    if not rollout.begun:
        yield from unknown_format(rollout)
        return
    rollout.conversation.end_turn()
    yield from rollout.conversation.drain()
    yield from rollout.conversation.counter.calls[unreported.reported :]
    yield rollout.facts(archived=archived)


def resume_read(log: Log, rollout: Rollout, *, archived: bool) -> Reading:
    """Read the rest of a file; return its facts and how far it was read."""
    for batch in log.whole_lines():
        _take(rollout, batch)
        rollout.new_problems.clear()  # problems are part of the facts
    rollout.conversation.gaps.settle()
    state = save(RolloutState(lines=log.lines, rollout=rollout))
    checkpoint = None if state is None else Checkpoint(offset=log.offset, state=state)
    for batch in log.last_line():
        _take(rollout, batch)
    if not rollout.begun:
        problems = (*rollout.problems, *unknown_format(rollout))
        return Reading(facts=(), problems=problems, checkpoint=checkpoint)
    rollout.conversation.end_turn()
    return Reading(facts=(rollout.facts(archived=archived),), checkpoint=checkpoint)


def unknown_format(rollout: Rollout) -> Iterator[Problem]:
    """Yield the problem of a file that holds no session."""
    if not rollout.is_unreadable:
        message = "no record of a Codex session was found"
        yield Problem(code="unknown-format", message=message, path=rollout.path)


class _UnreportedItems:
    """Returns the items that a rollout produced since the last call of `items`."""

    def __init__(self, rollout: Rollout) -> None:
        self.reported = 0  # number of reported calls
        self._rollout = rollout
        self._has_head = False

    def items(self) -> list[Item]:
        rollout = self._rollout
        unreported: list[Item] = []
        if rollout.begun and not self._has_head:
            self._has_head = True
            unreported.append(Head(session_id=rollout.lineage.session_id))
        if rollout.new_problems:
            unreported += rollout.new_problems
            rollout.new_problems.clear()
        if rollout.conversation.done:
            unreported += rollout.conversation.drain()
        # The newest call may still turn out to have written a compaction summary.
        settled = len(rollout.conversation.counter.calls) - 1
        if self.reported < settled:
            unreported += rollout.conversation.counter.calls[self.reported : settled]
            self.reported = settled
        return unreported


def _take(rollout: Rollout, batch: LogPart | Problem) -> None:
    if isinstance(batch, LineBatch):
        apply_batch(rollout, batch)
        extend_time_span(rollout, batch)
    elif isinstance(batch, Problem):
        rollout.note(batch)
    else:
        apply_record(rollout, batch)


_COPIED_KINDS: Final = frozenset({"session_meta", "response_item", "event_msg"})
"""Kinds that are processed even if a sub-agent's file repeats them from its parent."""


def apply_batch(rollout: Rollout, batch: LineBatch) -> None:
    """Apply many lines; `extend_time_span` must be called for them as well."""
    cursor = rollout.conversation.cursor
    traced, add = cursor.traced, cursor.rows.add
    for line, entry in enumerate(batch.entries, start=batch.first):
        cursor.line = cursor.position = line
        cursor.ordinal = ordinal = entry.ordinal
        cursor.raw_time = entry.timestamp
        if traced:
            cursor.position = add(line if ordinal is None else ordinal, millis(entry.timestamp))
        try:
            if type(entry) is ItemEntry:  # a direct call is faster than the table
                _item(rollout, entry.payload)
            elif type(entry) is EventEntry:
                _event(rollout, entry.payload)
            else:
                _RULES[type(entry)](rollout, entry.payload)
        except UNREADABLE as error:
            _report_bad_record(rollout, str(entry.__struct_config__.tag), error)
    if rollout.unknown_lines:
        rollout.sample_unknown(batch.raw)


def apply_record(rollout: Rollout, record: Record) -> None:
    """Apply one line of any format."""
    cursor = rollout.cursor
    cursor.line = cursor.position = record.line
    cursor.ordinal = record.key if record.numbered else None
    cursor.raw_time = None if record.at is None else record.at.isoformat()
    cursor.extend_time_span(record.at)
    if cursor.traced:
        cursor.position = cursor.rows.add(record.key, millis(cursor.raw_time))
    if record.key < rollout.own_from and record.kind not in _COPIED_KINDS:
        return
    if record.kind not in DECODERS:
        rollout.skip(record.kind)
        rollout.sample_unknown(lambda _: record.raw or record.payload)
        return
    if record.model is not None:
        rollout.name_model(record.model)
    kind, decoder = DECODERS[record.kind]
    try:
        _RULES[kind](rollout, decode(record.payload, decoder))
    except UNREADABLE as error:
        _report_bad_record(rollout, record.kind, error)
    if record.stated is not None:
        rollout.bill_stated(record.stated)
    if rollout.unknown_lines:
        rollout.sample_unknown(lambda _: record.raw or record.payload)


def extend_time_span(rollout: Rollout, batch: LineBatch) -> None:
    """Extend the time span by the first and the last time of many lines."""
    cursor = rollout.cursor
    if cursor.first_at is None:
        cursor.extend_time_span(
            next(filter(None, (parse_time(e.timestamp) for e in batch.entries)), None)
        )
    backwards = (parse_time(entry.timestamp) for entry in reversed(batch.entries))
    cursor.extend_time_span(next(filter(None, backwards), None))


def _report_bad_record(rollout: Rollout, kind: str, error: Exception) -> None:
    rollout.report("bad-record", f"a {kind} record has an unexpected shape ({error})")


# Kinds of lines


def _meta(rollout: Rollout, meta: Meta) -> None:
    """Set the identity of the session or, for a copied line, that of its parent."""
    lineage, counter = rollout.lineage, rollout.counter
    first_line = rollout.intact and not rollout.begun
    lineage.take(meta, first_line=first_line, begun=rollout.begun)
    rollout.begun = True
    rollout.own_from = lineage.own_from
    rollout.identify_history(meta)
    counter.session_id = lineage.session_id
    is_subagent = lineage.kind == "subagent"
    counter.purpose = "subagent" if is_subagent else "main"
    if counter.calls:
        return
    prefix = lineage.prefix
    if prefix is not None:
        counter.seed(f"{prefix.of}:{prefix.until}", continues=True)
    elif is_subagent:
        # Siblings may have equal counts; only a file that repeats its parent needs its keys.
        counter.seed("" if lineage.replays else lineage.session_id, continues=False)


def _context(rollout: Rollout, context: TurnContext) -> None:
    if rollout.is_copied:
        return
    rollout.mark_migrated(context.turn_id)
    rollout.effort = context.effort or rollout.effort
    rollout.conversation.close()
    if rollout.conversation.gaps.review_over:
        rollout.conversation.gaps.leave_review()
    if context.model:
        rollout.name_model(context.model)
    rollout.begun = True


def _usage(rollout: Rollout, record: UsageRecord) -> None:
    if rollout.is_copied:
        return
    rollout.bill(rollout.counter.record(record, rollout.cursor.raw_time))
    rollout.begun = True


def _compacted(rollout: Rollout, summary: Compacted) -> None:
    if rollout.is_copied:
        return
    rollout.after_compaction = True
    rollout.conversation.compacted(summary.message)
    rollout.begun = True


def _item(rollout: Rollout, item: ResponseItem) -> None:
    rollout.begun = True
    if rollout.own_from and rollout.is_copied:
        return
    if len(rollout.identity) < MAX_IDENTITY_KEYS:
        rollout.identify(item)
    rule = _ITEM_RULES.get(item.type)
    if rule is None:
        rollout.skip(f"response_item/{item.type}")
    else:
        rule(rollout, item)


def _event(rollout: Rollout, event: Event) -> None:
    rollout.begun = True
    if rollout.own_from and rollout.is_copied:
        return
    if event.item is not None:
        own = event.thread_id in {None, rollout.lineage.session_id}
        _turn_item(rollout, event.item, own=own)
        if not rollout.migrated:
            rollout.mark_migrated(event.item.id)
            rollout.mark_migrated(event.turn_id)
        return
    rule = _EVENT_RULES.get(event.type)
    if rule is None:
        rollout.skip(f"event_msg/{event.type}")
        return
    rule(rollout, event)
    if rollout.after_compaction and event.type not in _TURN_RULES:
        rollout.after_compaction = False


# Items: input and output of the model


def _message(rollout: Rollout, item: ResponseItem) -> None:
    if item.role == "assistant":
        rollout.conversation.counter.has_answered = True
        rollout.conversation.answer(item)
    elif item.role == "user":
        rollout.conversation.user_message(item)
    else:
        rollout.conversation.injected(item, role="system")


def _reasoning(rollout: Rollout, item: ResponseItem) -> None:
    rollout.conversation.counter.has_answered = True
    rollout.conversation.thought(item)


def _tool_call(rollout: Rollout, item: ResponseItem) -> None:
    rollout.conversation.counter.has_answered = True
    name = rollout.tools.called(item)
    rollout.conversation.tool_call(item, name=name)


def _tool_output(rollout: Rollout, item: ResponseItem) -> None:
    conversation = rollout.conversation
    name, failed = rollout.tools.returned(item)
    conversation.gaps.tool_returned(item.output)
    conversation.tool_returned()
    if conversation.bodies:
        at = conversation.cursor.at
        conversation.done.append(tool_message(at, item, name=name, failed=failed))
    if conversation.line_ranges is not None:
        position = conversation.cursor.position
        conversation.line_ranges.append((position, position, OUTPUT))
    if name is None:
        rollout.report("orphan-result", "a tool output belongs to no call")


# Events: what was shown on the screen


def _token_count(rollout: Rollout, event: Event) -> None:
    conversation = rollout.conversation
    version = rollout.lineage.meta.cli_version
    if conversation.gaps.reviewing and is_since(version, _DELEGATES_REVIEWS):
        return  # to 0.77 a copy: the reviewer's own file holds it, too
    if event.info is not None:
        rollout.bill(conversation.counter.count(event.info, conversation.cursor.raw_time))


def _user_message(rollout: Rollout, event: Event) -> None:
    if event.kind in {None, "plain"}:
        _prompt(rollout, joined_text(event.message))


def _prompt(rollout: Rollout, text: str) -> None:
    text = request_in(text) or text
    if not is_injected(text):
        rollout.conversation.prompt_event(text)


def _agent_message(rollout: Rollout, event: Event) -> None:
    del event
    if not rollout.after_compaction:  # older versions announce the end of a compaction this way
        rollout.conversation.answer_event()


def _name_updated(rollout: Rollout, event: Event) -> None:
    if event.thread_id in {None, rollout.lineage.session_id}:
        rollout.name = event.thread_name or rollout.name


def _goal_updated(rollout: Rollout, event: Event) -> None:
    """Apply a goal; without a turn the person set it, and it is a prompt if it is new."""
    goal = body(event.goal)
    objective = goal.get("objective") if is_object(goal) else None
    if isinstance(objective, str) and objective.strip() and objective != rollout.goal:
        rollout.goal = objective
        if event.turn_id is None and event.thread_id in {None, rollout.lineage.session_id}:
            rollout.conversation.command_event(objective)


def _command_ended(rollout: Rollout, event: Event) -> None:
    rollout.tools.ended(event.call_id, event.exit_code)


def _entered_review(rollout: Rollout, hint: msgspec.Raw) -> None:
    """Begin a review: a thread with a file of its own makes its calls."""
    conversation = rollout.conversation
    conversation.decide_pending()
    conversation.gaps.reviewing = True
    rollout.reviews += 1
    text = body(hint)
    conversation.note_command(f"/review {text}" if isinstance(text, str) else "/review")


def _exited_review(rollout: Rollout) -> None:
    """End a review; its result follows as an answer of the same turn."""
    rollout.conversation.gaps.review_over = True


def _turn_item(rollout: Rollout, item: TurnItem, *, own: bool) -> None:
    """Apply an item of the newest versions, which report everything in this form."""
    if item.type == "UserMessage":
        _prompt(rollout, joined_text(item.content))
    elif item.type == "EnteredReviewMode":
        _entered_review(rollout, item.user_facing_hint)
    elif item.type == "ExitedReviewMode":
        _exited_review(rollout)
    elif not own and rollout.conversation.gaps.reviewing:
        return  # a copy: the reviewer's own file holds it, too
    elif item.type == "Reasoning":
        rollout.conversation.thought_event(item.summary_text)
    elif item.type == "AgentMessage":
        rollout.conversation.answer_event()
    else:
        rollout.tools.reported(item)


_RULES: Final[dict[type[AnyEntry], Callable[[Rollout, Any], None]]] = {
    MetaEntry: _meta,
    ItemEntry: _item,
    EventEntry: _event,
    ContextEntry: _context,
    UsageEntry: _usage,
    CompactedEntry: _compacted,
    WorldEntry: lambda _rollout, _state: None,  # bookkeeping
    AgentsEntry: lambda _rollout, _state: None,
}
_ITEM_RULES: Final[dict[str, Callable[[Rollout, ResponseItem], None]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "agent_message": lambda rollout, item: rollout.conversation.injected(item, role="user"),
    **dict.fromkeys(CALL_TYPES, _tool_call),
    **dict.fromkeys(OUTPUT_TYPES, _tool_output),
}
_TURN_RULES: Final[dict[str, Callable[[Rollout, Event], None]]] = {
    "turn_aborted": lambda rollout, _: rollout.conversation.end_turn(aborted=True),
    "task_complete": lambda rollout, _: rollout.conversation.end_turn(),
    "turn_complete": lambda rollout, _: rollout.conversation.end_turn(),
    "thread_rolled_back": lambda rollout, _: rollout.conversation.end_turn(),
    "task_started": lambda rollout, _: rollout.conversation.close(),
    "turn_started": lambda rollout, _: rollout.conversation.close(),
}
_EVENT_RULES: Final[dict[str, Callable[[Rollout, Event], None]]] = {
    "token_count": _token_count,
    "user_message": _user_message,
    "agent_reasoning": lambda rollout, event: rollout.conversation.thought_event(event.text),
    "agent_message": _agent_message,
    "thread_name_updated": _name_updated,
    "thread_goal_updated": _goal_updated,
    "exec_command_end": _command_ended,
    "entered_review_mode": lambda rollout, event: _entered_review(rollout, event.user_facing_hint),
    "exited_review_mode": lambda rollout, _: _exited_review(rollout),
    **_TURN_RULES,
}
