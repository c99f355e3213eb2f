"""Decodes the lines of a transcript: an envelope around Google's contents and telemetry events.

Field types are wide on purpose: a field of an unexpected type is treated as absent. Bodies stay
undecoded until they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from amux.adapters._kit.jsonl import Buffer
from amux.adapters._kit.values import document, mapping, moment, text
from amux.adapters.gemini.content import Parts, split_parts

Wide = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value, for fields that are used only if they have the expected type."""

_EMPTY: Final = msgspec.Raw()

MESSAGE_TYPES: Final = frozenset({"user", "assistant", "tool_result"})

IGNORED_SUBTYPES: Final = frozenset(
    {
        "agent_bootstrap",
        "agent_launch_prompt",
        "agent_retry",
        "at_command",
        "attribution_snapshot",
        "branch_checkpoint",
        "file_history_snapshot",
        "goal_runtime",
        "goal_state",
        "parent_session",
        "rewind",
        "session_artifact_event",
        "session_artifact_snapshot",
        "session_model",
        "session_source",
        "slash_command",
        "turn_result",
        "user_text_elements",
    }
)
"""System lines without message, title or usage. Other subtypes are counted as unknown."""

_NOT_TYPED: Final = frozenset({"system", "goal_control", "goal_runtime"})
_NOT_TYPED_SUBTYPES: Final = frozenset({"notification", "cron", "goal_runtime"})


class Line(msgspec.Struct, rename="camel"):
    """One line. Every field is optional; which ones are present depends on `type` and version."""

    type: Wide = None
    subtype: Wide = None
    uuid: Wide = None
    parent_uuid: Wide = None
    session_id: Wide = None
    timestamp: Wide = None
    provenance: Wide = None
    cwd: Wide = None
    version: Wide = None
    git_branch: Wide = None
    model: Wide = None
    message: msgspec.Raw = _EMPTY
    usage_metadata: Wide = None
    tool_call_result: msgspec.Raw = _EMPTY
    system_payload: msgspec.Raw = _EMPTY
    forked_from: Wide = None


LINES: Final = msgspec.json.Decoder(Line)


class Entry:
    """A line with its number and the values that several rules need."""

    def __init__(self, number: int, line: Line, raw: Buffer, *, log: str) -> None:
        self.number, self.line, self.raw = number, line, raw
        self.type = text(line.type) or ""
        self.subtype = text(line.subtype) or ""
        self.id = text(line.uuid) or f"{log}:{number}"
        self.at: datetime | None = moment(line.timestamp)

    @property
    def copied(self) -> bool:
        """Whether the line is marked as copied from another session."""
        return self.line.forked_from is not None

    @property
    def origin(self) -> str | None:
        """The session that a copied line comes from; None if the line does not name it."""
        return text(mapping(self.line.forked_from).get("sessionId")) or text(self.line.forked_from)

    @property
    def is_typed(self) -> bool:
        """Whether a user line may hold typed text."""
        return (
            text(self.line.provenance) not in _NOT_TYPED and self.subtype not in _NOT_TYPED_SUBTYPES
        )

    @cached_property
    def parts(self) -> Parts:
        """The parts of the message."""
        return split_parts(document(bytes(self.line.message)))

    @cached_property
    def payload(self) -> Mapping[str, Any]:
        """The payload of a system line."""
        return mapping(document(bytes(self.line.system_payload)))
