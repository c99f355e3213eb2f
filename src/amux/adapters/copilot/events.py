"""Decodes the events of a log and builds their messages.

Field types are wide on purpose: a field of an unexpected type is treated as absent, and neither
the line nor the session is lost. Some versions lose lines and write others twice, so the chain of
parents is not used: events are taken in the order of lines, each id once.

A prompt is `content`, the typed text; the field with the text that the model received, including
injected context, is ignored. The agent records a failed shell command as a success, so the exit
code decides.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from amux.adapters._kit.jsonl import Buffer
from amux.adapters._kit.values import Odd, Wide, image_url, items, mapping, moment, plain_text, text
from amux.adapters.copilot.prompts import typed_text
from amux.model.message import SessionMessage, SessionToolCall, ToolResult

MESSAGE_EVENTS: Final = frozenset({"user.message", "assistant.message", "tool.execution_complete"})
"""Events that make a log a conversation."""

KNOWN_TYPES: Final = MESSAGE_EVENTS | frozenset(
    {
        "abort",
        "assistant.intent",
        "assistant.reasoning",
        "assistant.turn_end",
        "assistant.turn_start",
        "assistant.usage",
        "external_tool.requested",
        "hook.end",
        "hook.start",
        "model.message",
        "model.messages_snapshot",
        "model.model_call_failure",
        "model.model_call_started",
        "model.model_call_success",
        "model.response",
        "model.turn_ended",
        "model.turn_started",
        "session.auto_mode_resolved",
        "session.autopilot_objective_changed",
        "session.binary_asset",
        "session.canvas.recorded",
        "session.canvas.removed",
        "session.compaction_complete",
        "session.compaction_start",
        "session.context_changed",
        "session.context_cleared",
        "session.error",
        "session.handoff",
        "session.idle",
        "session.import_legacy",
        "session.info",
        "session.mode_changed",
        "session.model_change",
        "session.permissions_changed",
        "session.plan_changed",
        "session.remote_steerable_changed",
        "session.resume",
        "session.schedule_cancelled",
        "session.schedule_created",
        "session.schedule_rearmed",
        "session.session_limits_changed",
        "session.shutdown",
        "session.snapshot_rewind",
        "session.start",
        "session.task_complete",
        "session.title_changed",
        "session.truncation",
        "session.usage_checkpoint",
        "session.usage_info",
        "session.usage_record",
        "session.warning",
        "session.workspace_file_changed",
        "skill.invoked",
        "subagent.completed",
        "subagent.configured",
        "subagent.deselected",
        "subagent.failed",
        "subagent.selected",
        "subagent.started",
        "system.message",
        "system.notification",
        "tool.execution_partial_result",
        "tool.execution_progress",
        "tool.execution_start",
        "tool.user_requested",
        "tool_search.activated",
    }
)
"""Types of events that are read, or known to hold nothing that amux shows.

They are those that were seen, and those that the schemas of 0.0.420 to 1.0.80 say are stored.
"""

_KNOWN_FAMILY: Final = "permission."  # questions whether a tool may run, and their answers
_TYPED_BY: Final = frozenset({None, "user"})
_NOTES: Final = frozenset({"system.message", "system.notification"})
_SHELLS: Final = frozenset({"bash", "powershell", "shell"})
_EXIT_CODE: Final = re.compile(r"<(?:shellId: \S+ completed|exited) with exit code (-?\d+)>\s*\Z")


def is_known(type: str) -> bool:
    """Return whether events of a type are read, or hold nothing that amux shows."""
    return type in KNOWN_TYPES or type.startswith(_KNOWN_FAMILY)


class Data(msgspec.Struct, rename="camel", gc=False):
    """The data of an event. Every field is optional; which ones are present depends on its type."""

    session_id: Wide = None
    start_time: Wide = None
    copilot_version: Wide = None
    context: Wide = None
    selected_model: Wide = None
    new_model: Wide = None
    session_was_active: Wide = None
    content: Wide = None
    source: Wide = None
    attachments: Wide = None
    model: Wide = None
    tool_requests: Wide = None
    reasoning_text: Wide = None
    api_call_id: Wide = None
    output_tokens: Wide = None
    parent_tool_call_id: Wide = None
    tool_call_id: Wide = None
    tool_name: Wide = None
    arguments: Wide = None
    success: Wide = None
    result: Wide = None
    error: Wide = None
    shell_execution: Wide = None
    usage: Wide = None
    info_type: Wide = None
    message: Wide = None
    summary_content: Wide = None
    compaction_tokens_used: Wide = None
    model_metrics: Wide = None
    accounting_snapshot: Wide = None
    agent_name: Wide = None
    agent_display_name: Wide = None
    agent_description: Wide = None


class Line(msgspec.Struct, rename="camel", gc=False):
    """One line."""

    type: Wide = None
    id: Wide = None
    timestamp: Wide = None
    agent_id: Wide = None
    data: Data | Odd = None


LINES: Final = msgspec.json.Decoder(Line)


class Event:
    """A line with its number and the values that several rules need."""

    __slots__ = ("agent", "at", "data", "id", "names_agent", "number", "raw", "type")

    def __init__(self, number: int, line: Line, raw: Buffer) -> None:
        self.number, self.raw = number, raw
        self.type = text(line.type) or ""
        self.id = text(line.id)
        self.at: datetime | None = moment(line.timestamp)
        self.data = line.data if isinstance(line.data, Data) else Data()
        agent = text(line.agent_id)
        self.names_agent = agent is not None
        # In older versions, the tool call that started a sub-agent identifies it.
        is_start = self.type.startswith("subagent.")
        caller = self.data.tool_call_id if is_start else self.data.parent_tool_call_id
        self.agent = agent or text(caller)

    @property
    def name(self) -> str:
        """The id of the event's message."""
        return self.id or f"line-{self.number}"


