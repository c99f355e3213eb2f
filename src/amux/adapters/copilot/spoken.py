"""Messages of a document, in OpenAI's form: strings or parts, tool calls beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from amux.adapters._kit.calls import cost_view, usage_view
from amux.adapters._kit.stated import stated_by
from amux.adapters._kit.values import (
    document,
    first,
    is_items,
    is_mapping,
    items,
    mapping,
    moment,
    plain_text,
    text,
)
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem, ProblemCode
from amux.model.usage import Call

_REPLIES: Final = frozenset({"assistant", "copilot", "model"})
_PEOPLE: Final = frozenset({"user", "human"})
_INJECTED: Final = re.compile(
    r"\s*<(current_datetime|reminder|system_reminder)>.*?(?:</\1>\s*|\Z)", re.DOTALL
)
_EXIT_CODE: Final = re.compile(r"<exited with exit code (-?\d+)>\s*\Z")


class Spoken:
    """Builds the messages of one document in order, and collects the calls it records."""

    def __init__(self, session_id: str, path: str) -> None:
        self.calls: list[Call] = []
        self.replies = 0
        self.names_models = False
        self._session_id = session_id
        self._path = path
        self._tools: dict[str, str] = {}
        self._seen: set[str] = set()
        self._last: str | None = None
        self._problems: list[Problem] = []

    def take(self, record: object, number: int) -> Iterator[SessionMessage]:
        """The message of a record, if it is one."""
        if not is_mapping(record):
            self._problem("bad-record", f"message {number} of the document is no object")
            return
        name = text(record.get("id")) or f"message-{number}"
        name = f"{name}#{number}" if name in self._seen else name
        self._seen.add(name)
        role = text(first(record, "role", "type")) or ""
        if role in _REPLIES:
            yield self._reply(record, name)
        elif role == "tool":
            yield self._result(record, name, number)
        else:
            yield self._heard(record, name, role)
        self._last = name

    def drain(self) -> Iterator[Problem]:
        """What was wrong since the last time."""
        yield from self._problems
        self._problems.clear()

    def _problem(self, code: ProblemCode, message: str) -> None:
        self._problems.append(Problem(code=code, message=message, path=self._path))

    def _reply(self, record: dict[str, Any], name: str) -> SessionMessage:
        self.replies += 1
        listed = first(record, "tool_calls", "toolCalls")
        calls = tuple(_tool_call(mapping(call)) for call in items(listed))
        self._tools.update((call.tool_call_id, call.tool_name) for call in calls)
        model = text(record.get("model"))
        self.names_models |= model is not None
        call = self._call(record, name, model)
        return SessionMessage(
            role="assistant",
            content=_content(record),
            timestamp=_time(record),
            tool_calls=calls,
            token_usage=usage_view(call),
            cost=cost_view(call),
            thinking=text(first(record, "thinking", "reasoning_text", "reasoning")),
            model=model,
            id=name,
            parent_id=self._last,
        )

    def _call(self, record: dict[str, Any], name: str, model: str | None) -> Call | None:
        stated = stated_by(record)
        if stated is None:
            return None
        call = Call(
            key=f"{self._session_id}:{name}",
            model=model,
            at=_time(record),
            tokens=stated.tokens,
            native_nusd=stated.nusd,
            message_id=name,
            gaps=stated.gaps,
        )
        self.calls.append(call)
        return call

    def _result(self, record: dict[str, Any], name: str, number: int) -> SessionMessage:
        call_id = text(first(record, "tool_call_id", "toolCallId")) or ""
        if call_id not in self._tools:
            self._problem("orphan-result", f"message {number} is the result of no tool call")
        output = _content(record)
        ended = _EXIT_CODE.search(output[-200:])
        result = ToolResult(
            tool_call_id=call_id,
            tool_name=self._tools.get(call_id) or text(record.get("name")) or "unknown",
            output=output,
            is_error=None if ended is None else int(ended[1]) != 0,
        )
        return SessionMessage(
            role="tool",
            content=output,
            timestamp=_time(record),
            tool_result=result,
            id=name,
            parent_id=self._last,
        )

    def _heard(self, record: dict[str, Any], name: str, role: str) -> SessionMessage:
        """A prompt without what was put around it, or context."""
        content = _content(record)
        typed = _INJECTED.sub("", content).strip("\n")
        is_prompt = role in _PEOPLE and bool(typed.strip())
        return SessionMessage(
            role="user" if role in _PEOPLE else "system",
            content=typed if is_prompt else content,
            timestamp=_time(record),
            id=name,
            parent_id=self._last,
            synthetic=not is_prompt,
        )


def _time(record: dict[str, Any]) -> Any:
    return moment(first(record, "timestamp", "createdAt", "created_at"))


def _content(record: dict[str, Any]) -> str:
    content = first(record, "content", "text")
    if not is_items(content):
        return plain_text(content)
    parts = (part.get("text") if is_mapping(part) else part for part in content)
    return "\n".join(part for part in parts if isinstance(part, str))


def _tool_call(call: dict[str, Any]) -> SessionToolCall:
    function = mapping(call.get("function")) or call
    arguments = first(function, "arguments", "input")
    decoded = document(arguments) if isinstance(arguments, str) else None
    return SessionToolCall(
        tool_call_id=text(first(call, "id", "toolCallId")) or "",
        tool_name=text(first(function, "name", "toolName")) or "unknown",
        input=arguments if decoded is None else decoded,
    )
