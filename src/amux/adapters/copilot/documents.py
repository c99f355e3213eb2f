"""Reads JSON documents: sessions of the first releases, and sessions as specified.

    {sessionId, startTime, chatMessages, timeline}      0.0.340 and before
    {id, title, messages} or a list of messages         as specified

Both have messages in OpenAI's format: content as a string or parts, tool calls in a separate field.
A document is rewritten at each step, so an empty file is a session that never began, and a file
that is not JSON is only partly written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.fold import Fold, add_messages
from amux.adapters._kit.jsonl import clean_line, unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.usage import cost_view, usage_in_message, usage_view
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
from amux.adapters.copilot.prompts import typed_text
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem, ProblemCode
from amux.model.usage import Call

_LARGEST: Final = 256 << 20
_OLD_NAME: Final = re.compile(r"session_(?P<id>.+)_\d{9,16}")

_REPLIES: Final = frozenset({"assistant", "copilot", "model"})
_USER_ROLES: Final = frozenset({"user", "human"})
_EXIT_CODE: Final = re.compile(r"<exited with exit code (-?\d+)>\s*\Z")


def session_id_in(stem: str) -> str:
    """Return the session id in the name of a document."""
    found = _OLD_NAME.fullmatch(stem)
    return stem if found is None else found["id"]


def read_document(source: SourceRef, *, want: Want) -> Iterator[Item]:
    """Yield the session of a document."""
    found = _load(source.path)
    if isinstance(found, Problem):
        yield found
    elif found is not None:
        yield from _Document(source, found).items(want)


def _load(path: Path) -> Any:
    """Return the document, None for an empty file, or the problem that prevents reading it."""
    try:
        with open_stream(path) as stream:
            data = b"".join(iter(lambda: stream.read(1 << 20), b""))[: _LARGEST + 1]
    except OSError as error:
        return unreadable(path, error)
    if not clean_line(data):
        return None
    found = document(data.removeprefix(b"\xef\xbb\xbf")) if len(data) <= _LARGEST else None
    if not is_mapping(found) and not is_items(found):
        message = "the document is not a session that amux can read"
        return Problem(code="unknown-format", message=message, path=str(path))
    return found


class _Document:
    """One decoded document."""

    def __init__(self, source: SourceRef, root: Any) -> None:
        self._source = source
        self._fields = mapping(root)
        listed = root if is_items(root) else first(self._fields, "chatMessages", "messages")
        self._messages = items(listed)
        self._timeline = [mapping(entry) for entry in items(self._fields.get("timeline"))]
        has_messages = is_items(listed) and (not listed or any(map(is_mapping, listed)))
        self._is_session = has_messages or bool(self._timeline)

    def items(self, want: Want) -> Iterator[Item]:
        """Yield head, messages, problems, calls and facts."""
        if not self._is_session:
            what = "the document has no list of messages"
            yield Problem(code="unknown-format", message=what, path=str(self._source.path))
            return
        session_id = self._source.session_id or session_id_in(self._source.path.stem)
        fold = Fold()
        yield Head(session_id=session_id)
        messages = DocumentMessages(session_id, str(self._source.path))
        for number, record in enumerate(self._records(), start=1):
            yield from add_messages(fold, messages.take(record, number), bodies=has_bodies(want))
            for problem in messages.drain():
                fold.problem(problem)
                yield problem
        for call in messages.calls:
            fold.call(call)
            yield call
        fields = self._fields
        fold.moment(moment(first(fields, "startTime", "createdAt", "created_at")))
        fold.moment(moment(first(fields, "updatedAt", "updated_at", "lastUpdated")))
        for entry in self._timeline:
            fold.moment(moment(entry.get("timestamp")))
        written = text(first(fields, "sessionId", "id"))
        model = text(first(fields, "selectedModel", "model"))
        yield fold.facts(
            session_id,
            aliases=() if written in {None, session_id} else (written,),
            cwd=text(first(fields, "cwd", "workingDirectory")),
            name=text(first(fields, "title", "name")),
            models=(model,) if model and not (messages.calls or messages.names_models) else None,
            gaps=(USAGE_NOT_RECORDED,) if messages.replies > len(messages.calls) else (),
        )

    def _records(self) -> list[Any]:
        """Return the messages, or the terminal's timeline if there are none."""
        return self._messages or [
            {"role": "assistant" if entry.get("type") == "copilot" else "user", **entry}
            for entry in self._timeline
            if text(entry.get("type")) in {"user", "copilot"}
        ]


class DocumentMessages:
    """Builds the messages of one document in order, and collects its calls."""

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
        """Yield the message of a record, if it is one."""
        if not is_mapping(record):
            self._problem("bad-record", f"message {number} of the document is not an object")
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
            yield self._user_message(record, name, role)
        self._last = name

    def drain(self) -> Iterator[Problem]:
        """Yield and forget the problems found since the last call."""
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
        recorded = usage_in_message(record)
        if recorded is None:
            return None
        call = Call(
            key=f"{self._session_id}:{name}",
            model=model,
            at=_time(record),
            tokens=recorded.tokens,
            native_nusd=recorded.nusd,
            message_id=name,
            gaps=recorded.gaps,
        )
        self.calls.append(call)
        return call

    def _result(self, record: dict[str, Any], name: str, number: int) -> SessionMessage:
        call_id = text(first(record, "tool_call_id", "toolCallId")) or ""
        if call_id not in self._tools:
            self._problem("orphan-result", f"message {number} is a tool result without a call")
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

    def _user_message(self, record: dict[str, Any], name: str, role: str) -> SessionMessage:
        """Return a prompt without injected context, or the context alone."""
        content = _content(record)
        typed = typed_text(content).strip("\n")
        is_prompt = role in _USER_ROLES and bool(typed.strip())
        return SessionMessage(
            role="user" if role in _USER_ROLES else "system",
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
