"""The records of a Claude Code transcript, limited to the fields that the rules need.

Field types are wide on purpose: a value of an unexpected type is treated as absent and invalidates
neither the line nor the session. Message bodies are decoded in `messages`. All decisions are based
on these structs alone, so facts do not depend on whether bodies are read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from sys import byteorder
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from amux.adapters._kit.jsonl import Buffer, clean_line
from amux.adapters._kit.values import parse_time
from amux.model.trace import key_of

T = TypeVar("T")

AnyJson = str | int | float | bool | list[Any] | dict[str, Any] | None
"""Any JSON value, for fields that are used only if they have the expected type."""

NotObject = str | int | float | bool | list[Any] | None
"""Any JSON value except an object: a value that may take the place of a struct."""

SYNTHETIC_MODEL: Final = "<synthetic>"

MESSAGE_TYPES: Final = frozenset({"user", "assistant", "system"})
NAMING_TYPES: Final = frozenset({"summary", "custom-title", "ai-title", "tag", "pr-link"})
MONEY_TYPES: Final = frozenset({"cost-state", "cost"})

IGNORED: Final = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "atis-latch",
        "attachment",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "continued-in",
        "data-flow-incomplete",
        "data-flow-records",
        "derived-from",
        "dev-mods",
        "ended-by-model",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "frame-link",
        "history-suppression",
        "isolation-latch",
        "last-prompt",
        "memory-mode",
        "mode",
        "observer-ref",
        "permission-mode",
        "checkpoint",
        "queue-operation",
        "relocated",
        "repl-mode",
        "resume-head-vouch",
        "session-owner",
        "tools-used",
        "worktree-state",
    }
)
"""Line types that hold no message, title or cost. Other types are counted as unknown."""

KNOWN_TYPES: Final = MESSAGE_TYPES | NAMING_TYPES | MONEY_TYPES | IGNORED


class Block(msgspec.Struct, gc=False):
    """A content block without its body."""

    type: AnyJson = None
    text: AnyJson = None
    id: AnyJson = None
    name: AnyJson = None
    tool_use_id: AnyJson = None


Content = str | int | float | bool | list[Block | NotObject] | dict[str, Any] | None


class CacheCreation(msgspec.Struct, gc=False):
    """The lifetimes of the cache entries that were written."""

    ephemeral_1h_input_tokens: AnyJson = None


class OutputDetails(msgspec.Struct, gc=False):
    """The composition of the output (newest versions only)."""

    thinking_tokens: AnyJson = None


class Usage(msgspec.Struct, gc=False):
    """The usage of a model call, repeated on every line of its message."""

    input_tokens: AnyJson = None
    output_tokens: AnyJson = None
    cache_read_input_tokens: AnyJson = None
    cache_creation_input_tokens: AnyJson = None
    cache_creation: CacheCreation | NotObject = None
    output_tokens_details: OutputDetails | NotObject = None


class Message(msgspec.Struct, gc=False):
    """The API message of a user or assistant line."""

    id: AnyJson = None
    model: AnyJson = None
    content: Content = None
    usage: Usage | NotObject = None
    stop_reason: AnyJson | UnsetType = UNSET


class LineOrigin(msgspec.Struct, gc=False):
    """The author of a user line (newest versions only)."""

    kind: AnyJson = None


class Line(msgspec.Struct, rename="camel", gc=False):
    """One record. All fields are optional; which are present depends on `type` and version."""

    # Decoding is fastest if fields are in the order in which most lines have them.
    parent_uuid: AnyJson | UnsetType = UNSET
    logical_parent_uuid: AnyJson = None
    is_sidechain: AnyJson = None
    cwd: AnyJson = None
    session_id: AnyJson = None
    version: AnyJson = None
    git_branch: AnyJson = None
    slug: AnyJson = None
    agent_id: AnyJson = None
    type: AnyJson = None
    subtype: AnyJson = None
    message: Message | NotObject = None
    content: Content = None
    request_id: AnyJson = None
    uuid: AnyJson = None
    timestamp: AnyJson = None
    is_meta: AnyJson = None
    is_compact_summary: AnyJson = None
    is_visible_in_transcript_only: AnyJson = None
    is_api_error_message: AnyJson = None
    is_aborted_mid_stream: AnyJson = None
    interrupted_message_id: AnyJson = None
    prompt_source: AnyJson = None
    entrypoint: AnyJson = None
    origin: LineOrigin | NotObject = None
    forked_from: AnyJson = None
    metadata: AnyJson = None
    cost_usd: AnyJson = msgspec.field(default=None, name="costUSD")
    total_cost_usd: AnyJson = msgspec.field(default=None, name="totalCostUSD")
    summary: AnyJson = None
    leaf_uuid: AnyJson = None
    custom_title: AnyJson = None
    ai_title: AnyJson = None
    tag: AnyJson = None
    pr_url: AnyJson = None


LINES: Final = msgspec.json.Decoder(Line)


class TextBlock(msgspec.Struct, gc=False):
    """A content block without tool input and output, decoded strictly."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    name: str | None = None


