"""Parses the texts of Hermes: JSON contents, compaction summaries, injected notes.

A row is one message, or several if a compaction summary or an injected text precedes the message in
the same text. `split_text` examines only the role and the beginning of a text unless it begins with
one of `WHOLE_READ`, so that the result is the same for a whole text and for its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import (
    document,
    is_items,
    is_mapping,
    items,
    mapping,
    moment,
    text,
)
from amux.adapters.hermes.injected import SUMMARIES
from amux.adapters.hermes.prompts import BLANKS, OPENING_WITHIN, split_prompt
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.trace import LineKind

JSON_CONTENT: Final = "\0json:"

_SUMMARIES: Final = InjectedTexts(SUMMARIES)
_SUMMARY_END: Final = re.compile(r"^--- END OF CONTEXT SUMMARY[^\n]*---[ \t]*$", re.MULTILINE)
_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}


@dataclass(slots=True, frozen=True)
class Piece:
    """One message of a row. `suffix` is appended to the row's id."""

    text: str
    synthetic: bool = False
    compaction: bool = False
    suffix: str = ""


def role_of(value: object) -> Role | None:
    """Return the role of a row; None for bookkeeping such as `session_meta`."""
    return _ROLES.get(value) if isinstance(value, str) else None


def split_text(role: Role, content: str, *, observed: bool = False) -> Iterator[Piece]:
    """Yield the messages in a row's text.

    `observed` texts were written in a group chat, but not to the agent, which got them as context.
    """
    if role not in ("user", "assistant"):
        yield Piece(content)
        return
    if is_summary(content):
        summary, content = split_summary(content)
        suffix = ":summary" if content else ""
        yield Piece(summary, synthetic=True, compaction=True, suffix=suffix)
        if not content:
            return
    if role == "assistant" or observed:
        yield Piece(content, synthetic=role == "user")
        return
    injected, typed = split_prompt(content)
    if injected:
        yield Piece(injected, synthetic=True, suffix=":injected" if typed else "")
    if typed or not injected:
        yield Piece(typed)


def is_summary(content: str) -> bool:
    """Return whether a text is a compaction summary or begins with one."""
    head = content[:OPENING_WITHIN].lstrip(BLANKS)
    return head.startswith("[") and _SUMMARIES.begins(head)


def split_summary(content: str) -> tuple[str, str]:
    """Return a summary and the message that follows it in the text ("" if there is none)."""
    end = _SUMMARY_END.search(content)
    if end is None:
        return content, ""
    rest = content[end.end() :].strip()
    return (content[: end.end()], rest) if rest else (content, "")


def kind_of_piece(role: Role, piece: Piece) -> LineKind:
    """Return the kind of a message in the trace."""
    match role:
        case "user":
            return LineKind.INJECTED if piece.synthetic else LineKind.PROMPT
        case "assistant":
            return LineKind.NOTICE if piece.synthetic else LineKind.REPLY
        case "tool":
            return LineKind.TOOL
        case "system":
            return LineKind.SYSTEM


def decoded(content: object) -> Any:
    """Decode a stored content: a text, or JSON parts after a marker."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    if isinstance(content, str) and content.startswith(JSON_CONTENT):
        found = document(content[len(JSON_CONTENT) :])
        return content[len(JSON_CONTENT) :] if found is None else found
    return content


def flat_text(content: Any) -> str:
    """Return the readable text of a content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if is_items(content):
        return "\n".join(part for part in map(_part_text, content) if part)
    if is_mapping(content):
        return _part_text(content)
    return "" if content is None else str(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    return text(mapping(part).get("text")) or ""


def images_of(content: Any) -> tuple[str, ...]:
    """Return the `data:` URLs of pasted images."""
    urls = (mapping(mapping(part).get("image_url")).get("url") for part in items(content))
    return tuple(url for url in urls if isinstance(url, str) and url.startswith("data:"))


def tool_entries(value: object) -> list[dict[str, Any]] | None:
    """Return the tool calls of a message in OpenAI's format; None if they are unreadable."""
    if isinstance(value, str | bytes):
        if not value:
            return []
        value = document(value)
        if value is None:
            return None
    if value is None:
        return []
    return [entry for entry in value if is_mapping(entry)] if is_items(value) else None


def call_id(entry: dict[str, Any]) -> str:
    """Return the id that the result of a call refers to."""
    return text(entry.get("id")) or text(entry.get("call_id")) or ""


def tool_calls(entries: list[dict[str, Any]]) -> tuple[SessionToolCall, ...]:
    """Return tool calls with decoded arguments."""
    return tuple(
        SessionToolCall(
            tool_call_id=call_id(entry), tool_name=call_name(entry), input=_arguments(entry)
        )
        for entry in entries
    )


def call_name(entry: dict[str, Any]) -> str:
    """Return the name of the called tool."""
    return text(mapping(entry.get("function")).get("name")) or text(entry.get("name")) or ""


def _arguments(entry: dict[str, Any]) -> Any:
    function = mapping(entry.get("function"))
    given = function.get("arguments", entry.get("arguments"))
    if not isinstance(given, str):
        return given
    found = document(given)
    return given if found is None else found


def thinking_of(record: dict[str, Any]) -> str | None:
    """Return the reasoning of an answer, which is stored in one or more fields; else None."""
    found = text(record.get("reasoning")) or text(record.get("reasoning_content"))
    if found:
        return found
    details = record.get("reasoning_details")
    parts = items(document(details) if isinstance(details, str | bytes) else details)
    texts = (text(mapping(p).get("text")) or text(mapping(p).get("summary")) for p in parts)
    return "\n".join(part for part in texts if part) or None


def tool_result(record: dict[str, Any], content: Any, *, name: str) -> ToolResult:
    """Return a tool's result. Hermes records no flag: built-in tools report errors in JSON."""
    output = document(content) if isinstance(content, str) and content[:1] in "{[" else None
    found = mapping(output)
    code = found.get("exit_code")
    has_error = bool(found.get("error")) or found.get("success") is False
    return ToolResult(
        tool_call_id=text(record.get("tool_call_id")) or "",
        tool_name=text(record.get("tool_name")) or text(record.get("name")) or name,
        output=content if output is None else output,
        is_error=has_error or (isinstance(code, int) and code != 0),
    )


def messages_of(
    record: dict[str, Any], *, id: str, names: dict[str, str], only_summary: bool = False
) -> Iterator[SessionMessage]:
    """Yield the messages of one record: a database row or a message in OpenAI's format.

    `names` collects the tool of each call by id, since results do not always name it.
    """
    role = role_of(record.get("role"))
    if role is None:
        return
    content = decoded(record.get("content"))
    entries = tool_entries(record.get("tool_calls")) or []
    names.update((call_id(entry), call_name(entry)) for entry in entries)
    for piece in split_text(role, flat_text(content), observed=bool(record.get("observed"))):
        if only_summary and not piece.compaction:
            continue
        result = None
        if role == "tool":
            name = names.get(text(record.get("tool_call_id")) or "", "")
            result = tool_result(record, content, name=name)
        yield SessionMessage(
            role=role,
            content=piece.text,
            timestamp=moment(record.get("timestamp")),
            id=id + piece.suffix,
            synthetic=piece.synthetic,
            compaction=piece.compaction,
            tool_calls=() if piece.suffix else tool_calls(entries),
            tool_result=result,
            thinking=None if piece.compaction or role != "assistant" else thinking_of(record),
            images=() if piece.suffix else images_of(content),
        )
