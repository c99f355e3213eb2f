"""From records to messages: whose words, which lines make one message, in which order.

Every line has a place in the trace before it is known what it is; it is marked when that is clear.
What a person typed is known from an event next to the text, so messages with role `user` wait
until the model shows a sign. One answer is reasoning, text and tool calls of one response. In
"facts" mode the same rules run without building a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from amux.adapters._codex.gaps import Gaps
from amux.adapters._codex.records import Record, ResponseItem, body
from amux.adapters._codex.texts import Speech, call_input, cwd_in, joined, speech_of, thought_in
from amux.adapters._codex.usage import Ledger, view_of
from amux.adapters._kit.times import to_millis
from amux.model.message import Role, SessionMessage, SessionToolCall, TokenUsage
from amux.model.titles import fold_title
from amux.model.trace import Mark, TraceBuilder
from amux.model.usage import Call

_LONGEST_WAIT: Final = 64  # records held back in doubt; no version has so many in a row


class _Waiting(msgspec.Struct, kw_only=True):
    """A message that is not the model's and whose author may still be in doubt."""

    position: int
    at: datetime | None  # not the record: it would keep the whole line
    text: str
    role: Role = "user"
    typed: bool | None = False  # None: an event would say so
    images: tuple[msgspec.Raw, ...] = ()
    id: str | None = None
    compaction: bool = False


class _Answer(msgspec.Struct, kw_only=True):
    """One answer of the model, still growing."""

    position: int
    at: datetime | None
    model: str | None
    id: str | None = None
    thinking: list[str] = []
    texts: list[str] = []
    calls: list[SessionToolCall] = []
    has_text: bool = False
    has_calls: bool = False
    announced: bool = False  # an event showed it to the person
    usage: TokenUsage | None = None
    sealed: bool = False  # its usage came after it: what follows is another answer


class _Thought(msgspec.Struct, kw_only=True):
    """Reasoning that so far only the screen has seen."""

    position: int
    at: datetime | None
    text: str


