"""The native records of a Codex rollout, limited to the fields that the rules need.

A line is decoded once with its payload left raw; only what the rules need is decoded further.
Bodies (`msgspec.Raw` fields) are decoded only when messages are read, so that listing a gigabyte of
tool output builds none of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, TypeGuard, TypeVar

import msgspec

from amux.adapters._kit.jsonl import Buffer, clean_line
from amux.adapters._kit.usage import RecordedUsage

T = TypeVar("T")

_DAMAGED: Final = "amux_damaged"  # a name that Codex never writes
NOTHING: Final = msgspec.Raw(b"")
Ordinal = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
MOST_TOKENS: Final = 1 << 53
Natural = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]

ITEM_TYPES: Final = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "web_search_call",
        "tool_search_call",
        "tool_search_output",
        "image_generation_call",
    }
)
"""Items of the Responses API; a line of the oldest formats is one without an envelope."""

CALL_TYPES: Final = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "web_search_call",
        "tool_search_call",
        "image_generation_call",
    }
)
OUTPUT_TYPES: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "tool_search_output",
    }
)

IGNORED: Final = frozenset(
    {
        "state",
        "world_state",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "security_risk_score",
        "dynamic_tools_updated",
        "realtime_item",
        "response_item/additional_tools",
        "response_item/compaction",
        "response_item/compaction_summary",
        "response_item/compaction_trigger",
        "response_item/context_compaction",
        "response_item/ghost_snapshot",
        "response_item/other",
        "event_msg/agent_reasoning_raw_content",
        "event_msg/collab_agent_interaction_end",
        "event_msg/collab_agent_spawn_end",
        "event_msg/collab_close_end",
        "event_msg/collab_resume_end",
        "event_msg/collab_waiting_end",
        "event_msg/context_compacted",
        "event_msg/dynamic_tool_call_request",
        "event_msg/dynamic_tool_call_response",
        "event_msg/error",
        "event_msg/guardian_assessment",
        "event_msg/image_generation_end",
        "event_msg/mcp_tool_call_end",
        "event_msg/patch_apply_end",
        "event_msg/sub_agent_activity",
        "event_msg/thread_settings_applied",
        "event_msg/undo_completed",
        "event_msg/view_image_tool_call",
        "event_msg/web_search_end",
    }
)
"""Known bookkeeping: no message, no usage, nothing that a list shows."""


class Line(msgspec.Struct, kw_only=True, gc=False):
    """One line of any format: an envelope, or the head or an item of the bare format."""

    type: str | None = None
    timestamp: str | float | None = None
    ordinal: Ordinal | None = None
    payload: msgspec.Raw = NOTHING
    record_type: str | None = None
    role: str | None = None
    id: str | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line converted to the newest format, whichever version wrote it."""

    key: int  # the ordinal, or the line number if there is none
    line: int
    kind: str
    payload: msgspec.Raw = NOTHING
    at: datetime | None = None
    numbered: bool = False  # the line has an ordinal
    model: str | None = None  # the model, if the line itself records it
    stated: RecordedUsage | None = None  # the usage, if the line itself records it
    raw: Buffer = b""  # the bytes of the line; empty if equal to the payload


class HistoryBase(msgspec.Struct, kw_only=True, gc=False):
    """The end of the history that a fork or a rewind continues."""

    thread_id: str | None = None
    end_ordinal_exclusive: Ordinal | None = None


class Meta(msgspec.Struct, kw_only=True, gc=False):
    """`session_meta`: the identity of the session."""

    id: str | None = None
    timestamp: str | float | None = None
    cwd: str | None = None
    originator: str | None = None
    cli_version: str | None = None
    source: str | dict[str, Any] | None = None
    model_provider: str | None = None
    git: dict[str, Any] | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    history_base: HistoryBase | None = None
    subagent_history_start_ordinal: Ordinal | None = None
    agent_nickname: str | None = None
    agent_path: str | None = None


class TurnContext(msgspec.Struct, kw_only=True, gc=False):
    """`turn_context`: the model of the following calls."""

    model: str | None = None
    effort: str | None = None
    turn_id: str | None = None


class Passthrough(msgspec.Struct, kw_only=True, gc=False):
    """The kinds of the parts of a message (newer versions)."""

    content_item_kinds: list[str | None] = []


class ResponseItem(msgspec.Struct, kw_only=True, gc=False):
    """`response_item`: input or output of the model."""

    type: str
    id: str | None = None
    role: str | None = None
    name: str | None = None
    call_id: str | None = None
    content: msgspec.Raw = NOTHING
    summary: msgspec.Raw = NOTHING
    arguments: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING
    action: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    tools: msgspec.Raw = NOTHING
    revised_prompt: msgspec.Raw = NOTHING
    encrypted_content: msgspec.Raw = NOTHING
    internal_chat_message_metadata_passthrough: Passthrough | None = None

    @property
    def kinds(self) -> list[str | None]:
        """The kind of each content part, if the version records it."""
        about = self.internal_chat_message_metadata_passthrough
        return [] if about is None else about.content_item_kinds


