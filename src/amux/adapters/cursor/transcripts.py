"""Reads `projects/<folder>/agent-transcripts/`, the export that Cursor writes of a conversation.

A transcript is JSON lines, or (older) plain text with `user:` and `A:` above each turn. It has no
results, ids, times or models, so the chat itself takes precedence if it still exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.jsonl import no_session, read_records, unreadable
from amux.adapters._kit.values import mapping, plain_text
from amux.adapters.cursor.messages import Parts, prompt_messages, tool_message
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem


class _Line(msgspec.Struct, gc=False):
    """One line of a transcript."""

    role: Any = None
    message: Any = None
    type: Any = None


_LINE: Final = msgspec.json.Decoder(_Line)
_THINKING, _CALL, _RESULT = "[Thinking]", "[Tool call]", "[Tool result]"
_TURN_ENDED: Final = "turn_ended"
_HEADINGS: Final = {"user:": "user", "A:": "assistant"}


def read_transcript(source: SourceRef, *, bodies: bool) -> Iterator[Item]:
    """Yield the items of a transcript of either format."""
    session_id = source.session_id or source.path.stem
    fold = Fold()
    unknown = Unknowns()
    is_text = source.path.suffix == ".txt"
    has_begun = False
    for item in _read_text(source) if is_text else _read_lines(source, unknown):
        if isinstance(item, Problem):
            fold.problem(item)
            yield item
            continue
        if not has_begun:
            has_begun = True
            yield Head(session_id=session_id)
        if item is not None:
            fold.message(item)
            if bodies:
                yield item
    if not has_begun:
        yield from () if is_text else no_session(source.path, fold.problems)
        return
    yield fold.facts(
        session_id,
        kind="subagent" if source.role == "subagent" else "session",
        parent=source.parent,
        gaps=(USAGE_NOT_RECORDED,),
        raw=unknown.raw(),
    )


def _read_lines(source: SourceRef, unknown: Unknowns) -> Iterator[SessionMessage | Problem | None]:
    """Yield the messages of all lines; None for a line without a message."""
    for found in read_records(source.path, _LINE):
        if isinstance(found, Problem):
            yield found
            continue
        number, line, raw = found
        parts = Parts(mapping(line.message).get("content"), prefix=str(number))
        for kind, part in parts.unknown:
            unknown.take(kind, part)
        if line.role == "user":
            yield from prompt_messages(parts.text)
        elif line.role == "assistant":
            yield parts.answer()
        else:
            if line.type != _TURN_ENDED:
                unknown.take(plain_text(line.type if line.role is None else line.role), raw)
            yield None


def _read_text(source: SourceRef) -> Iterator[SessionMessage | Problem]:
    try:
        content = source.path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        yield unreadable(source.path, error)
        return
    messages = list(text_messages(content))
    yield from messages
    if not messages and content.strip():
        message = "the text contains no turns"
        yield Problem(code="unknown-format", message=message, path=str(source.path))


def text_messages(content: str) -> Iterator[SessionMessage]:
    """Yield the messages of a plain text transcript."""
    for number, (role, lines) in enumerate(_blocks(content)):
        if role == "user":
            yield from prompt_messages("\n".join(lines))
        else:
            yield from _Answer(lines, prefix=str(number)).messages()


def _blocks(content: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the role and the lines of each turn; a heading inside a query is ordinary text."""
    role: str | None = None
    lines: list[str] = []
    in_query = False
    for line in content.splitlines():
        heading = None if in_query else _HEADINGS.get(line.rstrip())
        if heading is not None:
            if role is not None:
                yield role, lines
            role, lines = heading, []
            continue
        lines.append(line)
        if role == "user" and "<user_query>" in line:
            in_query = True
        if "</user_query>" in line:
            in_query = False
    if role is not None:
        yield role, lines


class _Answer:
    """Parses the lines of one answer."""

    def __init__(self, lines: list[str], *, prefix: str) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[SessionToolCall] = []
        self._results: list[ToolResult] = []
        at = 0
        while at < len(lines):
            at = self._parse_line(lines, at, prefix)

    def _parse_line(self, lines: list[str], at: int, prefix: str) -> int:
        line = lines[at]
        if line.startswith(_THINKING):
            self._thoughts.append(line.removeprefix(_THINKING).strip())
        elif line.startswith(_CALL):
            details = _indented(lines, at + 1)
            self._calls.append(
                SessionToolCall(
                    tool_call_id=f"{prefix}:{len(self._calls)}",
                    tool_name=line.removeprefix(_CALL).strip(),
                    input=_arguments(details),
                )
            )
            return at + 1 + len(details)
        elif line.startswith(_RESULT):
            details = _indented(lines, at + 1)
            self._add_result(line.removeprefix(_RESULT).strip(), details)
            return at + 1 + len(details)
        else:
            self._texts.append(line)
        return at + 1

    def _add_result(self, name: str, details: list[str]) -> None:
        """Add a result to the first call of that name without one; ignore an empty result."""
        done = {result.tool_call_id for result in self._results}
        for call in self._calls:
            if details and call.tool_name == name and call.tool_call_id not in done:
                output = "\n".join(line.strip() for line in details)
                self._results.append(
                    ToolResult(tool_call_id=call.tool_call_id, tool_name=name, output=output)
                )
                return

    def messages(self) -> Iterator[SessionMessage]:
        said = "\n".join(self._texts).strip()
        thought = "\n".join(self._thoughts)
        yield SessionMessage(
            role="assistant",
            content=said,
            thinking=thought or None,
            tool_calls=tuple(self._calls),
            synthetic=not (said or thought or self._calls),
        )
        for result in self._results:
            yield tool_message(result)


def _indented(lines: list[str], start: int) -> list[str]:
    """Return the consecutive indented lines from `start` on."""
    end = start
    while end < len(lines) and lines[end][:1] in (" ", "\t"):
        end += 1
    return lines[start:end]


def _arguments(lines: list[str]) -> dict[str, str]:
    """Parse lines of `name: value`; a line without a name continues the previous value."""
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        name, colon, value = line.strip().partition(":")
        if colon and name.isidentifier():
            last = name
            found[last] = value.strip()
        elif last:
            found[last] += "\n" + line.strip()
    return found
