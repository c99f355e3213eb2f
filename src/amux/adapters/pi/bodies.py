"""Messages with their bodies, built only when somebody wants to read them.

Which lines are messages, and of what kind, is decided in `log`; this module fills them.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._kit.calls import cost_view, usage_view
from amux.adapters._kit.values import (
    first,
    is_items,
    is_mapping,
    items,
    mapping,
    moment,
    plain_text,
    text,
)
from amux.model.message import (
    Role,
    SessionMessage,
    SessionToolCall,
    ToolResult,
)
from amux.model.trace import LineKind
from amux.model.usage import Call

Json = dict[str, Any]

_ROLES: Final[dict[LineKind, Role]] = {
    LineKind.PROMPT: "user",
    LineKind.REPLY: "assistant",
    LineKind.NOTICE: "assistant",
    LineKind.TOOL: "tool",
}
_SYSTEM: Final = frozenset({"system", "developer"})
_SUMMARIES: Final = frozenset({"compaction", "branch_summary"})
_IMAGE_TYPE: Final = re.compile(r"image/[\w.+-]{1,40}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_BLOB: Final = re.compile(r"blob:sha256:([0-9a-f]{64})")
_LARGEST_BLOB: Final = 32 << 20
_EXIT_CODE: Final = re.compile(r"\(?Command exited with code (-?\d+)\)?\s*\Z")
_FILE_TOOLS: Final = frozenset({"read", "write", "edit"})


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message stands, and the call that made it."""

    id: str
    parent_id: str | None
    mark: LineKind
    call: Call | None = None


class Bodies:
    """Builds the messages of one log in order."""

    def __init__(self, *, blobs: Path | None = None, is_linear: bool = False) -> None:
        self._blobs = blobs
        self._is_linear = is_linear  # version 1, which does not say when a tool failed
        self._tool_names: dict[str, str] = {}

    def message(self, line: Json, place: Place) -> SessionMessage:
        """The message of one line."""
        inner = line.get("message")
        body = inner if is_mapping(inner) else line
        blocks = _blocks(body.get("content"))
        calls = self._tool_calls(blocks) if place.mark is LineKind.REPLY else ()
        result = self._tool_result(body, blocks) if place.mark is LineKind.TOOL else None
        return SessionMessage(
            role=_role(line, body, place.mark),
            content=_content(line, body, blocks, place.mark),
            timestamp=moment(line.get("timestamp"))
            or moment(body.get("timestamp"))
            or moment(line.get("createdAt")),
            tool_calls=calls,
            tool_result=result,
            token_usage=usage_view(place.call),
            cost=cost_view(place.call),
            thinking=_thinking(blocks) if place.mark is LineKind.REPLY else None,
            model=text(body.get("model")) if place.mark is LineKind.REPLY else None,
            id=place.id,
            parent_id=place.parent_id,
            synthetic=place.mark in {LineKind.INJECTED, LineKind.NOTICE},
            images=tuple(filter(None, map(self._image, blocks))),
            compaction=line.get("type") == "compaction",
        )

    def _tool_calls(self, blocks: list[Json]) -> tuple[SessionToolCall, ...]:
        calls = [
            SessionToolCall(
                tool_call_id=text(block.get("id")) or "",
                tool_name=text(block.get("name")) or "unknown",
                input=block.get("arguments"),
            )
            for block in blocks
            if block.get("type") == "toolCall"
        ]
        self._tool_names.update((call.tool_call_id, call.tool_name) for call in calls)
        return tuple(calls)

    def _tool_result(self, body: Json, blocks: list[Json]) -> ToolResult:
        call_id = text(body.get("toolCallId")) or ""
        name = text(body.get("toolName")) or self._tool_names.get(call_id) or "unknown"
        plain = all(block.get("type") == "text" for block in blocks)
        return ToolResult(
            tool_call_id=call_id,
            tool_name=name,
            output=_texts(blocks) if plain else body.get("content"),
            is_error=self._has_failed(body, name, _texts(blocks)),
        )

    def _has_failed(self, body: Json, tool: str, output: str) -> bool:
        """Whether a tool failed; a command may have failed though its tool did not."""
        if body.get("isError") is True:
            return True
        details = mapping(body.get("details"))
        code = details.get("exitCode")
        if isinstance(code, int):
            return code != 0
        if text(details.get("status")) in {"error", "failed"}:
            return True
        said = _EXIT_CODE.search(output)
        if said is not None and self._is_linear:
            return int(said[1]) != 0
        return self._is_linear and tool in _FILE_TOOLS and output.startswith("Error: ")

    def _image(self, block: Json) -> str | None:
        """A pasted image as a data URL; large ones lie in files of their own."""
        kind, data = text(block.get("mimeType")), text(block.get("data"))
        if block.get("type") != "image" or kind is None or data is None:
            return None
        if not _IMAGE_TYPE.fullmatch(kind):
            return None
        blob = _BLOB.fullmatch(data)
        if blob is not None:
            data = self._blob(blob[1])
        if data is None or not _BASE64.fullmatch(data):
            return None
        return f"data:{kind};base64,{data}"

    def _blob(self, digest: str) -> str | None:
        if self._blobs is None:
            return None
        try:
            with (self._blobs / digest).open("rb") as file:
                content = file.read(_LARGEST_BLOB + 1)
        except OSError:
            return None
        return None if len(content) > _LARGEST_BLOB else base64.b64encode(content).decode()


def _role(line: Json, body: Json, mark: LineKind) -> Role:
    known = _ROLES.get(mark)
    if known is not None:
        return known
    kind, role = text(line.get("type")), text(body.get("role"))
    return "system" if kind in _SUMMARIES or kind in _SYSTEM or role in _SYSTEM else "user"


def _content(line: Json, body: Json, blocks: list[Json], mark: LineKind) -> str:
    if text(line.get("type")) in _SUMMARIES:
        return text(line.get("summary")) or ""
    if mark is LineKind.NOTICE:
        return text(body.get("errorMessage")) or ""
    if body.get("role") == "bashExecution":
        output = text(body.get("output")) or ""
        return f"!{plain_text(body.get('command'))}\n{output}".rstrip("\n")
    said = _texts(blocks)
    if not said and mark is LineKind.INJECTED:
        sections = mapping(body.get("sections")).values()
        return "\n\n".join(section for section in sections if isinstance(section, str))
    return said.strip("\n") if mark is LineKind.PROMPT else said  # the ends come from the shell


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not is_items(content):
        return []
    return [
        {"type": "text", "text": block} if isinstance(block, str) else mapping(block)
        for block in items(content)
    ]


def _texts(blocks: list[Json]) -> str:
    texts = (first(block, "text") for block in blocks if block.get("type") == "text")
    return "\n".join(found for found in texts if isinstance(found, str))


def _thinking(blocks: list[Json]) -> str | None:
    thoughts = (text(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
    return "\n\n".join(filter(None, thoughts)) or None
