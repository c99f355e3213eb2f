"""The records of OpenCode: sessions, messages and parts, equal in the database and in JSON files.

A field may have any type: only the outermost object is typed here, and the code that uses a field
checks its type. Large fields stay undecoded (`Raw`) until they are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.values import decode, mapping, moment, plain_text, text, to_millis

NOTHING: Final = msgspec.Raw()
_ROLES: Final = ("user", "assistant")
PART_TYPES: Final = (
    "text",
    "reasoning",
    "tool",
    "step-start",
    "step-finish",
    "patch",
    "compaction",
    "snapshot",
    "file",
    "subtask",
    "retry",
    "agent",
)

_ANY: Final = msgspec.json.Decoder()
_MESSAGE_ID: Final = re.compile(r"msg_([0-9a-f]{12})")
_CLOCK_BITS: Final = 36  # of the 48 bits in an id; the other 12 are a counter
_COPY_MILLIS: Final = 1000  # an id is created with its message; the id of a copy is newer
_PLACEHOLDER: Final = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT\S*( \(fork #\d+\))?")
_FORK_TITLE: Final = re.compile(r".*\(fork #\d+\)", re.DOTALL)


class MessageRecord(msgspec.Struct, gc=False):
    """The column `message.data`, or a message's file."""

    id: Any = None
    role: Any = None
    time: Any = None
    parent: Any = msgspec.field(default=None, name="parentID")
    model: Any = msgspec.field(default=None, name="modelID")
    provider: Any = msgspec.field(default=None, name="providerID")
    cost: Any = None
    tokens: Any = None
    error: Any = None
    path: Any = None
    summary: msgspec.Raw = NOTHING  # true on a compaction's answer; on a prompt a list of diffs

    @property
    def created(self) -> datetime | None:
        """When the message was started."""
        return moment(mapping(self.time).get("created"))

    @property
    def is_completed(self) -> bool:
        """Whether the end of the message was recorded."""
        return moment(mapping(self.time).get("completed")) is not None

    @property
    def is_summary(self) -> bool:
        """Whether the message is the compaction summary that replaces earlier history."""
        return bytes(self.summary) == b"true"


class PartRecord(msgspec.Struct, gc=False):
    """The column `part.data`, or a part's file."""

    id: Any = None
    type: Any = None
    text: msgspec.Raw = NOTHING
    synthetic: Any = None
    ignored: Any = None
    tool: Any = None
    call: Any = msgspec.field(default=None, name="callID")
    state: msgspec.Raw = NOTHING
    tokens: Any = None
    cost: Any = None
    mime: Any = None
    url: msgspec.Raw = NOTHING
    prompt: msgspec.Raw = NOTHING


class ToolState(msgspec.Struct, gc=False):
    """The state of a tool call, with its input and output."""

    status: Any = None
    input: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    metadata: msgspec.Raw = NOTHING
    time: Any = None


MESSAGE: Final = msgspec.json.Decoder(MessageRecord)
PART: Final = msgspec.json.Decoder(PartRecord)
STATE: Final = msgspec.json.Decoder(ToolState)


@dataclass(slots=True)
class StoredMessage:
    """One message and its parts, in order."""

    id: str
    record: MessageRecord
    parts: list[PartRecord] = field(default_factory=list[PartRecord])
    unknown: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Unknown types of the message or its parts, each with the record."""

    def add(self, part: PartRecord, source: object) -> None:
        """Append a part; `source` is the record it was decoded from."""
        self.parts.append(part)
        if part.type not in PART_TYPES:
            self.unknown.append((plain_text(part.type), source))

    def check_role(self, source: object) -> None:
        """Note an unknown role; `source` is the record the message was decoded from."""
        if self.record.role not in _ROLES:
            self.unknown.append((f"message:{plain_text(self.record.role)}", source))

    @property
    def is_copy(self) -> bool:
        """Whether the message is a copy from another session: its id is newer than its time."""
        found = _MESSAGE_ID.match(self.id)
        created = to_millis(self.record.created)
        if found is None or not created:
            return False
        age = ((int(found[1], 16) >> 12) - created) % (1 << _CLOCK_BITS)
        return _COPY_MILLIS < age < 1 << (_CLOCK_BITS - 1)


@dataclass(slots=True)
class SessionRecord:
    """The record of a session."""

    id: str
    title: str | None = None
    directory: str | None = None
    parent: str | None = None
    version: str | None = None
    created: datetime | None = None
    updated: datetime | None = None
    archived: bool = False
    raw: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str | None:
        """The title; None if it is the placeholder with a date."""
        if self.title is None or _PLACEHOLDER.fullmatch(self.title.strip()):
            return None
        return self.title

    @property
    def has_fork_title(self) -> bool:
        """Whether the title ends like that of a fork."""
        return bool(self.title and _FORK_TITLE.fullmatch(self.title.strip()))


def value_of(raw: msgspec.Raw) -> Any:
    """Return the value of an undecoded field; None if it is absent."""
    data = bytes(raw)
    return decode(data, _ANY) if data else None


def text_of(raw: msgspec.Raw) -> str:
    """Return the text of an undecoded field; "" if it is absent or not text."""
    value = value_of(raw)
    return value if isinstance(value, str) else ""


def session_of(record: dict[str, Any], fallback_id: str) -> SessionRecord:
    """Parse a session's JSON record; rows of the database are converted to the same form."""
    times = mapping(record.get("time"))
    raw = {name: record[name] for name in ("projectID", "revert", "agent") if record.get(name)}
    revert = mapping(raw.pop("revert", None)).get("messageID")
    if revert is not None:
        raw["revertedFrom"] = revert
    return SessionRecord(
        id=text(record.get("id")) or fallback_id,
        title=text(record.get("title")),
        directory=text(record.get("directory")),
        parent=text(record.get("parentID")),
        version=text(record.get("version")),
        created=moment(times.get("created")),
        updated=moment(times.get("updated")),
        archived=moment(times.get("archived")) is not None,
        raw=raw,
    )