class SelectedModel:
    """The model that the main agent uses; up to 1.0.40 a reply does not name it."""

    def __init__(self) -> None:
        self.name: str | None = None

    def take(self, event: Event) -> None:
        """Add one event of any agent."""
        match event.type:
            case "session.start" | "session.resume":
                self.name = text(event.data.selected_model) or self.name
            case "session.model_change":
                self.name = text(event.data.new_model) or self.name
            case _:
                pass


class MessageBuilder:
    """Builds the messages of one conversation, in order."""

    def __init__(self, *, is_subagent: bool) -> None:
        self._is_subagent = is_subagent
        self._selected = SelectedModel()
        self._tools: dict[str, str] = {}
        self._requested: set[str] = set()
        self._last: str | None = None

    def of_event(self, event: Event) -> SessionMessage | None:
        """Return the message of an event; None if it has none."""
        self._selected.take(event)
        message = self._build(event)
        if message is not None:
            self._last = event.name
        return message

    def is_orphan(self, result: ToolResult) -> bool:
        """Return whether no earlier message made the call of a result."""
        return result.tool_call_id not in self._requested

    def _build(self, event: Event) -> SessionMessage | None:
        match event.type:
            case "user.message":
                return self._prompt(event)
            case "assistant.message":
                return self._reply(event)
            case "tool.execution_complete":
                return self._result(event)
            case "session.error":
                return SessionMessage(
                    role="assistant",
                    content=plain_text(event.data.message),
                    timestamp=event.at,
                    id=event.name,
                    parent_id=self._last,
                    synthetic=True,
                )
            case "tool.execution_start" | "tool.user_requested":
                call_id = text(event.data.tool_call_id) or ""
                self._tools[call_id] = text(event.data.tool_name) or "unknown"
                if event.type == "tool.user_requested":  # by a person: no reply makes the call
                    self._requested.add(call_id)
                return None
            case _:
                return self._context(event)

    def _context(self, event: Event) -> SessionMessage | None:
        """Return a message that the agent injected: a note or a summary; None for other events."""
        is_summary = event.type == "session.compaction_complete"
        if event.type in _NOTES:
            content = event.data.content
        elif is_summary and event.data.success is not False:
            content = event.data.summary_content
        else:
            return None
        return SessionMessage(
            role="system",
            content=plain_text(content),
            timestamp=event.at,
            id=event.name,
            parent_id=self._last,
            synthetic=True,
            compaction=is_summary,
        )

    def _prompt(self, event: Event) -> SessionMessage:
        data = event.data
        source = data.source if isinstance(data.source, str) else None
        content = plain_text(data.content).strip("\n")  # the shell adds line breaks
        typed = typed_text(content)
        return SessionMessage(
            role="user",
            content=typed or content,
            timestamp=event.at,
            id=event.name,
            parent_id=self._last,
            synthetic=not self._is_subagent
            and (source not in _TYPED_BY or (bool(content) and not typed)),
            images=tuple(
                url
                for attachment in map(mapping, items(data.attachments))
                if (url := image_url(attachment.get("mimeType"), attachment.get("data")))
            ),
        )

    def _reply(self, event: Event) -> SessionMessage:
        calls = tuple(
            SessionToolCall(
                tool_call_id=text(request.get("toolCallId")) or "",
                tool_name=text(request.get("name")) or "unknown",
                input=request.get("arguments"),
            )
            for request in map(mapping, items(event.data.tool_requests))
        )
        self._tools.update((call.tool_call_id, call.tool_name) for call in calls)
        self._requested.update(call.tool_call_id for call in calls)
        return SessionMessage(
            role="assistant",
            content=plain_text(event.data.content),
            timestamp=event.at,
            tool_calls=calls,
            thinking=text(event.data.reasoning_text),
            model=text(event.data.model) or self._selected.name,
            id=event.name,
            parent_id=self._last,
        )

    def _result(self, event: Event) -> SessionMessage:
        data = event.data
        call_id = text(data.tool_call_id) or ""
        name = self._tools.get(call_id) or text(data.tool_name) or "unknown"
        if data.result is not None:
            output = mapping(data.result).get("content", data.result)
        else:
            output = mapping(data.error).get("message", data.error)
        return SessionMessage(
            role="tool",
            content=plain_text(output),
            timestamp=event.at,
            tool_result=ToolResult(
                tool_call_id=call_id,
                tool_name=name,
                output=output,
                is_error=_has_failed(data, name, output),
            ),
            id=event.name,
            parent_id=self._last,
        )


def _has_failed(data: Data, tool: str, output: object) -> bool | None:
    if data.success is False:
        return True
    code = exit_code(data, output)
    if code is not None:
        return code != 0
    # Older versions record no exit code of a command that ended its shell.
    return False if data.success is True and tool not in _SHELLS else None


def exit_code(data: Data, output: object) -> int | None:
    """Return the exit code of a shell command: a field, in older versions the end of the output."""
    code = mapping(data.shell_execution).get("exitCode")
    if isinstance(code, int):
        return code
    exited = _EXIT_CODE.search(output[-200:]) if isinstance(output, str) else None
    return None if exited is None else int(exited[1])
