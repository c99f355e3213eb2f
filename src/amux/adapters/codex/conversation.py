"""Builds messages from records: their authors, their lines and their order.

Every line has a row in the trace before its kind is known; its kind is set later. Whether a person
typed a text is known from an event next to it, so messages with role `user` are pending until the
model reacts. One answer consists of the reasoning, text and tool calls of one response. For facts
the same rules run without building messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from amux.adapters._kit.usage import usage_view
from amux.adapters.codex.content import (
    call_input,
    cwd_in,
    joined_text,
    reasoning_text,
    shell_command_in,
    split_user,
)
from amux.adapters.codex.cursor import Cursor
from amux.adapters.codex.records import ResponseItem, body
from amux.adapters.codex.usage import CallCounter, Gaps
from amux.model.message import Role, SessionMessage, SessionToolCall
from amux.model.titles import fold_title
from amux.model.trace import LineKind
from amux.model.usage import Call

_REPLY: Final = LineKind.REPLY  # a module constant: looking up an enum member is slow
_TOOL: Final = LineKind.TOOL
_MAX_PENDING: Final = 64  # no version writes so many undecided records consecutively

OUTPUT: Final = 0
ANSWER: Final = 1
NOTICE: Final = 2
TYPED: Final = 3
UNCONFIRMED: Final = 4
INJECTED: Final = 5
CONTEXT: Final = 6
TASK: Final = 7
NO_LOCATION: Final = -1
"""Kinds of locations: how `text_scan` rebuilds a message from its lines."""

LineRange = tuple[int, int, int]
"""The first and the last line of a message, and the kind of the location."""


class PendingMessage(msgspec.Struct, kw_only=True):
    """A message that the model did not write and whose author may still be undecided."""

    position: int
    at: datetime | None  # not the record, which would keep the line in memory
    text: str
    role: Role = "user"
    typed: bool | None = False  # None: undecided, an event may confirm it
    images: tuple[str, ...] = ()
    id: str | None = None
    compaction: bool = False
    kind: int = NO_LOCATION


class AnswerContent(msgspec.Struct, kw_only=True):
    """The content of an answer."""

    at: datetime | None
    model: str | None
    thinking: list[str] = []
    texts: list[str] = []
    calls: list[SessionToolCall] = []


class Answer(msgspec.Struct, kw_only=True):
    """An answer of the model that is not complete yet."""

    position: int
    content: AnswerContent | None  # None if bodies are not read
    last: int = 0  # position of its last line
    in_items: bool = True  # no part of it comes from events alone
    id: str | None = None
    has_text: bool = False
    has_calls: bool = False
    announced: bool = False  # an event showed it on the screen
    usage: Call | None = None
    sealed: bool = False  # its usage follows it: later items are another answer


class Thought(msgspec.Struct, kw_only=True):
    """Reasoning of which so far only an event exists."""

    position: int
    at: datetime | None
    text: str


@dataclass(slots=True, kw_only=True)
class Conversation:
    """The messages of one file."""

    cursor: Cursor
    counter: CallCounter
    bodies: bool
    gaps: Gaps = field(default_factory=Gaps)
    first_prompt: str | None = None
    first_command: str | None = None  # typed, but not sent to the model
    cwd: str | None = None
    compactions: int = 0
    done: list[SessionMessage] = field(default_factory=list[SessionMessage])
    pending: list[PendingMessage] = field(default_factory=list[PendingMessage])
    expected: list[PendingMessage] = field(default_factory=list[PendingMessage])  # by events
    thoughts: list[Thought] = field(default_factory=list[Thought])
    open_answer: Answer | None = None
    announced: bool = False
    has_prompt_events: bool = False  # this file has events for prompts
    early_usage: Call | None = None  # usage that precedes its answer
    is_unbilled: bool = False  # the last answer ended without usage
    unbilled_id: str | None = None  # its id, while only tool outputs follow it
    line_ranges: list[LineRange] | None = None  # locations of `done`, if requested

    def drain(self) -> list[SessionMessage]:
        """Return and clear the completed messages."""
        done, self.done = self.done, []
        return done

    # Messages that the model did not write

    def user_message(self, item: ResponseItem) -> None:
        """Add a message with role `user`: typed, injected, or a mixture of both."""
        parts = split_user(item)
        self._end_turn_parts()
        if parts.injected:
            text = "\n\n".join(parts.injected)
            self.cwd = self.cwd or next(filter(None, map(cwd_in, parts.injected)), None)
            for part in parts.injected:
                self.note_command(shell_command_in(part))
            mixed = bool(parts.typed or parts.images)
            entry = self._new_pending(text, id=None if mixed else item.id)
            entry.kind = INJECTED
            self._add_pending(entry)
            if not mixed:
                return
            self.cursor.repeat_row()
        text = "\n".join(parts.typed)
        confirmed = next((entry for entry in self.expected if entry.text.strip() in text), None)
        if confirmed is not None:
            self.expected.remove(confirmed)
        in_doubt = None if text or parts.images else False
        entry = self._new_pending(text, id=item.id)
        entry.typed = True if confirmed is not None or parts.certain else in_doubt
        entry.kind = TYPED
        if self.bodies:
            images = map(body, parts.images)
            entry.images = tuple(image for image in images if isinstance(image, str))
        self._add_pending(entry)

    def injected(self, item: ResponseItem, *, role: Role) -> None:
        """Add context of any other author."""
        self._end_turn_parts()
        text = joined_text(item.content) if self.bodies else ""
        entry = self._new_pending(text, role=role, id=item.id)
        entry.kind = CONTEXT if role == "system" else TASK
        self._add_pending(entry)

    def prompt_event(self, text: str) -> None:
        """Record an event that says that the person typed a text."""
        self.has_prompt_events = True
        open_ones = [entry for entry in self.pending if entry.typed is None]
        same = [entry for entry in open_ones if entry.text == text]
        if same or open_ones:
            (same or open_ones)[-1].typed = True
        elif not any(entry.typed and text.strip() in entry.text for entry in self.pending):
            self.command_event(text)

    def command_event(self, text: str) -> None:
        """Record a command whose text the model gets in other words; it begins a turn."""
        self._end_turn_parts()
        entry = self._new_pending(text)
        entry.typed = True
        self._expect(entry)

    def note_command(self, text: str | None) -> None:
        """Record a command that is no prompt: it is the title of a session without one."""
        if text and self.first_command is None and self.cursor.traced:
            self.first_command = fold_title(text)

    def _expect(self, entry: PendingMessage) -> None:
        if len(self.expected) >= _MAX_PENDING:
            self.decide_pending()
        self.expected.append(entry)

    def compacted(self, message: msgspec.Raw) -> None:
        """Add a summary that replaces the history so far."""
        self.decide_pending()
        self._flush_thoughts()
        answer = self.open_answer
        numbered = self.cursor.ordinal is not None
        if answer is not None and numbered and not (answer.announced or answer.has_calls):
            # The call that wrote the summary is recorded like an answer but never shown as one.
            if answer.usage is not None and self.early_usage is None:
                self.counter.mark_last_as_compaction()
            self._close(LineKind.NOTICE)
        elif answer is None and self.early_usage is not None:
            self.counter.mark_last_as_compaction()
        self.close()
        self.early_usage = self.unbilled_id = None
        self.compactions += 1
        text = body(message) if self.bodies else None
        entry = self._new_pending(text if isinstance(text, str) else "", role="system")
        entry.compaction = True
        self._add_pending(entry)
        self.decide_pending()

    def _new_pending(
        self, text: str, *, role: Role = "user", id: str | None = None
    ) -> PendingMessage:
        at = self.cursor.at if self.bodies else None
        return PendingMessage(position=self.cursor.position, at=at, text=text, role=role, id=id)

    def _add_pending(self, entry: PendingMessage) -> None:
        self.close()
        self.pending.append(entry)
        if len(self.pending) > _MAX_PENDING:
            self.decide_pending()

    def decide_pending(self) -> None:
        """Decide the authors of the pending messages: the model has reacted to them."""
        if not (self.pending or self.expected):
            return
        pending = sorted([*self.pending, *self.expected], key=lambda entry: entry.position)
        self.pending, self.expected = [], []
        self.close()
        for entry in pending:
            typed = not self.has_prompt_events if entry.typed is None else entry.typed
            self.cursor.set_kind(entry.position, LineKind.PROMPT if typed else LineKind.INJECTED)
            if typed:
                self.gaps.prompted()
                self.is_unbilled = False
                if self.first_prompt is None and self.cursor.traced and entry.text.strip():
                    self.first_prompt = fold_title(entry.text)
            if self.bodies:
                self.done.append(
                    SessionMessage(
                        role=entry.role,
                        content=entry.text,
                        timestamp=entry.at,
                        id=entry.id,
                        synthetic=not typed,
                        images=entry.images,
                        compaction=entry.compaction,
                    )
                )
            if self.line_ranges is not None:
                kind = UNCONFIRMED if entry.kind == TYPED and not typed else entry.kind
                self.line_ranges.append((entry.position, entry.position, kind))

    # Answers of the model

    def thought_event(self, text: msgspec.Raw) -> None:
        """Record reasoning shown on the screen; its item may never follow."""
        if self.pending or self.expected:
            self.decide_pending()
        self.gaps.spoke()
        if len(self.thoughts) >= _MAX_PENDING:
            self._flush_thoughts()
        at, thought = (self.cursor.at, joined_text(text)) if self.bodies else (None, "")
        self.thoughts.append(Thought(position=self.cursor.position, at=at, text=thought))

    def answer_event(self) -> None:
        """Record that the screen shows an answer; its text follows as an item."""
        self.decide_pending()
        self.gaps.spoke()
        self.announced = True

    def thought(self, item: ResponseItem) -> None:
        """Add a reasoning item, which begins or continues an answer."""
        answer = self.open_answer
        if self.thoughts:
            self.thoughts.clear()
        if answer is not None and (answer.has_text or answer.has_calls):
            self.close()
        answer = self._grow(item)
        if answer.content is not None:
            answer.content.thinking.append(reasoning_text(item))

    def answer(self, item: ResponseItem) -> None:
        """Add an assistant message."""
        if self.open_answer is not None and self.open_answer.has_text:
            self.close()
        answer = self._grow(item)
        answer.has_text = True
        answer.announced = answer.announced or self.announced
        self.announced = False
        self.gaps.answered()
        if answer.content is not None:
            answer.content.texts.append(joined_text(item.content))

    def tool_call(self, item: ResponseItem, *, name: str) -> None:
        """Add a tool call to the answer."""
        answer = self._grow(item)
        answer.has_calls = True
        self.gaps.answered()
        if answer.content is not None:
            call_id = item.call_id or item.id or ""
            call = SessionToolCall(tool_call_id=call_id, tool_name=name, input=call_input(item))
            answer.content.calls.append(call)

    def _grow(self, item: ResponseItem) -> Answer:
        if self.pending or self.expected:
            self.decide_pending()
        answer = self.open_answer
        if answer is not None and answer.sealed:
            self._close(_REPLY)
            answer = None
        if answer is None:
            answer = self.open_answer = self._begin(self.cursor.position)
        answer.id = answer.id or item.id
        answer.last = self.cursor.position
        if self.early_usage is not None and answer.usage is None:
            answer.usage, self.early_usage = self.early_usage, None
            self.counter.set_last_message_id(answer.id)
        return answer

    def _begin(self, position: int) -> Answer:
        """Begin an answer with the preceding reasoning that was only shown on the screen."""
        content: AnswerContent | None = None
        in_items = not self.thoughts
        if self.bodies:
            content = AnswerContent(at=self.cursor.at, model=self.counter.model)
            content.thinking = [thought.text for thought in self.thoughts]
        if self.thoughts:
            self.thoughts.clear()
        return Answer(position=position, content=content, last=position, in_items=in_items)

    def billed(self, call: Call) -> None:
        """Assign usage to the answer before it or (older versions) after it."""
        self.gaps.billed()
        answer = self.open_answer
        if answer is not None and answer.usage is None:
            answer.usage, answer.sealed = call, True
            self.counter.set_last_message_id(answer.id)
        elif self.is_unbilled:
            self.is_unbilled = False
            self.counter.set_last_message_id(self.unbilled_id)
        else:
            self.early_usage = call

    # Ends of answers and turns

    def tool_returned(self) -> None:
        """Record a tool output, which is sent to the model without further action."""
        if self.pending or self.expected:
            self.decide_pending()
        if self.open_answer is not None:
            self._close(_REPLY)
        if self.thoughts:
            self._flush_thoughts()
        if self.cursor.traced:
            self.cursor.set_kind(self.cursor.position, _TOOL)

    def close(self) -> None:
        """Complete the open answer, if there is one."""
        if self.open_answer is not None:
            self._close(_REPLY)

    def end_turn(self, *, aborted: bool = False) -> None:
        """End the turn."""
        self.decide_pending()
        self._end_turn_parts()
        if aborted:
            self.gaps.aborted()
        self.gaps.leave_review()

    def _end_turn_parts(self) -> None:
        self.close()
        self._flush_thoughts()
        self.early_usage = self.unbilled_id = None
        self.announced = False

    def _flush_thoughts(self) -> None:
        """Convert reasoning whose item never followed (the process was killed) to an answer."""
        if not self.thoughts:
            return
        self.close()
        first = self.thoughts[0]
        answer = self._begin(first.position)
        if answer.content is not None:
            answer.content.at = first.at
        self.open_answer = answer
        self.close()

    def _close(self, kind: LineKind) -> None:
        answer, self.open_answer = self.open_answer, None
        if answer is None:
            return
        # The result of a review is shown as an answer, but no call of this file wrote it.
        self.is_unbilled = answer.usage is None and not self.gaps.reviewing
        self.unbilled_id = answer.id
        if self.cursor.traced:
            self.cursor.set_kind(answer.position, kind)
        if answer.content is not None:
            self.done.append(
                _answer_message(answer, answer.content, synthetic=kind is LineKind.NOTICE)
            )
        if self.line_ranges is not None:
            location = NOTICE if kind is LineKind.NOTICE else ANSWER
            self.line_ranges.append(
                (answer.position, answer.last, location if answer.in_items else NO_LOCATION)
            )


def _answer_message(answer: Answer, content: AnswerContent, *, synthetic: bool) -> SessionMessage:
    return SessionMessage(
        role="assistant",
        content="\n\n".join(content.texts),
        timestamp=content.at,
        tool_calls=tuple(content.calls),
        token_usage=usage_view(answer.usage),
        thinking="\n\n".join(filter(None, content.thinking)) or None,
        model=content.model,
        id=answer.id,
        synthetic=synthetic,
    )
