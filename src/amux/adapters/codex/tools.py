"""Tool traffic: names for outputs, exit codes from wherever they stand, sub-agents started."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters.codex.records import ResponseItem, TurnItem, body, is_object
from amux.adapters.codex.texts import flat_text, has_failed
from amux.model.message import SessionMessage, ToolResult

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
_HEAD: Final = 400


@dataclass(slots=True, kw_only=True)
class Tools:
    """The open calls of one file; an entry is dropped when its output comes."""

    children: dict[str, None] = field(default_factory=dict[str, None])
    open: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[str, bool] = field(default_factory=dict[str, bool])

    def called(self, item: ResponseItem) -> str:
        """Note a call; its tool's name."""
        name = called_tool(item)
        call_id = item.call_id or item.id
        if call_id and item.type in _ANSWERED:
            self.open[call_id] = name
        return name

    def reported(self, item: TurnItem) -> None:
        """Note what an event says about a tool's run."""
        if item.receiver_thread_ids or item.agent_thread_id:
            for child in (*item.receiver_thread_ids, item.agent_thread_id):
                if child:
                    self.children[child] = None
        if item.id not in self.open:
            return
        if item.exit_code is not None:
            self.failed[item.id] = item.exit_code != 0
        elif item.status in _FAILED:
            self.failed[item.id] = True

    def returned(self, item: ResponseItem) -> tuple[str | None, bool | None]:
        """Close a call: its tool's name (None: there was no such call) and whether it failed."""
        name = self.open.pop(item.call_id or "", None)
        if name == _SPAWN:
            self._note_child(body(item.output))
        return name or item.name, self.failed.pop(item.call_id or "", None)

    def _note_child(self, output: Any) -> None:
        record = _parsed(output) if isinstance(output, str) else output
        child = record.get("agent_id") if is_object(record) else None
        if isinstance(child, str) and child:
            self.children[child] = None


def called_tool(item: ResponseItem) -> str:
    """The name of the tool that a call is for."""
    return item.name or _NAMES.get(item.type, item.type)


def was_aborted(output: msgspec.Raw) -> bool:
    """Whether the person stopped a tool, so that the model was not asked again."""
    head = memoryview(output)[:_HEAD].tobytes()
    return b"aborted by user" in head or head == b'"aborted"'


def tool_message(
    at: datetime | None, item: ResponseItem, *, name: str | None, failed: bool | None
) -> SessionMessage:
    """A tool's output as a message."""
    output = body(item.tools if item.type == "tool_search_output" else item.output)
    result = ToolResult(
        tool_call_id=item.call_id or item.id or "",
        tool_name=name or "",
        output=output,
        is_error=has_failed(output) if failed is None else failed,
    )
    return SessionMessage(
        role="tool",
        content=_readable(output),
        timestamp=at,
        tool_result=result,
        id=item.id,
    )


def _readable(output: Any) -> str:
    """The text a person would read: without the envelope that older versions put around it."""
    text = flat_text(output)
    if text.startswith('{"output":'):
        record = _parsed(text)
        inner = record.get("output") if is_object(record) else None
        return inner if isinstance(inner, str) else text
    return text


def _parsed(text: str) -> Any:
    return body(msgspec.Raw(text.encode("utf-8", "replace")))
