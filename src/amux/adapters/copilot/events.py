"""The lines of an event log.

Types are wide on purpose: a field of an unexpected type is as good as absent and costs neither the
line nor the session. Versions lose lines and write some twice, so that nothing here relies on the
chain of parents: order is the order of lines, and an event that was seen is not taken again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer
from amux.adapters._kit.values import moment, text

Wide = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value: for fields that are looked at only when they have the expected type."""

Odd = str | int | float | bool | list[Any] | None
"""Any JSON value but an object: what may stand where a struct is expected."""

SPEAKING: Final = frozenset({"user.message", "assistant.message", "tool.execution_complete"})
"""Events without which there is no conversation."""

KNOWN_TYPES: Final = SPEAKING | frozenset(
    {
        "abort",
        "assistant.intent",
        "assistant.reasoning",
        "assistant.turn_end",
        "assistant.turn_start",
        "assistant.usage",
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
        "session.compaction_complete",
        "session.compaction_start",
        "session.context_changed",
        "session.error",
        "session.handoff",
        "session.idle",
        "session.info",
        "session.mode_changed",
        "session.model_change",
        "session.plan_changed",
        "session.resume",
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
    }
)
"""Events that are understood or known to hold nothing for us."""


class Data(msgspec.Struct, rename="camel", gc=False):
    """What an event is about. Every field is optional; which ones there are depends on its type."""

    session_id: Wide = None
    start_time: Wide = None
    copilot_version: Wide = None
    context: Wide = None
    content: Wide = None
    source: Wide = None
    attachments: Wide = None
    model: Wide = None
    tool_requests: Wide = None
    reasoning_text: Wide = None
    api_call_id: Wide = None
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
    """A line in its place, with what several rules need of it."""

    __slots__ = ("agent", "at", "data", "id", "names_agent", "number", "raw", "type")

    def __init__(self, number: int, line: Line, raw: Buffer) -> None:
        self.number, self.raw = number, raw
        self.type = text(line.type) or ""
        self.id = text(line.id)
        self.at: datetime | None = moment(line.timestamp)
        self.data = line.data if isinstance(line.data, Data) else Data()
        agent = text(line.agent_id)
        self.names_agent = agent is not None
        self.agent = agent or self._calling_tool()

    def _calling_tool(self) -> str | None:
        """Older versions know a sub-agent by the tool call that started it."""
        if self.type.startswith("subagent."):
            return text(self.data.tool_call_id)
        return text(self.data.parent_tool_call_id)

    @property
    def name(self) -> str:
        """The id of the message that the event is."""
        return self.id or f"line-{self.number}"
