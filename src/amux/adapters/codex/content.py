"""The content of items: authors of texts, tool calls, tool outputs and their failures.

Injected context has the role `user` and may share a message with other context and with what the
person typed; each part is classified separately.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters.codex.injected import IDE_CONTEXT, IDE_REQUEST, INJECTED_TEXTS
from amux.adapters.codex.records import (
    NOTHING,
    PARTS,
    Part,
    ResponseItem,
    TurnItem,
    body,
    decode,
    is_list,
    is_object,
    size,
)
from amux.model.message import SessionMessage, ToolResult

_INJECTED: Final = InjectedTexts(INJECTED_TEXTS)
_IMAGE_TAG: Final = re.compile(r"\s*(<(image|audio)( name=[^\n]*)?>|</(image|audio)>)\s*")
_CWD: Final = re.compile(r"<cwd>([^<\n]+)</cwd>|Current working directory: ([^\n]+)")
_COMMAND: Final = re.compile(r"<command>\s*(.+?)\s*</command>", re.DOTALL)
_EXIT_CODE: Final = re.compile(r"(?:Process exited with code|Exit code:) (-?\d+)")
_FAILURES: Final = (
    "Script failed",
    "apply_patch verification failed",
    "exec_command failed",
    "execution error",
    "failed to parse",
    "tool call error",
    "unsupported c",  # "unsupported call", "unsupported custom tool call"
)
_HEAD: Final = 400  # the exit code of a command precedes its output
_NAMES: Final = {
    "local_shell_call": "local_shell",
    "web_search_call": "web_search",
    "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}
_ANSWERED: Final = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}
)
_FAILED: Final = frozenset({"failed", "declined"})
_SPAWN: Final = "spawn_agent"


class UserContent(msgspec.Struct, frozen=True):
    """The content of one message by author."""

    typed: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()
    images: tuple[msgspec.Raw, ...] = ()
    certain: bool = False  # the record itself says that a person typed `typed`


def split_user(item: ResponseItem) -> UserContent:
    """Split the content of a message with role `user` by author."""
    typed: list[str] = []
    injected: list[str] = []
    images: list[msgspec.Raw] = []
    certain = False
    kinds = item.kinds
    parts = decode(item.content, PARTS) if size(item.content) else None
    if isinstance(parts, str):
        parts = [Part(type="text", text=parts)]
    for position, part in enumerate(parts or ()):
        if part.image_url is not NOTHING:
            images.append(part.image_url)
        text = part.text or ""
        if not text or _IMAGE_TAG.fullmatch(text):
            continue
        kind = (kinds[position] if position < len(kinds) else None) or "unknown"
        request = request_in(text)
        if request:
            injected.append(text[: text.rindex(IDE_REQUEST)].rstrip())
            text = request
        if is_injected(text) or not kind.startswith(("user.", "unknown")):
            injected.append(text)
        else:
            typed.append(text)
            certain = certain or kind != "unknown"
    return UserContent(tuple(typed), tuple(injected), tuple(images), certain)


def is_injected(text: str) -> bool:
    """Return whether a text begins like context that Codex adds itself."""
    return _INJECTED.begins(text)


def request_in(text: str) -> str:
    """Return what the person typed below the context that an editor adds; "" for other texts."""
    if not text.lstrip().startswith(IDE_CONTEXT):
        return ""
    return text.rpartition(IDE_REQUEST)[2].strip() if IDE_REQUEST in text else ""


def shell_command_in(text: str) -> str | None:
    """Return the command that the person ran without the model; None for other texts."""
    if not text.lstrip().startswith("<user_shell_command>"):
        return None
    found = _COMMAND.search(text)
    return None if found is None else f"!{found[1]}"


def cwd_in(text: str) -> str | None:
    """Return the working directory in an environment block; None if there is none."""
    if not text.lstrip().startswith("<environment_context>"):
        return None
    found = _CWD.search(text)
    return None if found is None else (found[1] or found[2]).strip()


def joined_text(content: msgspec.Raw) -> str:
    """Return all text of a content list without encrypted and other parts."""
    return flat_text(body(content))


def flat_text(value: Any) -> str:
    """Return the text of an output, which is a string or a list of parts."""
    if isinstance(value, str):
        return value
    return "\n".join(map(_part_text, value)).strip("\n") if is_list(value) else ""


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if is_object(part) else None
    return text if isinstance(text, str) else ""


def reasoning_text(item: ResponseItem) -> str:
    """Return the readable part of a reasoning item: its summary, else its text."""
    return joined_text(item.summary) or joined_text(item.content)


def call_input(item: ResponseItem) -> Any:
    """Return the input of a tool call; arguments that hold JSON are decoded."""
    for raw in (item.arguments, item.input, item.action, item.revised_prompt):
        value = body(raw)
        if isinstance(value, str) and raw is item.arguments:
            return _parsed(value) if value else {}
        if value is not None:
            return value
    return {}


def has_failed(output: Any) -> bool:
    """Return whether an output reports a failure by exit code, flag or its beginning."""
    if is_object(output):
        return _failed_record(output)
    if is_list(output):
        return any(has_failed(_part_text(part)) for part in output)
    if not isinstance(output, str):
        return False
    text = output.strip()
    if text.startswith("{") and text.endswith("}"):
        record = _parsed(text)
        return is_object(record) and _failed_record(record)
    head = text[:_HEAD]
    code = _EXIT_CODE.search(head)
    if code is not None:
        return int(code[1]) != 0
    return text == "aborted" or "aborted by user" in head or head.startswith(_FAILURES)


def _failed_record(record: dict[str, Any]) -> bool:
    for holder in (record.get("metadata"), record):
        code = holder.get("exit_code") if is_object(holder) else None
        if isinstance(code, int):
            return code != 0
    return record.get("success") is False


@dataclass(slots=True, kw_only=True)
class Tools:
    """The open tool calls of one file, and the sub-agents they started."""

    children: dict[str, None] = field(default_factory=dict[str, None])
    open: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[str, bool] = field(default_factory=dict[str, bool])

    def called(self, item: ResponseItem) -> str:
        """Record a call; return the name of its tool."""
        name = called_tool(item)
        call_id = item.call_id or item.id
        if call_id and item.type in _ANSWERED:
            self.open[call_id] = name
        return name

    def reported(self, item: TurnItem) -> None:
        """Record what an event says about a tool run."""
        for child in (*item.receiver_thread_ids, item.agent_thread_id):
            if child:
                self.children[child] = None
        if item.id not in self.open:
            return
        if item.exit_code is not None:
            self.failed[item.id] = item.exit_code != 0
        elif item.status in _FAILED:
            self.failed[item.id] = True

    def ended(self, call_id: str | None, exit_code: int | None) -> None:
        """Record the exit code of a command."""
        if call_id in self.open and exit_code is not None:
            self.failed[call_id] = exit_code != 0

    def returned(self, item: ResponseItem) -> tuple[str | None, bool | None]:
        """Close a call; return the name of its tool (None if unknown) and whether it failed."""
        name = self.open.pop(item.call_id or "", None)
        if name == _SPAWN:
            output = body(item.output)
            record = _parsed(output) if isinstance(output, str) else output
            child = record.get("agent_id") if is_object(record) else None
            if isinstance(child, str) and child:
                self.children[child] = None
        return name or item.name, self.failed.pop(item.call_id or "", None)


def called_tool(item: ResponseItem) -> str:
    """Return the name of the tool that is called."""
    return item.name or _NAMES.get(item.type, item.type)


def was_aborted(output: msgspec.Raw) -> bool:
    """Return whether the person stopped a tool, so that no further request was sent."""
    head = memoryview(output)[:_HEAD].tobytes()
    return b"aborted by user" in head or head == b'"aborted"'


def tool_message(
    at: datetime | None, item: ResponseItem, *, name: str | None, failed: bool | None
) -> SessionMessage:
    """Return the output of a tool as a message."""
    output = body(item.tools if item.type == "tool_search_output" else item.output)
    result = ToolResult(
        tool_call_id=item.call_id or item.id or "",
        tool_name=name or "",
        output=output,
        is_error=has_failed(output) if failed is None else failed,
    )
    text = flat_text(output)
    if text.startswith('{"output":'):  # the envelope that older versions add
        record = _parsed(text)
        inner = record.get("output") if is_object(record) else None
        text = inner if isinstance(inner, str) else text
    return SessionMessage(
        role="tool",
        content=text,
        timestamp=at,
        tool_result=result,
        id=item.id,
    )


def _parsed(text: str) -> Any:
    return body(msgspec.Raw(text.encode("utf-8", "replace")))