class Conversation:
    """The messages of one file."""

    def __init__(self, ledger: Ledger, *, bodies: bool) -> None:
        self.trace = TraceBuilder()
        self.gaps = Gaps()
        self.model: str | None = None
        self.first_prompt: str | None = None
        self.cwd: str | None = None
        self.compactions = 0
        self._ledger = ledger
        self._bodies = bodies
        self._done: list[SessionMessage] = []
        self._waiting: list[_Waiting] = []
        self._expected: list[_Waiting] = []  # prompts that only an event has told of
        self._thoughts: list[_Thought] = []
        self._answer: _Answer | None = None
        self._announced = False
        self._events_tell = False  # this file has events that tell prompts
        self._ahead: Call | None = None  # usage written before its answer
        self._unpaid = False  # the last answer had no usage when it ended

    def drain(self) -> Iterator[SessionMessage]:
        """Give the messages that are finished."""
        yield from self._done
        self._done.clear()

    def place(self, record: Record) -> int:
        """Give a line its place in the trace."""
        return self.trace.add(record.key, to_millis(record.at), Mark.LINE)

    # what is not the model's

    def said_by_user(self, position: int, record: Record, item: ResponseItem) -> None:
        """A message with role `user`: typed, injected, or both in parts."""
        speech = speech_of(item)
        self._end_turn_parts()
        if speech.injected:
            text = "\n\n".join(speech.injected)
            self.cwd = self.cwd or next(filter(None, map(cwd_in, speech.injected)), None)
            mixed = bool(speech.typed or speech.images)
            id = None if mixed else item.id
            self._wait(_Waiting(position=position, at=record.at, text=text, id=id))
            if not mixed:
                return
            position = self.place(record)
        self._wait(self._typed(position, record, item, speech))

    def _typed(self, position: int, record: Record, item: ResponseItem, speech: Speech) -> _Waiting:
        text = "\n".join(speech.typed)
        told = next((entry for entry in self._expected if entry.text.strip() in text), None)
        if told is not None:
            self._expected.remove(told)
        in_doubt = None if text or speech.images else False
        return _Waiting(
            position=position,
            at=record.at,
            text=text,
            typed=True if told is not None or speech.certain else in_doubt,
            images=speech.images,
            id=item.id,
        )

    def injected(self, position: int, record: Record, item: ResponseItem, *, role: Role) -> None:
        """Context of any other author."""
        self._end_turn_parts()
        text = joined(item.content) if self._bodies else ""
        entry = _Waiting(position=position, at=record.at, text=text, role=role, id=item.id)
        self._wait(entry)

    def prompt_event(self, position: int, record: Record, text: str) -> None:
        """An event tells that the person typed this."""
        self._events_tell = True
        open_ones = [entry for entry in self._waiting if entry.typed is None]
        same = [entry for entry in open_ones if entry.text == text]
        if same or open_ones:
            (same or open_ones)[-1].typed = True
        elif not any(entry.typed and text.strip() in entry.text for entry in self._waiting):
            self._end_turn_parts()
            if len(self._expected) >= _LONGEST_WAIT:
                self.listen()
            entry = _Waiting(position=position, at=record.at, text=text, typed=True)
            self._expected.append(entry)

    def compacted(self, position: int, record: Record, message: msgspec.Raw) -> None:
        """A summary replaces the history so far."""
        self.listen()
        self._settle_thoughts()
        answer = self._answer
        if answer is not None and record.numbered and not (answer.announced or answer.has_calls):
            # The summary's own call: it is recorded like an answer but never shown as one.
            if answer.usage is not None and self._ahead is None:
                self._ledger.last_was_compaction()
            self._close(Mark.NOTICE)
        elif answer is None and self._ahead is not None:
            self._ledger.last_was_compaction()
        self.close()
        self._ahead = None
        self.compactions += 1
        text = (body(message) or "") if self._bodies else ""
        self._wait(
            _Waiting(
                position=position,
                at=record.at,
                text=text if isinstance(text, str) else "",
                role="system",
                compaction=True,
            )
        )
        self.listen()

    def _wait(self, entry: _Waiting) -> None:
        self.close()
        self._waiting.append(entry)
        if len(self._waiting) > _LONGEST_WAIT:
            self.listen()

    def listen(self) -> None:
        """The model shows a sign: what it has heard is decided now."""
        if not (self._waiting or self._expected):
            return
        waiting = sorted([*self._waiting, *self._expected], key=lambda entry: entry.position)
        self._waiting, self._expected = [], []
        self.close()
        for entry in waiting:
            typed = not self._events_tell if entry.typed is None else entry.typed
            self.trace.remark(entry.position, Mark.PROMPT if typed else Mark.INJECTED)
            if typed:
                self.gaps.prompted()
                self._unpaid = False
                if self.first_prompt is None and entry.text.strip():
                    self.first_prompt = fold_title(entry.text)
            if self._bodies:
                self._done.append(_heard(entry, typed=typed))

    # the model's

    def thought_event(self, position: int, record: Record, text: msgspec.Raw) -> None:
        """The screen shows reasoning; the item with the same text may never come."""
        self.listen()
        self.gaps.spoke()
        if len(self._thoughts) >= _LONGEST_WAIT:
            self._settle_thoughts()
        thought = joined(text) if self._bodies else ""
        self._thoughts.append(_Thought(position=position, at=record.at, text=thought))

    def answer_event(self) -> None:
        """The screen shows an answer; its text comes as an item."""
        self.listen()
        self.gaps.spoke()
        self._announced = True

    def thought(self, position: int, record: Record, item: ResponseItem) -> None:
        """A reasoning item: it begins or continues an answer."""
        answer = self._answer
        self._thoughts.clear()
        if answer is not None and (answer.has_text or answer.has_calls):
            self.close()
        answer = self._grow(position, record, item)
        if self._bodies:
            answer.thinking.append(thought_in(item))

    def answer(self, position: int, record: Record, item: ResponseItem) -> None:
        """An assistant message."""
        if self._answer is not None and self._answer.has_text:
            self.close()
        answer = self._grow(position, record, item)
        answer.has_text = True
        answer.announced = answer.announced or self._announced
        self._announced = False
        self.gaps.answered()
        if self._bodies:
            answer.texts.append(joined(item.content))

    def tool_call(self, position: int, record: Record, item: ResponseItem, *, name: str) -> None:
        """A tool call of the answer."""
        answer = self._grow(position, record, item)
        answer.has_calls = True
        self.gaps.answered()
        if self._bodies:
            call_id = item.call_id or item.id or ""
            call = SessionToolCall(tool_call_id=call_id, tool_name=name, input=call_input(item))
            answer.calls.append(call)

    def _grow(self, position: int, record: Record, item: ResponseItem) -> _Answer:
        self.listen()
        if self._answer is not None and self._answer.sealed:
            self.close()
        answer = self._answer
        if answer is None:
            answer = _Answer(position=position, at=record.at, model=self.model)
            answer.thinking = [thought.text for thought in self._thoughts]
            self._thoughts.clear()
            self._answer = answer
        answer.id = answer.id or item.id
        if self._ahead is not None and answer.usage is None:
            answer.usage, self._ahead = view_of(self._ahead), None
            self._ledger.last_made(answer.id)
        return answer

    def billed(self, call: Call) -> None:
        """Usage arrives: of the answer before it, or (older versions) of the one after it."""
        self.gaps.billed()
        answer = self._answer
        if answer is not None and answer.usage is None:
            answer.usage, answer.sealed = view_of(call), True
            self._ledger.last_made(answer.id)
        elif self._unpaid:
            self._unpaid = False
        else:
            self._ahead = call

    # ends

    def tool_message(self, position: int, message: SessionMessage | None) -> None:
        """A tool's output; it goes to the model by itself."""
        self.listen()
        self.close()
        self._settle_thoughts()
        self.trace.remark(position, Mark.TOOL)
        if message is not None:
            self._done.append(message)

    def close(self) -> None:
        """The answer, if there is one, is complete."""
        self._close(Mark.REPLY)

    def end_turn(self, *, aborted: bool = False) -> None:
        """The turn is over, one way or another."""
        self.listen()
        self._end_turn_parts()
        if aborted:
            self.gaps.aborted()

    def _end_turn_parts(self) -> None:
        self.close()
        self._settle_thoughts()
        self._ahead = None
        self._announced = False

    def _settle_thoughts(self) -> None:
        """Reasoning whose item never came (the process was killed) is kept as an answer."""
        if not self._thoughts:
            return
        self.close()
        first = self._thoughts[0]
        answer = _Answer(position=first.position, at=first.at, model=self.model)
        answer.thinking = [thought.text for thought in self._thoughts]
        self._thoughts.clear()
        self._answer = answer
        self.close()

    def _close(self, mark: Mark) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        self._unpaid = answer.usage is None
        self.trace.remark(answer.position, mark)
        if self._bodies:
            self._done.append(_spoken(answer, synthetic=mark is Mark.NOTICE))


def _heard(entry: _Waiting, *, typed: bool) -> SessionMessage:
    images = (body(image) for image in entry.images)
    return SessionMessage(
        role=entry.role,
        content=entry.text,
        timestamp=entry.at,
        id=entry.id,
        synthetic=not typed,
        images=tuple(image for image in images if isinstance(image, str)),
        compaction=entry.compaction,
    )


def _spoken(answer: _Answer, *, synthetic: bool) -> SessionMessage:
    return SessionMessage(
        role="assistant",
        content="\n\n".join(answer.texts),
        timestamp=answer.at,
        tool_calls=tuple(answer.calls),
        token_usage=answer.usage,
        thinking="\n\n".join(filter(None, answer.thinking)) or None,
        model=answer.model,
        id=answer.id,
        synthetic=synthetic,
    )
