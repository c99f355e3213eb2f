"""One conversation, line by line: which lines begin messages, and what the messages say.

Everything that is counted is the same with and without bodies. An answer stays open until the next
message begins: a sub-agent's answer has its usage on one line and its tool calls on the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amux.adapters._kit.calls import tokens_view
from amux.adapters._kit.times import to_millis
from amux.adapters._kit.values import document, items, mapping, text
from amux.adapters.gemini.parts import (
    CallPart,
    ResultPart,
    has_failed,
    response_text,
    split_parts,
    tool_call,
)
from amux.adapters.gemini.prompts import Speech, tell_apart
from amux.adapters.gemini.usage import Counts
from amux.adapters.qwen.calls import billed, usage_of
from amux.adapters.qwen.records import Entry
from amux.model.incomplete import CALL_INTERRUPTED, USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, TokenUsage, ToolResult
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, Trace, TraceBuilder, key_of

_CANCELLED = frozenset({"cancelled", "canceled"})

Bill = Callable[[Entry, Counts, str], None]
"""Enters the usage of an answer: its line, its figures, the id of its message."""


class _Answer:
    """An answer of which further lines may come."""

    def __init__(self, entry: Entry, parent_id: str | None) -> None:
        self.entry = entry
        self.counts = usage_of(entry)
        self.entries = [entry]
        self._parent_id = parent_id

    def calls(self) -> list[tuple[CallPart, str]]:
        """Its tool calls with their ids."""
        parts = [call for entry in self.entries for call in entry.parts.calls]
        return [(part, part.id or f"{self.entry.id}/{n}") for n, part in enumerate(parts)]

    def message(self) -> SessionMessage:
        """The whole answer."""
        parts = [entry.parts for entry in self.entries]
        return SessionMessage(
            role="assistant",
            content="".join(part.text for part in parts),
            timestamp=self.entry.at,
            tool_calls=tuple(tool_call(part, call_id) for part, call_id in self.calls()),
            token_usage=_view(self.counts),
            thinking="\n\n".join(thought for part in parts for thought in part.thoughts) or None,
            model=text(self.entry.line.model),
            id=self.entry.id,
            parent_id=self._parent_id,
        )


class Conversation:
    """Collects one conversation; `take` gives back the messages that are complete."""

    def __init__(
        self, *, bodies: bool, delegated: bool, bill: Bill, on_problem: Callable[[Problem], None]
    ) -> None:
        self.first_prompt: str | None = None
        self.compactions = 0
        self.has_messages = False
        self.models: dict[str, None] = {}
        self.gaps: dict[str, None] = {}
        self._bodies = bodies
        self._delegated = delegated
        self._bill = bill
        self._on_problem = on_problem
        self._trace = TraceBuilder()
        self._open: _Answer | None = None
        self._asked: dict[str, str] = {}  # tool calls without a result: id -> name
        self._message_of: dict[str, str] = {}  # line -> the message it belongs to or follows
        self._waiting = False  # for an answer that should have come

    def take(self, entry: Entry) -> Iterator[SessionMessage]:
        """Enter one line."""
        match entry.type:
            case "user":
                yield from self.flush()
                yield from self._user(entry)
            case "assistant":
                yield from self._assistant(entry)
            case "tool_result":
                yield from self.flush()
                yield from self._results(entry)
            case "system" if entry.subtype == "chat_compression":
                yield from self.flush()
                yield from self._compression(entry)
            case _:
                self._mark(entry, entry.id, LineKind.LINE)

    def flush(self) -> Iterator[SessionMessage]:
        """The open answer, now complete."""
        answer, self._open = self._open, None
        if answer is None:
            return
        self._asked.update({call_id: part.name for part, call_id in answer.calls()})
        if self._bodies:
            yield answer.message()

    def see_response(self) -> None:
        """Note that the model was heard of, be it with an error."""
        self._waiting = False

    def close(self) -> None:
        """Note what is missing at the end."""
        if self._waiting:
            self.gaps[CALL_INTERRUPTED] = None

    def trace(self) -> Trace:
        """One record per line, more where a line holds several messages."""
        return self._trace.build()

    def _user(self, entry: Entry) -> Iterator[SessionMessage]:
        parent_id = self._parent(entry)
        speech = self._speech(entry)
        has_images = bool(entry.parts.images)
        number = 0
        if speech.injected:
            self._mark(entry, entry.id, LineKind.INJECTED)
            number = 1
            if self._bodies:
                yield _said(entry, entry.id, "\n".join(speech.injected), parent_id, synthetic=True)
        if speech.typed or (has_images and not speech.injected):
            message_id = f"{entry.id}#1" if number else entry.id
            prompt = "".join(speech.typed)
            self._await_answer(entry)
            self._mark(entry, message_id, LineKind.PROMPT)
            self.first_prompt = self.first_prompt or fold_title(prompt) or None
            if self._bodies:
                yield _said(entry, message_id, prompt, parent_id)
        elif not number:
            self._mark(entry, entry.id, LineKind.LINE)

    def _speech(self, entry: Entry) -> Speech:
        texts = entry.parts.texts
        if not entry.is_typed:
            return Speech(injected=texts)
        speech = tell_apart(texts, delegated=self._delegated)
        shown = text(entry.payload.get("displayText"))  # what was typed, where a hook added to it
        return Speech((shown,), speech.injected) if shown and speech.typed else speech

    def _await_answer(self, entry: Entry) -> None:
        if self._waiting:
            self.gaps[CALL_INTERRUPTED] = None
        self._waiting = not entry.copied

    def _assistant(self, entry: Entry) -> Iterator[SessionMessage]:
        counts = usage_of(entry)
        answer = self._open
        if answer is not None and answer.counts is not None and counts is None:
            answer.entries.append(entry)
            self._mark(entry, answer.entry.id, LineKind.LINE)
            return
        yield from self.flush()
        self._waiting = False
        self._open = _Answer(entry, self._parent(entry))
        self._mark(entry, entry.id, LineKind.REPLY)
        if counts is not None:
            self._bill(entry, counts, entry.id)
            return
        self.gaps[USAGE_NOT_RECORDED] = None
        if model := text(entry.line.model):
            self.models.setdefault(model)

    def _results(self, entry: Entry) -> Iterator[SessionMessage]:
        details = mapping(document(bytes(entry.line.tool_call_result)))
        parent_id = self._parent(entry)
        status = text(details.get("status"))
        self._waiting = not entry.copied and (status or "").lower() not in _CANCELLED
        for number, result in enumerate(entry.parts.results):
            message_id = f"{entry.id}#{number}" if number else entry.id
            call_id = result.id or text(details.get("callId")) or ""
            name = self._asked.pop(call_id, None)
            if name is None:
                message = "a tool result belongs to no call"
                self._on_problem(Problem(code="orphan-result", message=message, line=entry.number))
            self._mark(entry, message_id, LineKind.TOOL)
            if self._bodies:
                tool = ToolResult(
                    tool_call_id=call_id,
                    tool_name=result.name or name or "",
                    output=result.response,
                    is_error=has_failed(result.name or name or "", status, [result.response]),
                )
                yield _result(entry, message_id, result, tool, parent_id=parent_id)
        if not entry.parts.results:
            self._mark(entry, entry.id, LineKind.LINE)

    def _compression(self, entry: Entry) -> Iterator[SessionMessage]:
        self.compactions += 1
        history = items(entry.payload.get("compressedHistory"))
        summary = split_parts(history[0]).text if history else ""
        if not summary.strip():
            self._mark(entry, entry.id, LineKind.LINE)
            return
        parent_id = self._parent(entry)
        self._mark(entry, entry.id, LineKind.INJECTED)
        if self._bodies:
            yield SessionMessage(
                role="user",
                content=summary,
                timestamp=entry.at,
                id=entry.id,
                parent_id=parent_id,
                synthetic=True,
                compaction=True,
            )

    def _mark(self, entry: Entry, message_id: str, mark: LineKind) -> None:
        self._trace.add(key_of(message_id), to_millis(entry.at), mark)
        self.has_messages |= mark in {LineKind.PROMPT, LineKind.REPLY, LineKind.TOOL}
        if self._bodies:
            owner = self._parent(entry) if mark is LineKind.LINE else message_id
            if owner is not None:
                self._message_of[entry.id] = owner

    def _parent(self, entry: Entry) -> str | None:
        """The message a line follows: chains run through lines that are no messages."""
        parent = text(entry.line.parent_uuid)
        found = None if parent is None else self._message_of.get(parent)
        return None if found == entry.id else found


def _view(counts: Counts | None) -> TokenUsage | None:
    """The usage of an answer; a lower bound is none to show."""
    return None if counts is None or counts.gaps else tokens_view(billed(counts))


def _said(
    entry: Entry, message_id: str, content: str, parent_id: str | None, *, synthetic: bool = False
) -> SessionMessage:
    return SessionMessage(
        role="user",
        content=content,
        timestamp=entry.at,
        id=message_id,
        parent_id=parent_id,
        synthetic=synthetic,
        images=() if synthetic and entry.is_typed else entry.parts.images,
    )


def _result(
    entry: Entry, message_id: str, result: ResultPart, tool: ToolResult, *, parent_id: str | None
) -> SessionMessage:
    return SessionMessage(
        role="tool",
        content=response_text(result.response),
        timestamp=entry.at,
        id=message_id,
        parent_id=parent_id,
        tool_result=tool,
    )
