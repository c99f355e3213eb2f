"""The records of a thread and their form on one line of a rollout.

A record is an envelope around a payload. The envelope has a sequence number, an id, the id of the
parent record, a time and one of five types. The payload is kept as the JSON text the caller gave,
to the character: numbers, key order and duplicate keys survive. Text that msgspec cannot read
(`NaN`, the escape of a lone surrogate) or that contains a line break is stored as a JSON string.

Records that were appended together carry their position and the size of their batch, so that a
reader recognises a batch of which lines are missing. The first line that is written after a batch
that was cut off says so. `docs/internals/rollout-format.md` specifies the format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

import msgspec

from amux.errors import ValidationError

SCHEMA_VERSION: Final = 1
"""The version of the format. A reader refuses a thread that declares a newer one."""

RecordType = Literal["session_meta", "response_item", "turn_context", "compacted", "event_msg"]
"""The five types of records. A reader passes on records of other types and ignores them."""

MAX_ID_LENGTH: Final = 128
MAX_SEQ: Final = 2**62
"""The largest sequence number of a record; databases and other languages have 64 bits for it."""

MAX_PAYLOAD_BYTES: Final = 256 * 2**20
"""Larger payloads belong into blobs: every reader of the thread would have to load them."""


class PayloadText(str):
    """JSON text that a record stores unchanged, such as the output of a framework's serialiser."""

    __slots__ = ()


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored record. `text` is the payload as JSON text, exactly as it was appended.

    `seq` increases within a thread; numbers may be missing, because a vacuum removes records.
    """

    seq: int
    id: str
    type: str
    at: datetime
    text: str
    parent_id: str | None = None
    blobs: tuple[str, ...] = ()

    @property
    def payload(self) -> Any:
        """Return the decoded payload."""
        return decode_payload(self.text)


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to append.

    `payload` is a JSON value or a `PayloadText`. Without an `id` the record gets a new one. Without
    a `parent_id` its parent is the head of the thread; None makes it a root. `at` is the time of
    the record itself; without one it is the time of the append. `blobs` names the blobs that the
    payload refers to.
    """

    payload: Any
    type: RecordType = "response_item"
    id: str | None = None
    parent_id: str | msgspec.UnsetType | None = msgspec.UNSET
    at: datetime | None = None
    blobs: tuple[str, ...] = ()


class _Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of a rollout, in the order in which its fields are written."""

    type: str
    seq: int
    id: str
    parent_id: str | None = None
    timestamp: datetime
    batch: tuple[int, int] = (1, 1)
    after_cut: bool = False
    blobs: tuple[str, ...] = ()
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_text: str | msgspec.UnsetType = msgspec.UNSET


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Line)
_ANY: Final = msgspec.json.Decoder()
_ID_BYTES: Final = 8


def _payload_encoder() -> Callable[[Any], str]:
    """Return a function that writes a JSON value as compact text, with all characters as they are.

    `JSONEncoder.encode` makes another encoder in C for every call, which takes a third of the time.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    quoted = json.encoder.encode_basestring
    pieces = make(None, encoder.default, quoted, None, ":", ",", False, False, True)  # noqa: FBT003
    return lambda value: "".join(pieces(value, 0))


_payload_text: Final = _payload_encoder()


def new_record_id() -> str:
    """Return a new random id of 16 hexadecimal digits."""
    return os.urandom(_ID_BYTES).hex()


def check_record_id(record_id: str) -> str:
    """Return the id; raise `ValidationError` if it is blank, has a NUL or is too long."""
    if not 0 < len(record_id) <= MAX_ID_LENGTH or not record_id.strip() or "\0" in record_id:
        raise ValidationError(
            f"a record id must have 1 to {MAX_ID_LENGTH} characters and no NUL", fields=("id",)
        )
    return record_id


def encode_payload(value: Any) -> str:
    """Return a JSON value as text; a `PayloadText` is returned unchanged if it is JSON."""
    if isinstance(value, PayloadText):
        text = str(value)
        decode_payload(text)
    else:
        try:
            text = _payload_text(value)
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate: only its escape can be stored
            text = json.dumps(value, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(
                f"the payload of a record must be JSON: {error}",
                fields=("payload",),
                hint="pass dicts, lists, strings, numbers, booleans and None, or a PayloadText",
            ) from error
    if len(text) > MAX_PAYLOAD_BYTES:
        raise ValidationError(
            f"a payload may have {MAX_PAYLOAD_BYTES} characters; this one has {len(text)}",
            fields=("payload",),
            hint="store large values as blobs",
        )
    return text


def decode_payload(text: str) -> Any:
    """Return the value of a payload; raise `ValidationError` if it is not JSON."""
    try:
        return _ANY.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return json.loads(text)  # noqa: TID251 - accepts what msgspec refuses: NaN, surrogates
    except (ValueError, RecursionError) as error:
        raise ValidationError(
            f"the payload of a record must be JSON: {error}", fields=("payload",)
        ) from error


def encode_record(
    record: Record, *, position: int = 1, count: int = 1, after_cut: bool = False
) -> bytes:
    """Return a record as one line, with its line break; `position` counts from 1 in its batch."""
    line = _Line(
        type=record.type,
        seq=record.seq,
        id=record.id,
        parent_id=record.parent_id,
        timestamp=record.at,
        batch=(position, count),
        after_cut=after_cut,
        blobs=record.blobs,
    )
    text = record.text
    if _is_embeddable(text):
        line.payload = msgspec.Raw(text)
    else:
        line.payload_text = text
    try:
        return _ENCODER.encode(line) + b"\n"
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"the ids and the payload text of a record must be valid Unicode: {error}",
            fields=("id", "payload"),
        ) from error


