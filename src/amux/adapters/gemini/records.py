"""Decodes the records of a chat: lines of a log, messages of a document, lines as specified.

Field types are wide on purpose: a field of an unexpected type is treated as absent. Bodies stay
undecoded until they are needed. `message_of` turns a record of any dialect and version into a
`ChatMessage`.

Token counts become disjoint buckets. `promptTokenCount` includes cached tokens. Whether
`candidatesTokenCount` includes the thoughts depends on the writer: Gemini excludes them, bridges
to other protocols include them. The total decides; without one, the caller passes the convention
of its agent. Tokens of tool prompts are not part of the prompt and are billed as input.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from amux.adapters._kit.usage import RecordedUsage, money_in, usage_in_message
from amux.adapters._kit.values import count, damage_in, document, first, mapping, moment, text
from amux.model.usage import Tokens

Wide = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value, for fields that are used only if they have the expected type."""

Odd = str | int | float | bool | list[Any] | None
"""Any JSON value except an object, where a struct is expected."""

Kind = Literal["user", "gemini", "note"]

_KINDS: Final[dict[str, Kind]] = {
    "user": "user",
    "gemini": "gemini",
    "model": "gemini",
    "assistant": "gemini",
    "qwen": "gemini",
    "info": "note",
    "warning": "note",
    "error": "note",
    "system": "note",
    "tool": "user",
    "function": "user",
}
"""Message types and roles of all dialects; a tool's answer counts as a user message."""

_ENVELOPES: Final = frozenset({"", "message", "event", "content"})
"""Types that do not name the speaker, which is then in `role`."""

_BLOCKED: Final = frozenset({"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII"})
"""Finish reasons that a safety filter gives."""

_EMPTY: Final = msgspec.Raw()
_NOTHING: Final = frozenset({b"", b"null", b"[]", b'""', b"{}"})


class Record(msgspec.Struct, rename="camel"):
    """One record: a header, a message, a patch or a rewind. Every field is optional."""

    type: Wide = None
    id: Wide = None
    timestamp: Wide = None
    content: msgspec.Raw = _EMPTY
    display_content: msgspec.Raw = _EMPTY
    thoughts: msgspec.Raw = _EMPTY
    tool_calls: msgspec.Raw = _EMPTY
    tokens: Wide = None
    model: Wide = None
    session_id: Wide = None
    project_hash: Wide = None
    start_time: Wide = None
    last_updated: Wide = None
    kind: Wide = None
    summary: Wide = None
    directories: Wide = None
    changes: msgspec.Raw = msgspec.field(default=_EMPTY, name="$set")
    rewind_to: Wide = msgspec.field(default=None, name="$rewindTo")
    role: Wide = None
    parts: msgspec.Raw = _EMPTY
    message: msgspec.Raw = _EMPTY
    usage_metadata: Wide = None
    usage: Wide = None
    token_usage: Wide = None
    token_usage_: Wide = msgspec.field(default=None, name="token_usage")
    cost: Wide = None
    safety_ratings: Wide = None
    safety_metadata: Wide = None
    safety: Wide = None
    prompt_feedback: Wide = None
    finish_reason: Wide = None


class Patch(msgspec.Struct, rename="camel"):
    """The fields that `$set` changes; a list of messages replaces the history the model sees."""

    session_id: Wide = None
    start_time: Wide = None
    last_updated: Wide = None
    summary: Wide = None
    directories: Wide = None
    kind: Wide = None
    messages: list[msgspec.Raw] | str | int | float | bool | dict[str, Any] | None = None


class Document(Record):
    """A whole session in one file."""

    messages: list[msgspec.Raw] | str | int | float | bool | dict[str, Any] | None = None


class ToolRecord(msgspec.Struct):
    """A tool call of an answer, with its result if there is one."""

    id: Wide = None
    name: Wide = None
    args: msgspec.Raw = _EMPTY
    result: msgspec.Raw = _EMPTY
    status: Wide = None
    timestamp: Wide = None

    @property
    def has_result(self) -> bool:
        """Whether the record holds a result."""
        return bytes(self.result).strip() not in _NOTHING


RECORD: Final = msgspec.json.Decoder(Record)
PATCH: Final = msgspec.json.Decoder(Patch)
DOCUMENT: Final = msgspec.json.Decoder(Document)
TOOLS: Final = msgspec.json.Decoder(list[ToolRecord | Odd])


class ChatMessage(msgspec.Struct, kw_only=True):
    """One message, independent of the dialect it was recorded in."""

    kind: Kind
    id: str
    at: datetime | None = None
    content: msgspec.Raw = _EMPTY
    display: msgspec.Raw = _EMPTY
    thoughts: msgspec.Raw = _EMPTY
    tools: msgspec.Raw = _EMPTY
    stated: RecordedUsage | None = None  # its usage
    model: str | None = None
    safety: dict[str, Any] = {}
    line: int = 0
    restored: bool = False  # found only in a checkpoint: the file has no record of its own for it


