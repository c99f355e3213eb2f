"""Collects one conversation from its records: messages, calls, and the counts of both.

A message is written again when its tools have answered. The last version counts, at the position
of the first, so the newest messages stay open for a while. Usage is billed once per message id,
however often the message was written and even if it was rewound or compressed away. All counts are
equal with and without bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from amux.adapters._kit.commands import can_name_session
from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.usage import cost_view, usage_view
from amux.adapters._kit.values import decode, document, items, mapping, moment, text, to_millis
from amux.adapters.gemini.content import (
    ACKNOWLEDGED,
    AFTER_SNAPSHOT,
    ResultPart,
    UserTexts,
    has_failed,
    part_list,
    response_text,
    split_parts,
    split_user_texts,
)
from amux.adapters.gemini.directories import NamedPaths
from amux.adapters.gemini.records import TOOLS, ChatMessage, Kind, ToolRecord
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, Trace, TraceBuilder, key_of
from amux.model.usage import Call

OPEN_MESSAGES: Final = 64
"""The number of later messages after which a message counts as complete."""

SAFETY_KEPT: Final = 200
_COMPARED: Final = 4096  # characters that identify a text; unaffected when long texts are cut


class _OpenMessage:
    """A message that may be written again."""

    __slots__ = ("message", "message_id")

    def __init__(self, message: ChatMessage, message_id: str) -> None:
        self.message = message
        self.message_id = message_id


class Conversation:
    """Collects one conversation; `take` yields the messages that are complete."""

    def __init__(
        self,
        *,
        bodies: bool,
        delegated: bool,
        injected: InjectedTexts,
        on_problem: Callable[[Problem], None],
    ) -> None:
        self.first_prompt: str | None = None
        self.compactions = 0
        self.empty_notes = 0
        self.earliest: datetime | None = None
        self.latest: datetime | None = None
        self.models: dict[str, None] = {}
        self.gaps: dict[str, None] = {}
        self.safety: list[dict[str, object]] = []
        self.named_paths: NamedPaths | None = None  # None: paths are not collected
        self.is_conversation = False  # has more than texts that the agent injected
        self._bodies = bodies
        self.delegated = delegated  # the user's side is an agent
        self._injected = injected
        self._on_problem = on_problem
        self._trace = TraceBuilder()
        self._calls: dict[str, Call] = {}
        self._open: dict[tuple[str, Kind], _OpenMessage] = {}
        self._message_ids: dict[tuple[str, Kind], str] = {}  # the id of every message so far
        self._ids: set[str] = set()
        self._texts: set[int] = set()
        self._pending: dict[str, str] = {}  # tool calls without a result: id -> name
        self._first_command: str | None = None
        self._answered_command: str | None = None  # the first with an answer
        self._open_command: str | None = None  # the last prompt, if it is a command
        self._without_id: dict[str, None] = {}  # pending calls whose record has no id
        self._tools: set[str] = set()  # every tool call so far

    def take(self, message: ChatMessage) -> Iterator[SessionMessage]:
        """Add a message, or a newer version of one."""
        key = (message.id, message.kind)
        message_id = self._message_ids.get(key)
        if message_id is None:
            message_id = self._message_ids[key] = self._unused_id(message)
            self._open[key] = _OpenMessage(message, message_id)
        elif key in self._open:
            self._open[key].message = message
        self._bill(message, message_id)
        if message.safety and len(self.safety) < SAFETY_KEPT:
            self.safety.append({"id": message_id, **message.safety})
        if len(self._open) > OPEN_MESSAGES:
            yield from self._complete(next(iter(self._open)))

    def restore(self, messages: Sequence[ChatMessage]) -> Iterator[SessionMessage]:
        """Add a checkpoint: the history the model sees from now on, mostly repetitions.

        Only messages without a record in this file are added: a summary, or an imported history.
        """
        yield from self.flush()
        snapshot = self._snapshot(messages)
        for index, message in enumerate(messages):
            if (message.id, message.kind) in self._message_ids:
                continue
            if index == snapshot:
                yield from self._compaction(message)
            elif self._is_new(message):
                message.restored = True
                yield from self.take(message)
        yield from self.flush()

    def flush(self) -> Iterator[SessionMessage]:
        """Complete and yield all open messages."""
        while self._open:
            yield from self._complete(next(iter(self._open)))

    @property
    def command_title(self) -> str | None:
        """The first command that was answered, else the first one; None if there is none."""
        return self._answered_command or self._first_command

    def calls(self) -> tuple[Call, ...]:
        """Return the calls in the order of their first record."""
        return tuple(self._calls.values())

    def trace(self) -> Trace:
        """Return the trace: one entry per message, more for a record with tool results."""
        return self._trace.build()

    def moment(self, at: datetime | None) -> None:
        """Extend the time span to `at`."""
        if at is None:
            return
        self.earliest = at if self.earliest is None else min(at, self.earliest)
        self.latest = at if self.latest is None else max(at, self.latest)

    def _unused_id(self, message: ChatMessage) -> str:
        """Return a unique id: an answer and the result that follows it may share one."""
        name = message.id
        while name in self._ids:
            name = f"{name}:{message.kind}"
        self._ids.add(name)
        return name

    def _bill(self, message: ChatMessage, message_id: str) -> None:
        stated = message.stated
        if message.kind != "gemini" or stated is None:
            return
        before = self._calls.get(message.id)
        self._calls[message.id] = Call(
            key=message.id,
            model=message.model,
            at=message.at if before is None else before.at,
            tokens=stated.tokens,
            native_nusd=stated.nusd,
            message_id=message_id,
            purpose="subagent" if self.delegated else "main",
            repeats=0 if before is None else before.repeats + 1,
            gaps=stated.gaps,
        )

    def _is_new(self, message: ChatMessage) -> bool:
        if message.kind == "gemini":
            reply = Reply(message, "")
            asked = reply.call_ids()
            if not self._tools.isdisjoint(asked):
                return False
            if not reply.text:
                return bool(asked)
            return self._fingerprint(message.kind, reply.text) not in self._texts
        turn = self._user_turn(message)
        if turn.parts.results:
            return any(result.id in self._pending for result in turn.parts.results)
        return self._fingerprint(message.kind, turn.text) not in self._texts

    def _compaction(self, message: ChatMessage) -> Iterator[SessionMessage]:
        self.compactions += 1
        message_id = self._message_ids[message.id, message.kind] = self._unused_id(message)
        self._add_to_trace(message_id, message.at, LineKind.INJECTED)
        if self._bodies:
            yield SessionMessage(
                role="user",
                content=self._user_turn(message).text,
                timestamp=message.at,
                id=message_id,
                synthetic=True,
                compaction=True,
            )

    def _complete(self, key: tuple[str, Kind]) -> Iterator[SessionMessage]:
        entry = self._open.pop(key)
        match entry.message.kind:
            case "user":
                return self._complete_user(entry)
            case "gemini":
                return self._complete_reply(entry)
            case "note":
                return self._complete_note(entry)

    def _complete_note(self, entry: _OpenMessage) -> Iterator[SessionMessage]:
        content = split_parts(document(bytes(entry.message.content))).text
        has_text = bool(content.strip())
        kind = LineKind.INJECTED if has_text else LineKind.LINE
        self._add_to_trace(entry.message_id, entry.message.at, kind)
        if not has_text:
            self.empty_notes += 1
        elif self._bodies:
            yield SessionMessage(
                role="system",
                content=content,
                timestamp=entry.message.at,
                id=entry.message_id,
                synthetic=True,
            )

    def _complete_user(self, entry: _OpenMessage) -> Iterator[SessionMessage]:
        message, at = entry.message, entry.message.at
        turn = self._user_turn(message)
        self._texts.add(self._fingerprint("user", turn.text))
        ids = _numbered(entry.message_id)
        for result in turn.parts.results:
            call_id = self._answered_call(result.id, result.name, line=message.line)
            if call_id is None:
                continue
            message_id = next(ids)
            self._add_to_trace(message_id, at, LineKind.TOOL)
            if self._bodies:
                yield turn.result_message(result, call_id, message_id)
        if turn.user_texts.injected:
            message_id = next(ids)
            self._add_to_trace(message_id, at, LineKind.INJECTED)
            if self._bodies:
                content = "\n".join(turn.user_texts.injected)
                yield SessionMessage(
                    role="user", content=content, timestamp=at, id=message_id, synthetic=True
                )
        if turn.is_prompt:
            message_id = next(ids)
            self._add_to_trace(message_id, at, LineKind.PROMPT)
            self._take_title(fold_title(turn.prompt) or None)
            if self._bodies:
                images = turn.parts.images
                yield SessionMessage(
                    role="user", content=turn.prompt, timestamp=at, id=message_id, images=images
                )

    def _take_title(self, title: str | None) -> None:
        """Use a prompt as a title, or as a second choice if it is a command."""
        self._open_command = None
        if title is None or not title.startswith(("/", "?")):
            self.first_prompt = self.first_prompt or title
        elif can_name_session(title):
            self._first_command = self._first_command or title
            self._open_command = title

    def _complete_reply(self, entry: _OpenMessage) -> Iterator[SessionMessage]:
        message = entry.message
        reply = Reply(message, entry.message_id)
        synthetic = reply.text.strip() in ACKNOWLEDGED and message.stated is None
        if not synthetic:
            self._answered_command = self._answered_command or self._open_command
        self._texts.add(self._fingerprint("gemini", reply.text))
        self._add_to_trace(
            entry.message_id, message.at, LineKind.NOTICE if synthetic else LineKind.REPLY
        )
        if message.id not in self._calls and not synthetic:
            if message.model is not None:
                self.models.setdefault(message.model)
            if not message.restored:  # a message from a checkpoint was billed in its own file
                self.gaps[USAGE_NOT_RECORDED] = None
        if self._bodies:
            yield reply.message(self._calls.get(message.id), synthetic=synthetic)
        yield from self._take_tools(reply, entry)

    def _take_tools(self, reply: Reply, entry: _OpenMessage) -> Iterator[SessionMessage]:
        """Add the tool calls of an answer and yield the results it holds."""
        ids = _numbered(entry.message_id, first=1)
        for call in reply.calls():
            self._tools.add(call.id)
            if self.named_paths is not None and call.args is not None:
                self.named_paths.take(bytes(call.args))
            if not call.has_result:
                self._pending[call.id] = call.name
                if call.has_generated_id:
                    self._without_id[call.id] = None
                continue
            message_id = next(ids)
            self._add_to_trace(message_id, call.at or entry.message.at, LineKind.TOOL)
            if self._bodies:
                yield reply.result_message(call, message_id)

    def _answered_call(self, call_id: str | None, name: str, *, line: int) -> str | None:
        """Return the id of the call that a result answers; None if the call already has one."""
        if call_id is None or call_id not in self._tools:
            # Old versions record no call ids: take the oldest pending call of that tool.
            has_generated_id = (one for one in self._without_id if self._pending.get(one) == name)
            call_id = next(has_generated_id, call_id)
        if call_id is not None and self._pending.pop(call_id, None) is not None:
            return call_id
        if call_id is None or call_id not in self._tools:
            message = "a tool result belongs to no call"
            self._on_problem(Problem(code="orphan-result", message=message, line=line))
            return call_id or ""
        return None

    def _user_turn(self, message: ChatMessage) -> UserTurn:
        return UserTurn(message, self._injected, delegated=self.delegated)

    def _snapshot(self, messages: Iterable[ChatMessage]) -> int | None:
        """Return the index of a compression's summary in a checkpoint; None if there is none.

        The summary precedes the answer that the agent injects after it.
        """
        before: ChatMessage | None = None
        for index, message in enumerate(messages):
            if message.kind == "gemini" and before is not None and before.kind == "user":
                is_answer = Reply(message, "").text.strip() == AFTER_SNAPSHOT
                text = self._user_turn(before).text
                if is_answer and not (
                    self._injected.begins(text) and "<state_snapshot>" not in text
                ):
                    return index - 1
            before = message
        return None

    def _add_to_trace(self, message_id: str, at: datetime | None, kind: LineKind) -> None:
        self._trace.add(key_of(message_id), to_millis(at), kind)
        self.moment(at)
        if kind in {LineKind.PROMPT, LineKind.REPLY, LineKind.TOOL}:
            self.is_conversation = True

    @staticmethod
    def _fingerprint(kind: Kind, text: str) -> int:
        return key_of(f"{kind}\n{text.strip()[:_COMPARED]}")


def _numbered(message_id: str, *, first: int = 0) -> Iterator[str]:
    """Yield ids for the messages of one record: its own id, then numbered ones."""
    number = first
    while True:
        yield message_id if number == 0 else f"{message_id}#{number}"
        number += 1


class ToolUse(msgspec.Struct, kw_only=True):
    """A tool call of an answer; its arguments and result are still undecoded."""

    id: str
    name: str
    has_generated_id: bool = False  # the record has no id
    args: msgspec.Raw | None = None
    decoded_args: Any = None  # arguments that are already decoded
    result: msgspec.Raw | None = None
    status: object = None
    at: datetime | None = None

    @property
    def has_result(self) -> bool:
        """Whether the call has a result."""
        return self.result is not None

    @property
    def input(self) -> Any:
        """The arguments of the call."""
        return self.decoded_args if self.args is None else document(bytes(self.args))

    def responses(self) -> list[Any]:
        """Return the responses of the tool without their envelope."""
        if self.result is None:
            return []
        content = document(bytes(self.result))
        wrapped = [
            mapping(mapping(part).get("functionResponse")).get("response")
            for part in part_list(content)
        ]
        return [response for response in wrapped if response is not None] or [content]


class Reply:
    """An answer of a model."""

    def __init__(self, message: ChatMessage, message_id: str) -> None:
        self._message = message
        self._id = message_id
        self._parts = split_parts(document(bytes(message.content)))

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self._parts.text

    def call_ids(self) -> list[str]:
        """Return the recorded ids of the tool calls."""
        recorded = [part.id for part in self._parts.calls if part.id is not None]
        return recorded + [call.id for call in self._recorded_calls()]

    def calls(self) -> list[ToolUse]:
        """Return the tool calls; in a checkpoint they are content parts and have no results."""
        recorded = list(self._recorded_calls())
        if recorded:
            return recorded
        return [
            ToolUse(
                id=part.id or f"{self._id}/{index}",
                name=part.name,
                has_generated_id=part.id is None,
                decoded_args=part.args,
            )
            for index, part in enumerate(self._parts.calls)
        ]

    def _recorded_calls(self) -> Iterator[ToolUse]:
        found = decode(bytes(self._message.tools), TOOLS) if bytes(self._message.tools) else None
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
        """Return the message with the usage of `call`."""
        message = self._message
        return SessionMessage(
            role="assistant",
            content=self.text,
            timestamp=message.at,
            tool_calls=tuple(
                SessionToolCall(tool_call_id=one.id, tool_name=one.name, input=one.input)
                for one in self.calls()
            ),
            token_usage=usage_view(call),
            cost=cost_view(call),
            thinking="\n\n".join(self._thoughts()) or None,
            model=message.model,
            id=self._id,
            synthetic=synthetic,
        )

    def _thoughts(self) -> Iterator[str]:
        recorded = (
            items(document(bytes(self._message.thoughts))) if bytes(self._message.thoughts) else []
        )
        if not recorded:
            yield from self._parts.thoughts
        for thought in recorded:
            fields = mapping(thought)
            subject, body = text(fields.get("subject")), text(fields.get("description"))
            if subject or body:
                yield " ".join(filter(None, (subject and f"**{subject}**", body)))

    def result_message(self, call: ToolUse, message_id: str) -> SessionMessage:
        """Return the message for the result of one tool call."""
        responses = call.responses()
        return SessionMessage(
            role="tool",
            content="\n".join(response_text(one) for one in responses),
            timestamp=call.at or self._message.at,
            id=message_id,
            parent_id=self._id,
            tool_result=ToolResult(
                tool_call_id=call.id,
                tool_name=call.name,
                output=responses[0] if len(responses) == 1 else responses,
                is_error=has_failed(call.name, call.status, responses),
            ),
        )


class UserTurn:
    """A record of the user's side: prompt, context and tool results."""

    def __init__(self, message: ChatMessage, injected: InjectedTexts, *, delegated: bool) -> None:
        self._message = message
        self.parts = split_parts(document(bytes(message.content)))
        self.user_texts: UserTexts = split_user_texts(
            self.parts.texts, injected, delegated=delegated
        )

    @property
    def text(self) -> str:
        """All texts, joined."""
        return self.parts.text

    @property
    def is_prompt(self) -> bool:
        """Whether the record holds typed text or a pasted image."""
        return bool(self.user_texts.typed) or bool(
            self.parts.images and not self.user_texts.injected
        )

    @cached_property
    def prompt(self) -> str:
        """The typed text; the displayed form if the agent expanded it."""
        if bytes(self._message.display):
            shown = split_parts(document(bytes(self._message.display))).text
            if shown.strip():
                return shown
        return "".join(self.user_texts.typed)

    def result_message(self, result: ResultPart, call_id: str, message_id: str) -> SessionMessage:
        """Return the message for a tool result."""
        return SessionMessage(
            role="tool",
            content=response_text(result.response),
            timestamp=self._message.at,
            id=message_id,
            tool_result=ToolResult(
                tool_call_id=call_id,
                tool_name=result.name,
                output=result.response,
                is_error=has_failed(result.name, None, [result.response]),
            ),
        )
