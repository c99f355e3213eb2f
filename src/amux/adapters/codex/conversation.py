"""From records to messages: whose words, which lines make one message, in which order.

Every line has a place in the trace before it is known what it is; it is marked when that is clear.
What a person typed is known from an event next to the text, so messages with role `user` wait
until the model shows a sign. One answer is reasoning, text and tool calls of one response. In
"facts" mode the same rules run without building a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from amux.adapters._kit.calls import usage_view
from amux.adapters.codex.content import Speech, call_input, cwd_in, joined, speech_of, thought_in
from amux.adapters.codex.cursor import Track
from amux.adapters.codex.records import ResponseItem, body
from amux.adapters.codex.usage import Gaps, Ledger
from amux.model.message import Role, SessionMessage, SessionToolCall
from amux.model.titles import fold_title
from amux.model.trace import Mark
from amux.model.usage import Call

_REPLY: Final = Mark.REPLY  # a name of its own: looking up a member of an enum takes long
_TOOL: Final = Mark.TOOL
_LONGEST_WAIT: Final = 64  # records held back in doubt; no version has so many in a row

OUTPUT: Final = 0
ANSWER: Final = 1
NOTICE: Final = 2
TYPED: Final = 3
DOUBTED: Final = 4
INJECTED: Final = 5
CONTEXT: Final = 6
TASK: Final = 7
NOWHERE: Final = -1
"""What lines are to be made of again, and in which way: see `cut_texts`."""

Lines = tuple[int, int, int]
"""The first and the last line of a message, and what is to be made of them."""


class Waiting(msgspec.Struct, kw_only=True):
    """A message that is not the model's and whose author may still be in doubt."""

    position: int
    at: datetime | None  # not the record: it would keep the whole line
    text: str
    role: Role = "user"
    typed: bool | None = False  # None: an event would say so
    images: tuple[str, ...] = ()
    id: str | None = None
    compaction: bool = False
    kind: int = NOWHERE


class Words(msgspec.Struct, kw_only=True):
    """What an answer says."""

    at: datetime | None
    model: str | None
    thinking: list[str] = []
    texts: list[str] = []
    calls: list[SessionToolCall] = []


class Answer(msgspec.Struct, kw_only=True):
    """One answer of the model, still growing."""

    position: int
    words: Words | None  # None: nobody wants to read them
    last: int = 0  # the place of its last line
    in_items: bool = True  # nothing of it is known from the screen alone
    id: str | None = None
    has_text: bool = False
    has_calls: bool = False
    announced: bool = False  # an event showed it to the person
    usage: Call | None = None
    sealed: bool = False  # its usage came after it: what follows is another answer


class Thought(msgspec.Struct, kw_only=True):
    """Reasoning that so far only the screen has seen."""

    position: int
    at: datetime | None
    text: str