def type_of(record: Record) -> str:
    """Return the type of a record, or "" if it has none."""
    return text(record.type) or ""


def message_of(record: Record, *, line: int, name: str) -> ChatMessage | None:
    """Return the message of a record; None if it is no message. `name` prefixes generated ids."""
    message = mapping(document(bytes(record.message))) if bytes(record.message) else {}
    label = type_of(record)
    role = text(message.get("role")) or text(record.role) or ""
    kind = _KINDS.get(role if label in _ENVELOPES else label)
    if kind is None or (label in _ENVELOPES and not role):
        return None
    content = record.content if bytes(record.content) else record.parts
    if (body := first(message, "parts", "content")) is not None:
        content = msgspec.Raw(msgspec.json.encode(body))
    return ChatMessage(
        kind=kind,
        id=text(record.id) or f"{name}:{line}",
        at=moment(record.timestamp),
        content=content,
        display=record.display_content,
        thoughts=record.thoughts,
        tools=record.tool_calls,
        stated=_stated(record),
        model=text(record.model) or text(message.get("model")),
        safety=_safety(record),
        line=line,
    )


def _stated(record: Record) -> RecordedUsage | None:
    """Return the usage of a message, recorded in Google's field names or any other known ones."""
    for value, names in (
        (record.tokens, CHAT_FIELDS),
        (record.usage_metadata, API_FIELDS),
        (record.usage, API_FIELDS),
    ):
        found = counts_of(mapping(value), names)
        if found is not None:
            nusd = money_in({"cost": record.cost}) or None
            return RecordedUsage(found.tokens(thoughts_beside=True), nusd, found.gaps)
    return usage_in_message(
        {
            "usage": record.usage,
            "tokenUsage": record.token_usage,
            "token_usage": record.token_usage_,
            "tokens": record.tokens,
            "cost": record.cost,
        }
    )


def _safety(record: Record) -> dict[str, Any]:
    """Return the verdicts of safety filters as they were recorded."""
    found = {
        "safetyRatings": record.safety_ratings,
        "safetyMetadata": record.safety_metadata,
        "safety": record.safety,
        "promptFeedback": record.prompt_feedback,
    }
    if text(record.finish_reason) in _BLOCKED:
        found["finishReason"] = record.finish_reason
    return {name: value for name, value in found.items() if value}


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The token counts of one model call as they were recorded."""

    prompt: int = 0
    candidates: int = 0
    cached: int = 0
    thoughts: int | None = None
    tool: int = 0
    total: int | None = None
    gaps: tuple[str, ...] = ()  # names counts that are recorded but unusable

    def tokens(self, *, thoughts_beside: bool) -> Tokens:
        """Return the billed tokens.

        `thoughts_beside` says whether the output excludes the thoughts if the total does not tell.
        """
        thoughts = self.thoughts or 0
        prompt = self.prompt + self.tool
        if self.total is not None and thoughts:
            inside, beside = prompt + self.candidates, prompt + self.candidates + thoughts
            if self.total in (inside, beside):
                thoughts_beside = self.total == beside
        cached = min(self.cached, prompt)
        return Tokens(
            input=prompt - cached,
            cache_read=cached,
            output=self.candidates + (thoughts if thoughts_beside else 0),
            thinking=self.thoughts,
        )


def counts_of(record: dict[str, object], names: UsageFields) -> Counts | None:
    """Return the token counts of a record; None if it has none."""
    gaps = damage_in(record, *msgspec.structs.astuple(names))
    prompt, candidates = count(record.get(names.prompt)), count(record.get(names.candidates))
    total = count(record.get(names.total))
    if prompt is None and candidates is None and total is None and not gaps:
        return None
    return Counts(
        prompt=prompt or 0,
        candidates=candidates or 0,
        cached=count(record.get(names.cached)) or 0,
        thoughts=count(record.get(names.thoughts)),
        tool=count(record.get(names.tool)) or 0,
        total=total,
        gaps=gaps,
    )


class UsageFields(msgspec.Struct, frozen=True):
    """The field names of the token counts in one format."""

    prompt: str
    candidates: str
    cached: str
    thoughts: str
    tool: str
    total: str


CHAT_FIELDS: Final = UsageFields("input", "output", "cached", "thoughts", "tool", "total")
"""Field names in the messages of a chat file."""

API_FIELDS: Final = UsageFields(
    "promptTokenCount",
    "candidatesTokenCount",
    "cachedContentTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
    "totalTokenCount",
)
"""Field names of Google's API."""

TELEMETRY_FIELDS: Final = UsageFields(
    "input_token_count",
    "output_token_count",
    "cached_content_token_count",
    "thoughts_token_count",
    "tool_token_count",
    "total_token_count",
)
"""Field names in telemetry events."""
