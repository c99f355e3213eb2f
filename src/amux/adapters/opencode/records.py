"""What OpenCode stores: sessions, messages and parts, the same in a database and in JSON files.

A field may hold anything: only the outermost object has a type here, and whoever uses a field
checks it. Heavy fields stay undecoded (`Raw`) until somebody wants them.
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
_COPY_MILLIS: Final = 1000  # an id is made within moments of its message, a copy's id later
_PLACEHOLDER: Final = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT\S*( \(fork #\d+\))?")
_FORK_TITLE: Final = re.compile(r".*\(fork #\d+\)", re.DOTALL)


class MessageRecord(msgspec.Struct, gc=False):
    """`message.data`, or a message's file."""

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
        """When it began."""
        return moment(mapping(self.time).get("created"))

    @property
    def is_completed(self) -> bool:
        """Whether the agent saw its end."""
        return moment(mapping(self.time).get("completed")) is not None

    @property
    def is_summary(self) -> bool:
        """Whether it is the answer that replaces earlier history."""
        return bytes(self.summary) == b"true"


class PartRecord(msgspec.Struct, gc=False):
    """`part.data`, or a part's file."""

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
    """How far a tool call got."""

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
    """One message with its parts, in order."""

    id: str
    record: MessageRecord
    parts: list[PartRecord] = field(default_factory=list[PartRecord])
    unknown: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Types that are not known, of the message or of its parts, and what has them."""

    def add(self, part: PartRecord, source: object) -> None:
        """Append a part; `source` is what it was read from."""
        self.parts.append(part)
        if part.type not in PART_TYPES:
            self.unknown.append((plain_text(part.type), source))

    def check_role(self, source: object) -> None:
        """Whether a person or a model spoke; `source` is what the message was read from."""
        if self.record.role not in _ROLES:
            self.unknown.append((f"message:{plain_text(self.record.role)}", source))

    @property
    def is_copy(self) -> bool:
        """Whether it was copied from another session: its id is younger than the message."""
        found = _MESSAGE_ID.match(self.id)
        created = to_millis(self.record.created)
        if found is None or not created:
            return False
        age = ((int(found[1], 16) >> 12) - created) % (1 << _CLOCK_BITS)
        return _COPY_MILLIS < age < 1 << (_CLOCK_BITS - 1)


@dataclass(slots=True)
class SessionRecord:
    """One session's own record."""

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
        """The title, unless it only says when the session began."""
        if self.title is None or _PLACEHOLDER.fullmatch(self.title.strip()):
            return None
        return self.title

    @property
    def has_fork_title(self) -> bool:
        """Whether the title says that it is a fork."""
        return bool(self.title and _FORK_TITLE.fullmatch(self.title.strip()))


def value_of(raw: msgspec.Raw) -> Any:
    """The value of an undecoded field; None when absent."""
    data = bytes(raw)
    return decode(data, _ANY) if data else None


def text_of(raw: msgspec.Raw) -> str:
    """The text of an undecoded field, else ""."""
    value = value_of(raw)
    return value if isinstance(value, str) else ""


def session_of(record: dict[str, Any], fallback_id: str) -> SessionRecord:
    """A session's JSON file; the database's rows are brought into the same shape."""
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