def encode_batch(records: Sequence[Record], *, after_cut: bool = False) -> bytes:
    """Return the lines of records that become visible together.

    `after_cut` states that the batch before them in the file was cut off, if its end is missing.
    """
    count = len(records)
    if count == 1:
        return encode_record(records[0], after_cut=after_cut)
    return b"".join(
        encode_record(record, position=position, count=count, after_cut=after_cut and position == 1)
        for position, record in enumerate(records, 1)
    )


class Line(msgspec.Struct, frozen=True, gc=False):
    """A decoded line: its record, its position and the size of its batch, and its mark."""

    record: Record
    position: int
    count: int
    after_cut: bool = False

    @property
    def is_of_first_batch(self) -> bool:
        """Whether the line was written when the file was created: that is never cut off."""
        return self.record.seq == self.position

    def continues(self, earlier: Line) -> bool:
        """Return whether both lines are of one batch: its records have consecutive numbers."""
        return (
            self.count == earlier.count
            and self.position > earlier.position
            and self.record.seq - earlier.record.seq == self.position - earlier.position
        )


def decode_line(raw: bytes | memoryview) -> Line | None:
    """Return the record of a line without its line break; None if the line is not a record."""
    try:
        line = _DECODER.decode(raw)
        if line.payload is not msgspec.UNSET:
            text = str(line.payload, "utf-8")
        elif line.payload_text is not msgspec.UNSET:
            text = line.payload_text
            decode_payload(text)  # a damaged line may hold any text
        else:
            return None
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValidationError):
        return None
    position, count = line.batch
    is_numbered = 1 <= position <= count and 1 <= line.seq <= MAX_SEQ
    if not is_numbered or line.timestamp.tzinfo is None:
        return None
    return Line(
        Record(
            seq=line.seq,
            id=line.id,
            type=line.type,
            at=line.timestamp,
            text=text,
            parent_id=line.parent_id,
            blobs=line.blobs,
        ),
        position,
        count,
        line.after_cut,
    )


def _is_embeddable(text: str) -> bool:
    """Return whether the text may stand in a line as it is: msgspec can read it back."""
    if "\n" in text or "\r" in text:
        return False
    if not ("NaN" in text or "Infinity" in text or "\\u" in text):
        return True
    try:
        _ANY.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


class SessionMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first record of a thread: where, when and by which program it was started.

    `thread_id` names the conversation, `session_id` the run of the program that started it. `key`
    is the external key of a thread within its `namespace`. `payload_format` names the format of its
    `response_item` payloads. `extra` holds fields of the caller.
    """

    thread_id: str
    session_id: str
    created_at: datetime
    schema_version: int = 1
    cwd: str = ""
    model: str | None = None
    cli_version: str | None = None
    agent: str = "amux"
    source: str = "cli"
    namespace: str = ""
    key: tuple[str, ...] | None = None
    payload_format: str = "amux"
    kind: Literal["session", "fork", "continuation", "subagent"] = "session"
    parent: str | None = None  # the thread that a continuation or a sub-agent belongs to
    forked_from: str | None = None
    fork_point: str | None = None  # the id of the last copied record
    copied: int = 0  # the number of records after this one that are copies; their usage is not new
    model_provider: str | None = None
    agent_role: str | None = None
    agent_nickname: str | None = None
    agent_path: str | None = None
    git_sha: str | None = None
    git_branch: str | None = None
    git_origin_url: str | None = None
    approval_mode: str | None = None
    sandbox_policy: Any = None
    base_instructions: str | None = None
    dynamic_tools: Any = None
    event_persistence: str | None = None
    user_id: str | None = None
    title: str | None = None
    extra: dict[str, Any] = {}


def meta_payload(meta: SessionMeta) -> dict[str, Any]:
    """Return the payload of the first record; fields without a value are absent."""
    payload: dict[str, Any] = msgspec.to_builtins(meta)
    return {"schema_version": meta.schema_version, **payload}


def meta_of(record: Record) -> SessionMeta | None:
    """Return the meta data in a first record; None if the record is none or is invalid."""
    if record.type != "session_meta":
        return None
    try:
        return msgspec.convert(record.payload, SessionMeta, strict=False)
    except (msgspec.ValidationError, ValidationError):
        return None


def utc(moment: datetime | None, now: datetime) -> datetime:
    """Return the moment, or `now`, as aware UTC; a naive moment is taken for UTC."""
    if moment is None:
        moment = now
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def as_mapping(payload: object) -> Mapping[str, Any]:
    """Return the payload if it is an object, else an empty mapping."""
    return cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
