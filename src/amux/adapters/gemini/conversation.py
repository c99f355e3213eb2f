"""One conversation, record by record: its messages, its calls, and what is counted of both.

The same message is written again when its tools have answered: the last version counts, in the
place of the first, so the newest messages stay open for a while. Usage is billed once per message
id, however often the message was written and whether or not it was rewound or compressed away.
Everything that is counted is the same with and without bodies.

What a message says: its texts, thoughts, tool calls and results, from the undecoded record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from amux.adapters._kit.calls import cost_view, usage_view
from amux.adapters._kit.times import to_millis
from amux.adapters._kit.values import decode, document, items, mapping, moment, text
from amux.adapters.gemini.content import (
    ACKNOWLEDGED,
    AFTER_SNAPSHOT,
    ResultPart,
    Speech,
    has_failed,
    is_command,
    is_injected,
    part_list,
    response_text,
    split_parts,
    tell_apart,
)
from amux.adapters.gemini.records import TOOLS, Kind, Said, ToolRecord
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, Trace, TraceBuilder, key_of
from amux.model.usage import Call

OPEN_MESSAGES: Final = 64
"""How many messages may follow before one is taken for complete."""

SAFETY_KEPT: Final = 200
_COMPARED: Final = 4096  # of a text: enough to recognise it, and the same when long texts are cut


class _Open:
    """A message that may be written once more."""

    __slots__ = ("message_id", "said")

    def __init__(self, said: Said, message_id: str) -> None:
        self.said = said
        self.message_id = message_id


class Conversation:
    """Collects one conversation; `take` gives back the messages that are complete."""

    def __init__(
        self, *, bodies: bool, delegated: bool, on_problem: Callable[[Problem], None]
    ) -> None:
        self.first_prompt: str | None = None
        self.first_command: str | None = None
        self.compactions = 0
        self.empty_notes = 0
        self.earliest: datetime | None = None
        self.latest: datetime | None = None
        self.models: dict[str, None] = {}
        self.gaps: dict[str, None] = {}
        self.safety: list[dict[str, object]] = []
        self.is_conversation = False  # more than texts the agent wrote itself
        self._bodies = bodies
        self._delegated = delegated
        self._on_problem = on_problem
        self._trace = TraceBuilder()
        self._calls: dict[str, Call] = {}
        self._open: dict[tuple[str, Kind], _Open] = {}
        self._known: dict[tuple[str, Kind], str] = {}  # every message so far, and its id
        self._ids: set[str] = set()
        self._texts: set[int] = set()
        self._asked: dict[str, str] = {}  # tool calls without a result: id -> name
        self._made_up: dict[str, None] = {}  # of these, those whose record has no id
        self._tools: set[str] = set()  # every tool call so far

    def take(self, said: Said) -> Iterator[SessionMessage]:
        """Enter a message, or a further version of one."""
        place = (said.id, said.kind)
        message_id = self._known.get(place)
        if message_id is None:
            message_id = self._known[place] = self._unused_id(said)
            self._open[place] = _Open(said, message_id)
        elif place in self._open:
            self._open[place].said = said
        self._bill(said, message_id)
        if said.safety and len(self.safety) < SAFETY_KEPT:
            self.safety.append({"id": message_id, **said.safety})
        if len(self._open) > OPEN_MESSAGES:
            yield from self._settle(next(iter(self._open)))

    def restore(self, messages: Sequence[Said]) -> Iterator[SessionMessage]:
        """Enter a checkpoint: what the model sees from now on, mostly repetitions.

        Only what no record of this file has said comes in: a summary, or a history from elsewhere.
        """
        yield from self.flush()
        snapshot = _snapshot(messages)
        for index, said in enumerate(messages):
            if (said.id, said.kind) in self._known:
                continue
            if index == snapshot:
                yield from self._compaction(said)
            elif self._is_news(said):
                said.restored = True
                yield from self.take(said)
        yield from self.flush()

    def flush(self) -> Iterator[SessionMessage]:
        """All messages that are still open, now complete."""
        while self._open:
            yield from self._settle(next(iter(self._open)))

    def calls(self) -> tuple[Call, ...]:
        """The calls, in order of their first record."""
        return tuple(self._calls.values())

    def trace(self) -> Trace:
        """One record per message, more where one brings tool results."""
        return self._trace.build()

    def moment(self, at: datetime | None) -> None:
        """Widen the time span."""
        if at is None:
            return
        self.earliest = at if self.earliest is None else min(at, self.earliest)
        self.latest = at if self.latest is None else max(at, self.latest)

    def _unused_id(self, said: Said) -> str:
        """An answer and the result that follows it may share one id."""
        name = said.id
        while name in self._ids:
            name = f"{name}:{said.kind}"
        self._ids.add(name)
        return name

    def _bill(self, said: Said, message_id: str) -> None:
        stated = said.stated
        if said.kind != "gemini" or stated is None:
            return
        before = self._calls.get(said.id)
        self._calls[said.id] = Call(
            key=said.id,
            model=said.model,
            at=said.at if before is None else before.at,
            tokens=stated.tokens,
            native_nusd=stated.nusd,
            message_id=message_id,
            purpose="subagent" if self._delegated else "main",
            repeats=0 if before is None else before.repeats + 1,
            gaps=stated.gaps,
        )

    def _is_news(self, said: Said) -> bool:
        if said.kind == "gemini":
            reply = Reply(said, "")
            asked = reply.call_ids()
            if not self._tools.isdisjoint(asked):
                return False
            if not reply.text:
                return bool(asked)
            return self._fingerprint(said.kind, reply.text) not in self._texts
        turn = UserTurn(said, delegated=self._delegated)
        if turn.parts.results:
            return any(result.id in self._asked for result in turn.parts.results)
        return self._fingerprint(said.kind, turn.text) not in self._texts

    def _compaction(self, said: Said) -> Iterator[SessionMessage]:
        self.compactions += 1
        message_id = self._known[said.id, said.kind] = self._unused_id(said)
        self._mark(message_id, said.at, LineKind.INJECTED)
        if self._bodies:
            yield SessionMessage(
                role="user",
                content=UserTurn(said, delegated=self._delegated).text,
                timestamp=said.at,
                id=message_id,
                synthetic=True,
                compaction=True,
            )

    def _settle(self, place: tuple[str, Kind]) -> Iterator[SessionMessage]:
        entry = self._open.pop(place)
        match entry.said.kind:
            case "user":
                return self._settle_user(entry)
            case "gemini":
                return self._settle_reply(entry)
            case "note":
                return self._settle_note(entry)

    def _settle_user(self, entry: _Open) -> Iterator[SessionMessage]:
        said = entry.said
        turn = UserTurn(said, delegated=self._delegated)
        self._texts.add(self._fingerprint("user", turn.text))
        ids = _numbered(entry.message_id)
        for result in turn.parts.results:
            call_id = self._call_of(result.id, result.name, line=said.line)
            if call_id is None:
                continue
            message_id = next(ids)
            self._mark(message_id, said.at, LineKind.TOOL)
            if self._bodies:
                yield turn.result_message(result, call_id, message_id)
        if turn.speech.injected:
            message_id = next(ids)
            self._mark(message_id, said.at, LineKind.INJECTED)
            if self._bodies:
                yield turn.injected_message(message_id)
        if turn.is_prompt:
            message_id = next(ids)
            self._mark(message_id, said.at, LineKind.PROMPT)
            self._learn_title(turn.prompt)
            if self._bodies:
                yield turn.prompt_message(message_id)

    def _settle_reply(self, entry: _Open) -> Iterator[SessionMessage]:
        said = entry.said
        reply = Reply(said, entry.message_id)
        synthetic = reply.text.strip() in ACKNOWLEDGED and said.stated is None
        self._texts.add(self._fingerprint("gemini", reply.text))
        self._mark(entry.message_id, said.at, LineKind.NOTICE if synthetic else LineKind.REPLY)
        if said.id not in self._calls and not synthetic:
            self._miss_usage(said)
        if self._bodies:
            yield reply.message(self._calls.get(said.id), synthetic=synthetic)
        ids = _numbered(entry.message_id, first=1)
        for call in reply.calls():
            self._tools.add(call.id)
            if not call.has_result:
                self._asked[call.id] = call.name
                if call.made_up:
                    self._made_up[call.id] = None
                continue
            message_id = next(ids)
            self._mark(message_id, call.at or said.at, LineKind.TOOL)
            if self._bodies:
                yield reply.result_message(call, message_id)

    def _miss_usage(self, said: Said) -> None:
        if said.model is not None:
            self.models.setdefault(said.model)
        if not said.restored:  # what came with a checkpoint was billed where it was said
            self.gaps[USAGE_NOT_RECORDED] = None

    def _settle_note(self, entry: _Open) -> Iterator[SessionMessage]:
        message = note_message(entry.said, entry.message_id)
        if not message.content.strip():
            self.empty_notes += 1
            self._mark(entry.message_id, entry.said.at, LineKind.LINE)
            return
        self._mark(entry.message_id, entry.said.at, LineKind.INJECTED)
        if self._bodies:
            yield message

    def _call_of(self, call_id: str | None, name: str, *, line: int) -> str | None:
        """The call a result answers; None when it has its result already."""
        if call_id is None or call_id not in self._tools:
            # Old versions keep no ids of calls: it is the oldest open one of that tool.
            made_up = (one for one in self._made_up if self._asked.get(one) == name)
            call_id = next(made_up, call_id)
        if call_id is not None and self._asked.pop(call_id, None) is not None:
            return call_id
        if call_id is None or call_id not in self._tools:
            message = "a tool result belongs to no call"
            self._on_problem(Problem(code="orphan-result", message=message, line=line))
            return call_id or ""
        return None

    def _learn_title(self, prompt: str) -> None:
        title = fold_title(prompt) or None
        if is_command(prompt):
            self.first_command = self.first_command or title
        else:
            self.first_prompt = self.first_prompt or title

    def _mark(self, message_id: str, at: datetime | None, mark: LineKind) -> None:
        self._trace.add(key_of(message_id), to_millis(at), mark)
        self.moment(at)
        if mark in {LineKind.PROMPT, LineKind.REPLY, LineKind.TOOL}:
            self.is_conversation = True

    @staticmethod
    def _fingerprint(kind: Kind, text: str) -> int:
        return key_of(f"{kind}\n{text.strip()[:_COMPARED]}")


def _numbered(message_id: str, *, first: int = 0) -> Iterator[str]:
    """Ids for the messages of one record: its own, then numbered ones."""
    number = first
    while True:
        yield message_id if number == 0 else f"{message_id}#{number}"
        number += 1


def _snapshot(messages: Iterable[Said]) -> int | None:
    """Where a checkpoint holds the summary of a compression: before the answer made up for it."""
    before: Said | None = None
    for index, said in enumerate(messages):
        if said.kind == "gemini" and before is not None and before.kind == "user":
            is_answer = Reply(said, "").text.strip() == AFTER_SNAPSHOT
            text = UserTurn(before, delegated=False).text
            if is_answer and not (is_injected(text) and "<state_snapshot>" not in text):
                return index - 1
        before = said
    return None


class ToolUse(msgspec.Struct, kw_only=True):
    """A tool call of an answer; its bodies are still undecoded."""

    id: str
    name: str
    made_up: bool = False  # the record has no id of its own
    args: msgspec.Raw | None = None
    given: Any = None  # arguments that came decoded
    result: msgspec.Raw | None = None
    status: object = None
    at: datetime | None = None

    @property
    def has_result(self) -> bool:
        """Whether the tool has given anything back."""
        return self.result is not None

    @property
    def input(self) -> Any:
        """What the tool was asked."""
        return self.given if self.args is None else document(bytes(self.args))

    def responses(self) -> list[Any]:
        """What the tool gave back, without the wrapping."""
        if self.result is None:
            return []
        content = document(bytes(self.result))
        wrapped = [
            mapping(mapping(part).get("functionResponse")).get("response")
            for part in part_list(content)
        ]
        return [response for response in wrapped if response is not None] or [content]


class Reply:
    """What a model said."""

    def __init__(self, said: Said, message_id: str) -> None:
        self._said = said
        self._id = message_id
        self._parts = split_parts(document(bytes(said.content)))

    @property
    def text(self) -> str:
        """Its text."""
        return self._parts.text

    def call_ids(self) -> list[str]:
        """The recorded ids of its tool calls."""
        recorded = [part.id for part in self._parts.calls if part.id is not None]
        return recorded + [call.id for call in self._recorded_calls()]

    def calls(self) -> list[ToolUse]:
        """Its tool calls; those of a checkpoint stand among the parts, without results."""
        recorded = list(self._recorded_calls())
        if recorded:
            return recorded
        return [
            ToolUse(
                id=part.id or f"{self._id}/{index}",
                name=part.name,
                made_up=part.id is None,
                given=part.args,
            )
            for index, part in enumerate(self._parts.calls)
        ]

    def _recorded_calls(self) -> Iterator[ToolUse]:
        found = decode(bytes(self._said.tools), TOOLS) if bytes(self._said.tools) else None
        for index, record in enumerate(found or []):
            if isinstance(record, ToolRecord):
                yield ToolUse(
                    id=text(record.id) or f"{self._id}/{index}",
                    name=text(record.name) or "",
                    args=record.args,
                    result=record.result if record.has_result else None,
                    status=record.status,
                    at=moment(record.timestamp),
                )

    def message(self, call: Call | None, *, synthetic: bool) -> SessionMessage:
        """The message; `call` is what it cost."""
        said = self._said
        return SessionMessage(
            role="assistant",
            content=self.text,
            timestamp=said.at,
            tool_calls=tuple(_tool_call(one) for one in self.calls()),
            token_usage=usage_view(call),
            cost=cost_view(call),
            thinking="\n\n".join(self._thoughts()) or None,
            model=said.model,
            id=self._id,
            synthetic=synthetic,
        )

    def _thoughts(self) -> Iterator[str]:
        recorded = items(document(bytes(self._said.thoughts))) if bytes(self._said.thoughts) else []
        if not recorded:
            yield from self._parts.thoughts
        for thought in recorded:
            fields = mapping(thought)
            subject, body = text(fields.get("subject")), text(fields.get("description"))
            if subject or body:
                yield " ".join(filter(None, (subject and f"**{subject}**", body)))

    def result_message(self, call: ToolUse, message_id: str) -> SessionMessage:
        """The result of one of its calls."""
        responses = call.responses()
        return SessionMessage(
            role="tool",
            content="\n".join(response_text(one) for one in responses),
            timestamp=call.at or self._said.at,
            id=message_id,
            parent_id=self._id,
            tool_result=ToolResult(
                tool_call_id=call.id,
                tool_name=call.name,
                output=responses[0] if len(responses) == 1 else responses,
                is_error=has_failed(call.name, call.status, responses),
            ),
        )


def _tool_call(call: ToolUse) -> SessionToolCall:
    return SessionToolCall(tool_call_id=call.id, tool_name=call.name, input=call.input)


class UserTurn:
    """What came from the person's side: prompts, context, tool results."""

    def __init__(self, said: Said, *, delegated: bool) -> None:
        self._said = said
        self.parts = split_parts(document(bytes(said.content)))
        self.speech: Speech = tell_apart(self.parts.texts, delegated=delegated)

    @property
    def text(self) -> str:
        """All texts."""
        return self.parts.text

    @property
    def is_prompt(self) -> bool:
        """Whether somebody typed or pasted something."""
        return bool(self.speech.typed) or bool(self.parts.images and not self.speech.injected)

    @cached_property
    def prompt(self) -> str:
        """What was typed: as it was shown, where the agent expanded it."""
        if bytes(self._said.display):
            shown = split_parts(document(bytes(self._said.display))).text
            if shown.strip():
                return shown
        return "".join(self.speech.typed)

    def prompt_message(self, message_id: str) -> SessionMessage:
        """The typed part."""
        return SessionMessage(
            role="user",
            content=self.prompt,
            timestamp=self._said.at,
            id=message_id,
            images=self.parts.images,
        )

    def injected_message(self, message_id: str) -> SessionMessage:
        """What the agent added."""
        return SessionMessage(
            role="user",
            content="\n".join(self.speech.injected),
            timestamp=self._said.at,
            id=message_id,
            synthetic=True,
        )

    def result_message(self, result: ResultPart, call_id: str, message_id: str) -> SessionMessage:
        """A tool's result."""
        return SessionMessage(
            role="tool",
            content=response_text(result.response),
            timestamp=self._said.at,
            id=message_id,
            tool_result=ToolResult(
                tool_call_id=call_id,
                tool_name=result.name,
                output=result.response,
                is_error=has_failed(result.name, None, [result.response]),
            ),
        )


def note_message(said: Said, message_id: str) -> SessionMessage:
    """A notice of the agent itself."""
    return SessionMessage(
        role="system",
        content=split_parts(document(bytes(said.content))).text,
        timestamp=said.at,
        id=message_id,
        synthetic=True,
    )
