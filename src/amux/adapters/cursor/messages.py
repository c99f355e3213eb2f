"""Parses what Cursor's formats have in common: prompts in tags, typed parts, exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.values import items, mapping, plain_text, text
from amux.adapters.cursor.injected import INJECTED_TEXTS, TAGS
from amux.model.message import SessionMessage, SessionToolCall, ToolResult

REDACTED: Final = "[REDACTED]"
_DEFAULT_MODEL: Final = "default"
_QUERY_TAG: Final = "<user_query>"
_QUERY: Final = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_BLOCK: Final = re.compile(rf"\s*<({'|'.join(TAGS)})(?:\s[^>]*)?>.*?</\1>", re.DOTALL)
_TAG: Final = re.compile(r"<[a-z][\w-]*[\s>/]")
_INJECTED: Final = InjectedTexts(INJECTED_TEXTS)
_WORKSPACE: Final = re.compile(r"^\s*Workspace Path: *(.+?) *$", re.MULTILINE)
_EXIT_CODE: Final = re.compile(r"\s*Exit code: (-?\d+)")
_TEXT_TYPES: Final = ("text", "input_text", "output_text")


def prompt_messages(
    content: str, *, id: str | None = None, at: datetime | None = None
) -> Iterator[SessionMessage]:
    """Yield the typed query, and the injected context as a separate message."""
    typed, injected = _split(content)
    if typed:
        yield SessionMessage(role="user", content=typed, id=id, timestamp=at)
    if injected or not typed:
        yield SessionMessage(
            role="user",
            content=injected,
            id=None if typed else id,
            parent_id=id if typed else None,
            timestamp=at,
            synthetic=True,
        )


def _split(content: str) -> tuple[str, str]:
    """Return the typed and the injected part of a text; without known tags, all of it was typed."""
    if found := _QUERY.findall(content):
        queries = [query for query in found if not _INJECTED.begins(query)]
        rest = _QUERY.sub("", content) if queries else content
        return "\n".join(queries), rest.strip()
    end = 0
    while block := _BLOCK.match(content, end):
        end = block.end()
    context, rest = content[:end].strip(), content[end:].strip()
    if rest.startswith(_QUERY_TAG):  # its end is missing
        return rest.removeprefix(_QUERY_TAG).strip(), context
    if _INJECTED.begins(rest) or (context and _TAG.match(rest)):  # a block, or one not known yet
        return "", content.strip()
    return rest, context


def workspace_in(content: str) -> str | None:
    """Return the working directory named in injected context; None if there is none."""
    found = _WORKSPACE.search(content)
    return found[1] if found else None


def model_name(value: Any) -> str | None:
    """Return the recorded name of a model; None for "default", which names no model."""
    name = text(value)
    return None if name == _DEFAULT_MODEL else name


class Parts:
    """The parts of a message's content by type. The caller counts the unknown types."""

    def __init__(self, content: Any, *, prefix: str) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[SessionToolCall] = []
        self.results: list[ToolResult] = []
        self.unknown: list[tuple[str, Any]] = []  # (type, part)
        if isinstance(content, str):
            self.texts.append(content)
        for number, part in enumerate(items(content)):
            self._add(mapping(part), f"{prefix}:{number}")

    @property
    def text(self) -> str:
        """The joined texts, without those that Cursor redacted."""
        return "\n".join(said for said in self.texts if said.strip() and said != REDACTED)

    @property
    def thinking(self) -> str | None:
        """The joined reasoning; None if there is none."""
        return "\n".join(self.thoughts) or None

    def answer(self) -> SessionMessage:
        """Return the message of a model with these parts."""
        return SessionMessage(
            role="assistant",
            content=self.text,
            thinking=self.thinking,
            tool_calls=tuple(self.calls),
            synthetic=not (self.text or self.thinking or self.calls),
        )

    def _add(self, part: dict[str, Any], fallback_id: str) -> None:
        kind = part.get("type")
        if kind in _TEXT_TYPES:
            self.texts.append(plain_text(part.get("text")))
        elif kind in ("reasoning", "thinking"):
            self.thoughts += filter(None, [text(part.get("text")) or text(part.get("thinking"))])
        elif kind in ("tool-call", "tool_use"):
            call_id = text(part.get("toolCallId")) or text(part.get("id")) or fallback_id
            self.calls.append(
                SessionToolCall(
                    tool_call_id=call_id,
                    tool_name=text(part.get("toolName")) or text(part.get("name")) or "",
                    input=part.get("args", part.get("input")),
                )
            )
        elif kind in ("tool-result", "tool_result"):
            self.results.append(_result(part, fallback_id))
        elif kind not in ("image", "file", "redacted-reasoning"):
            self.unknown.append((plain_text(kind), part))


def _result(part: dict[str, Any], fallback_id: str) -> ToolResult:
    output = part.get("result", part.get("content"))
    failed = part.get("isError", part.get("is_error"))
    if not isinstance(failed, bool):
        found = _EXIT_CODE.match(output) if isinstance(output, str) else None
        failed = None if found is None else found[1] != "0"
    return ToolResult(
        tool_call_id=text(part.get("toolCallId")) or text(part.get("tool_use_id")) or fallback_id,
        tool_name=text(part.get("toolName")) or "",
        output=output,
        is_error=failed,
    )


def tool_message(
    result: ToolResult, *, parent: str | None = None, at: datetime | None = None
) -> SessionMessage:
    """Return a tool result as a message."""
    return SessionMessage(
        role="tool",
        content=plain_text(result.output),
        tool_result=result,
        parent_id=parent,
        timestamp=at,
    )