class Part(msgspec.Struct, kw_only=True, gc=False):
    """One part of the content of a message."""

    type: str | None = None
    text: str | None = None
    image_url: msgspec.Raw = NOTHING


class Usage(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Token figures of one call, or cumulated; `decode` replaces invalid ones."""

    input_tokens: Natural | None = None
    cached_input_tokens: Natural | None = None
    cache_write_input_tokens: Natural | None = None
    output_tokens: Natural | None = None
    reasoning_output_tokens: Natural | None = None
    total_tokens: Natural | None = None
    damaged: bool = msgspec.field(default=False, name=_DAMAGED)


class TokenInfo(msgspec.Struct, kw_only=True, gc=False):
    """`info` of a token count."""

    total_token_usage: Usage = Usage()
    last_token_usage: Usage = Usage()


class TurnItem(msgspec.Struct, kw_only=True, gc=False):
    """The item of an `item_completed` event."""

    type: str | None = None
    id: str | None = None
    status: str | None = None
    exit_code: int | None = None
    content: msgspec.Raw = NOTHING
    summary_text: msgspec.Raw = NOTHING
    receiver_thread_ids: tuple[str, ...] = ()
    agent_thread_id: str | None = None
    user_facing_hint: msgspec.Raw = NOTHING


class Event(msgspec.Struct, kw_only=True, gc=False):
    """`event_msg`: an event shown on the screen."""

    type: str
    kind: str | None = None
    message: msgspec.Raw = NOTHING
    text: msgspec.Raw = NOTHING
    info: TokenInfo | None = None
    item: TurnItem | None = None
    turn_id: str | None = None
    thread_id: str | None = None
    thread_name: str | None = None
    call_id: str | None = None
    exit_code: int | None = None
    goal: msgspec.Raw = NOTHING
    user_facing_hint: msgspec.Raw = NOTHING


class UsageRecord(msgspec.Struct, kw_only=True, gc=False):
    """`token_usage_record`: one billed call."""

    response_id: str | None = None
    thread_id: str | None = None
    usage: Usage = Usage()


class Compacted(msgspec.Struct, kw_only=True, gc=False):
    """`compacted`: a summary that replaces the history before it."""

    message: msgspec.Raw = NOTHING


class NameEntry(msgspec.Struct, kw_only=True):
    """A line of `session_index.jsonl`."""

    id: str
    thread_name: str | None = None


_USAGES: Final = frozenset({"usage", "total_token_usage", "last_token_usage"})
_FIGURES: Final = frozenset(Usage.__struct_fields__) - {"damaged"}

LINE: Final = msgspec.json.Decoder(Line)
META: Final = msgspec.json.Decoder(Meta)
TURN_CONTEXT: Final = msgspec.json.Decoder(TurnContext)
RESPONSE_ITEM: Final = msgspec.json.Decoder(ResponseItem)
EVENT: Final = msgspec.json.Decoder(Event)
USAGE_RECORD: Final = msgspec.json.Decoder(UsageRecord)
COMPACTED: Final = msgspec.json.Decoder(Compacted)
PARTS: Final = msgspec.json.Decoder(list[Part] | str | None)
NAME_ENTRY: Final = msgspec.json.Decoder(NameEntry)
_ANYTHING: Final = msgspec.json.Decoder()


def size(raw: msgspec.Raw) -> int:
    """Return the size of a raw value in bytes without copying it; 0 if the field is absent."""
    return memoryview(raw).nbytes


def decode(raw: msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a raw value; on failure, again with invalid Unicode or figures replaced.

    Raises:
        msgspec.MsgspecError: the value has another shape, or is nested too deeply to be read.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return decoder.decode(_with_natural_figures(raw))
    except (msgspec.DecodeError, UnicodeError):
        return decoder.decode(clean_line(bytes(raw)))
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def _with_natural_figures(raw: msgspec.Raw) -> bytes | msgspec.Raw:
    """Replace token figures that are not natural numbers, and flag their usage as damaged."""
    record = body(raw)
    if not is_object(record):
        return raw
    info = record.get("info")
    for holder in (record, info if is_object(info) else {}):
        for name in _USAGES & holder.keys():
            if is_object(usage := holder[name]):
                known = {key: figure for key, figure in usage.items() if key in _FIGURES}
                valid = {key: figure for key, figure in known.items() if not _is_invalid(figure)}
                holder[name] = {
                    key: None if figure is None else int(figure) for key, figure in valid.items()
                }
                holder[name][_DAMAGED] = len(valid) < len(known)
    return msgspec.json.encode(record)


def _is_invalid(figure: object) -> bool:
    """Return whether a value is present but not a valid figure."""
    if isinstance(figure, bool) or not isinstance(figure, int | float):
        return figure is not None
    return not 0 <= figure <= MOST_TOKENS


def body(raw: msgspec.Raw) -> Any:
    """Decode a body; None if it is absent, its bytes as text if it is not JSON."""
    if not size(raw):
        return None
    try:
        return decode(raw, _ANYTHING)
    except (msgspec.DecodeError, RecursionError):
        return bytes(raw).decode("utf-8", "replace")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a decoded value is a JSON list."""
    return isinstance(value, list)
