"""What a message says: its texts, thoughts, tool calls and results, from the undecoded record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from amux.adapters._kit.calls import cost_view, usage_view
from amux.adapters._kit.values import decode, document, items, mapping, moment, text
from amux.adapters.gemini.parts import (
    ResultPart,
    has_failed,
    part_list,
    response_text,
    split_parts,
)
from amux.adapters.gemini.prompts import Speech, tell_apart
from amux.adapters.gemini.records import TOOLS, Said, ToolRecord
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.usage import Call


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