class FullTextBlock(TextBlock, gc=False):
    """A content block with all its texts, decoded strictly."""

    input: Any = None
    content: Any = None


TB = TypeVar("TB", bound=TextBlock)


class TextMessage(msgspec.Struct, Generic[TB], gc=False):
    """The API message of a line, decoded strictly."""

    id: str | None = None
    model: Any = None
    content: str | list[TB | str] | None = None


class TextLine(msgspec.Struct, Generic[TB], rename="camel", gc=False):
    """The fields of a line that determine its texts, decoded strictly."""

    type: str | None = None
    uuid: str | None = None
    request_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    is_api_error_message: Any = None
    prompt_source: str | None = None
    origin: LineOrigin | None = None
    content: str | None = None
    agent_id: str | None = None
    parent_uuid: str | None = None
    timestamp: Any = None
    message: TextMessage[TB] | None = None


AnyTextLine = TextLine[TextBlock] | TextLine[FullTextBlock]


def decode_more(raw: Buffer | memoryview, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Decode a line again for further fields; None if it cannot be decoded."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return decoder.decode(clean_line(bytes(raw)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def text_of(value: object) -> str | None:
    """Return the value if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def object_of(value: object) -> dict[str, Any]:
    """Return the value if it is a JSON object, else {}."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class Entry(msgspec.Struct, gc=False):
    """A decoded line with its number and the values that several rules need."""

    number: int
    line: Line
    raw: Buffer | memoryview
    foreign: str | None  # the id of another session, if the line names one
    _at: datetime | UnsetType | None = UNSET

    @property
    def at(self) -> datetime | None:
        """The time of the line, parsed on first use."""
        if self._at is UNSET:
            self._at = moment_of(self.line.timestamp)
        return self._at

    @property
    def copied(self) -> bool:
        """Whether the line itself says that it was copied from another session."""
        return self.foreign is not None or self.line.forked_from is not None

    @property
    def id(self) -> str:
        """The id of the message that the line begins; generated if the line has none."""
        return text_of(self.line.uuid) or f"line-{self.number}"

    @property
    def key(self) -> int:
        """The key of the line in a trace; equal in copies if the line has an id or a time."""
        line = self.line
        uuid = text_of(line.uuid)
        if uuid is not None:
            return key_of(uuid)
        kind = text_of(line.type) or ""
        if self.at is None:
            return key_of(f"{kind}\n{self.number}")
        content = line.content if isinstance(line.content, str) else ""
        return key_of(f"{kind}\n{line.timestamp}\n{content}")


def moment_of(stamp: AnyJson) -> datetime | None:
    """Parse a timestamp; None if it is not a time."""
    if isinstance(stamp, str):
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            return parse_time(stamp)
        if moment.tzinfo is UTC:  # the form that Claude Code writes
            return moment
    return parse_time(stamp) if isinstance(stamp, (str, int, float)) else None


def packed(number: int) -> bytes:
    """Return a number as the 64 bits of a trace column."""
    return number.to_bytes(8, byteorder, signed=True)


def is_notice(line: Line) -> bool:
    """Return whether Claude Code wrote the assistant line itself: an error, "No response"."""
    message = line.message
    model = message.model if isinstance(message, Message) else None
    return model == SYNTHETIC_MODEL or line.is_api_error_message is True


def _content(line: Line) -> Content:
    message = line.message
    return message.content if isinstance(message, Message) else line.content


def plain_text(line: Line) -> str | None:
    """Return the content of a line if it is a single string, else None."""
    content = _content(line)
    return content if isinstance(content, str) else None


def content_blocks(line: Line) -> list[Block]:
    """Return the content of a line as blocks; a plain string is one text block."""
    content = _content(line)
    if isinstance(content, str):
        return [Block(type="text", text=content)]
    if not isinstance(content, list):
        return []
    return [
        Block(type="text", text=block) if isinstance(block, str) else block
        for block in content
        if isinstance(block, (Block, str))
    ]


def fork_parent(line: Line) -> str | None:
    """Return the id of the session that a line was forked from."""
    if line.forked_from is not None:
        return _parent_id(line.forked_from)
    return _parent_id(object_of(line.metadata).get("forkedFrom"))


def _parent_id(source: AnyJson) -> str | None:
    """Return the id in a string, an object, or the last element of a list of either."""
    if isinstance(source, list):
        source = source[-1] if source else None
    return text_of(source) or text_of(object_of(source).get("sessionId"))