@dataclass(slots=True, kw_only=True)
class Conversation:
    """The messages of one file."""

    track: Track
    ledger: Ledger
    bodies: bool
    gaps: Gaps = field(default_factory=Gaps)
    first_prompt: str | None = None
    cwd: str | None = None
    compactions: int = 0
    done: list[SessionMessage] = field(default_factory=list[SessionMessage])
    waiting: list[Waiting] = field(default_factory=list[Waiting])
    expected: list[Waiting] = field(default_factory=list[Waiting])  # only an event has told of them
    thoughts: list[Thought] = field(default_factory=list[Thought])
    growing: Answer | None = None
    announced: bool = False
    events_tell: bool = False  # this file has events that tell prompts
    ahead: Call | None = None  # usage written before its answer
    unpaid: bool = False  # the last answer had no usage when it ended
    debtor: str | None = None  # its id, as long as nothing but tools came after it
    places: list[Lines] | None = None  # where those that are done lie, if anybody wants to know

    def drain(self) -> list[SessionMessage]:
        """Give the messages that are finished."""
        done, self.done = self.done, []
        return done

    # what is not the model's

    def said_by_user(self, item: ResponseItem) -> None:
        """A message with role `user`: typed, injected, or both in parts."""
        speech = speech_of(item)
        self._end_turn_parts()
        if speech.injected:
            text = "\n\n".join(speech.injected)
            self.cwd = self.cwd or next(filter(None, map(cwd_in, speech.injected)), None)
            mixed = bool(speech.typed or speech.images)
            entry = self._heard_now(text, id=None if mixed else item.id)
            entry.kind = INJECTED
            self._wait(entry)
            if not mixed:
                return
            self.track.place_again()
        self._wait(self._typed(item, speech))

    def _typed(self, item: ResponseItem, speech: Speech) -> Waiting:
        text = "\n".join(speech.typed)
        told = next((entry for entry in self.expected if entry.text.strip() in text), None)
        if told is not None:
            self.expected.remove(told)
        in_doubt = None if text or speech.images else False
        entry = self._heard_now(text, id=item.id)
        entry.typed = True if told is not None or speech.certain else in_doubt
        entry.kind = TYPED
        if self.bodies:
            images = map(body, speech.images)
            entry.images = tuple(image for image in images if isinstance(image, str))
        return entry

    def injected(self, item: ResponseItem, *, role: Role) -> None:
        """Context of any other author."""
        self._end_turn_parts()
        text = joined(item.content) if self.bodies else ""
        entry = self._heard_now(text, role=role, id=item.id)
        entry.kind = CONTEXT if role == "system" else TASK
        self._wait(entry)

    def prompt_event(self, text: str) -> None:
        """An event tells that the person typed this."""
        self.events_tell = True
        open_ones = [entry for entry in self.waiting if entry.typed is None]
        same = [entry for entry in open_ones if entry.text == text]
        if same or open_ones:
            (same or open_ones)[-1].typed = True
        elif not any(entry.typed and text.strip() in entry.text for entry in self.waiting):
            self._end_turn_parts()
            if len(self.expected) >= _LONGEST_WAIT:
                self.listen()
            entry = self._heard_now(text)
            entry.typed = True
            self.expected.append(entry)

    def compacted(self, message: msgspec.Raw) -> None:
        """A summary replaces the history so far."""
        self.listen()
        self._settle_thoughts()
        answer = self.growing
        numbered = self.track.ordinal is not None
        if answer is not None and numbered and not (answer.announced or answer.has_calls):
            # The summary's own call: it is recorded like an answer but never shown as one.
            if answer.usage is not None and self.ahead is None:
                self.ledger.last_was_compaction()
            self._close(Mark.NOTICE)
        elif answer is None and self.ahead is not None:
            self.ledger.last_was_compaction()
        self.close()
        self.ahead = self.debtor = None
        self.compactions += 1
        text = body(message) if self.bodies else None
        entry = self._heard_now(text if isinstance(text, str) else "", role="system")
        entry.compaction = True
        self._wait(entry)
        self.listen()

    def _heard_now(self, text: str, *, role: Role = "user", id: str | None = None) -> Waiting:
        at = self.track.at if self.bodies else None
        return Waiting(position=self.track.position, at=at, text=text, role=role, id=id)

    def _wait(self, entry: Waiting) -> None:
        self.close()
        self.waiting.append(entry)
        if len(self.waiting) > _LONGEST_WAIT:
            self.listen()

    def listen(self) -> None:
        """The model shows a sign: what it has heard is decided now."""
        if not (self.waiting or self.expected):
            return
        waiting = sorted([*self.waiting, *self.expected], key=lambda entry: entry.position)
        self.waiting, self.expected = [], []
        self.close()
        for entry in waiting:
            typed = not self.events_tell if entry.typed is None else entry.typed
            self.track.remark(entry.position, Mark.PROMPT if typed else Mark.INJECTED)
            if typed:
                self.gaps.prompted()
                self.unpaid = False
                if self.first_prompt is None and self.track.traced and entry.text.strip():
                    self.first_prompt = fold_title(entry.text)
            if self.bodies:
                self.done.append(_heard(entry, typed=typed))
            if self.places is not None:
                kind = DOUBTED if entry.kind == TYPED and not typed else entry.kind
                self.places.append((entry.position, entry.position, kind))

    # the model's

    def thought_event(self, text: msgspec.Raw) -> None:
        """The screen shows reasoning; the item with the same text may never come."""
        if self.waiting or self.expected:
            self.listen()
        self.gaps.spoke()
        if len(self.thoughts) >= _LONGEST_WAIT:
            self._settle_thoughts()
        at, thought = (self.track.at, joined(text)) if self.bodies else (None, "")
        self.thoughts.append(Thought(position=self.track.position, at=at, text=thought))

    def answer_event(self) -> None:
        """The screen shows an answer; its text comes as an item."""
        self.listen()
        self.gaps.spoke()
        self.announced = True

    def thought(self, item: ResponseItem) -> None:
        """A reasoning item: it begins or continues an answer."""
        answer = self.growing
        if self.thoughts:
            self.thoughts.clear()
        if answer is not None and (answer.has_text or answer.has_calls):
            self.close()
        answer = self._grow(item)
        if answer.words is not None:
            answer.words.thinking.append(thought_in(item))

    def answer(self, item: ResponseItem) -> None:
        """An assistant message."""
        if self.growing is not None and self.growing.has_text:
            self.close()
        answer = self._grow(item)
        answer.has_text = True
        answer.announced = answer.announced or self.announced
        self.announced = False
        self.gaps.answered()
        if answer.words is not None:
            answer.words.texts.append(joined(item.content))

    def tool_call(self, item: ResponseItem, *, name: str) -> None:
        """A tool call of the answer."""
        answer = self._grow(item)
        answer.has_calls = True
        self.gaps.answered()
        if answer.words is not None:
            call_id = item.call_id or item.id or ""
            call = SessionToolCall(tool_call_id=call_id, tool_name=name, input=call_input(item))
            answer.words.calls.append(call)

    def _grow(self, item: ResponseItem) -> Answer:
        if self.waiting or self.expected:
            self.listen()
        answer = self.growing
        if answer is not None and answer.sealed:
            self._close(_REPLY)
            answer = None
        if answer is None:
            answer = self.growing = self._begin(self.track.position)
        answer.id = answer.id or item.id
        answer.last = self.track.position
        if self.ahead is not None and answer.usage is None:
            answer.usage, self.ahead = self.ahead, None
            self.ledger.last_made(answer.id)
        return answer

    def _begin(self, position: int) -> Answer:
        """A new answer, with the thoughts that the screen has seen before it."""
        words: Words | None = None
        in_items = not self.thoughts
        if self.bodies:
            words = Words(at=self.track.at, model=self.ledger.model)
            words.thinking = [thought.text for thought in self.thoughts]
        if self.thoughts:
            self.thoughts.clear()
        return Answer(position=position, words=words, last=position, in_items=in_items)

    def billed(self, call: Call) -> None:
        """Usage arrives: of the answer before it, or (older versions) of the one after it."""
        self.gaps.billed()
        answer = self.growing
        if answer is not None and answer.usage is None:
            answer.usage, answer.sealed = call, True
            self.ledger.last_made(answer.id)
        elif self.unpaid:
            self.unpaid = False
            self.ledger.last_made(self.debtor)
        else:
            self.ahead = call

    # ends

    def tool_returned(self) -> None:
        """A tool's output; it goes to the model by itself."""
        if self.waiting or self.expected:
            self.listen()
        if self.growing is not None:
            self._close(_REPLY)
        if self.thoughts:
            self._settle_thoughts()
        if self.track.traced:
            self.track.remark(self.track.position, _TOOL)

    def close(self) -> None:
        """The answer, if there is one, is complete."""
        if self.growing is not None:
            self._close(_REPLY)

    def end_turn(self, *, aborted: bool = False) -> None:
        """The turn is over, one way or another."""
        self.listen()
        self._end_turn_parts()
        if aborted:
            self.gaps.aborted()

    def _end_turn_parts(self) -> None:
        self.close()
        self._settle_thoughts()
        self.ahead = self.debtor = None
        self.announced = False

    def _settle_thoughts(self) -> None:
        """Reasoning whose item never came (the process was killed) is kept as an answer."""
        if not self.thoughts:
            return
        self.close()
        first = self.thoughts[0]
        answer = self._begin(first.position)
        if answer.words is not None:
            answer.words.at = first.at
        self.growing = answer
        self.close()

    def _close(self, mark: Mark) -> None:
        answer, self.growing = self.growing, None
        if answer is None:
            return
        self.unpaid, self.debtor = answer.usage is None, answer.id
        if self.track.traced:
            self.track.remark(answer.position, mark)
        if answer.words is not None:
            self.done.append(_spoken(answer, answer.words, synthetic=mark is Mark.NOTICE))
        if self.places is not None:
            kind = NOTICE if mark is Mark.NOTICE else ANSWER
            self.places.append((answer.position, answer.last, kind if answer.in_items else NOWHERE))


def _heard(entry: Waiting, *, typed: bool) -> SessionMessage:
    return SessionMessage(
        role=entry.role,
        content=entry.text,
        timestamp=entry.at,
        id=entry.id,
        synthetic=not typed,
        images=entry.images,
        compaction=entry.compaction,
    )


def _spoken(answer: Answer, words: Words, *, synthetic: bool) -> SessionMessage:
    return SessionMessage(
        role="assistant",
        content="\n\n".join(words.texts),
        timestamp=words.at,
        tool_calls=tuple(words.calls),
        token_usage=usage_view(answer.usage),
        thinking="\n\n".join(filter(None, words.thinking)) or None,
        model=words.model,
        id=answer.id,
        synthetic=synthetic,
    )
