"""Turns the records of a thread into messages, calls and facts.

All history is shown, cleared and compacted parts included; only what was rewound or popped is left
out, and what it cost still counts. A call is identified by its record: its id, its time and its
text, which are equal in the copies that forks have.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` would load OpenSSL
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, Want, has_bodies
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.jsonl import Buffer, read_records
from amux.adapters.amux import CLAUDE_FORMAT, STATE_FORMAT
from amux.errors import AmuxError
from amux.model.incomplete import CALLS_ELSEWHERE, USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, TokenUsage
from amux.model.problems import Problem
from amux.model.usage import Call
from amux.rollout import control
from amux.rollout.log import ThreadLog
from amux.rollout.messages import messages_of, usage_of
from amux.rollout.records import (
    SCHEMA_VERSION,
    Line,
    Record,
    SessionMeta,
    as_mapping,
    decode_line,
    meta_of,
)
from amux.rollout.rollout_reader import committed
from amux.rollout.view import searchable

_UUID_LENGTH: Final = 36
_NO_META: Final = "the first line is not the meta data of a thread"
_TYPES: Final = frozenset(
    {"session_meta", "response_item", "turn_context", "compacted", "event_msg"}
)


class _Typed(msgspec.Struct):
    """The fields of a line that not every captured one has, or that tell foreign ones apart."""

    type: str
    after_cut: bool = False


_TYPED: Final = msgspec.json.Decoder(_Typed)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """How a thread is read: how much, which of its sessions, and what is known of it.

    With `calls_elsewhere` another agent has the calls, and they count there.
    """

    want: Want
    only: str | None = None
    archived: bool = False
    calls_elsewhere: bool = False


def read_rollout(path: Path, request: Request) -> Iterator[Item]:
    """Yield the items of the thread in a file."""
    problems: list[Problem] = []
    lines = committed(_lines(path, problems), str(path), problems)
    records = [line.record for line in lines]
    yield from _read(records, problems, str(path), request)


def _lines(path: Path, problems: list[Problem]) -> Iterator[Line]:
    for found in read_records(path, _TYPED):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        number, typed, raw = found
        line = decode_line(_plain(raw))
        if line is None and typed.type not in _TYPES:
            line = _foreign(raw, typed.type, number)
        if line is None:
            message = "the line is not a record"
            problems.append(
                Problem(code="bad-record", message=message, path=str(path), line=number)
            )
        else:
            yield line


def _plain(raw: Buffer) -> bytes:
    return raw if isinstance(raw, bytes) else bytes(raw)


def meta_in(path: Path) -> SessionMeta | None:
    """Return the meta data in the first line of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            line = decode_line(file.readline().rstrip(b"\n"))
    except OSError:
        return None
    return None if line is None else meta_of(line.record)


def read_thread(log: ThreadLog, thread_id: str, path: str, request: Request) -> Iterator[Item]:
    """Yield the items of a thread in a log."""
    problems: list[Problem] = []
    records: list[Record] = []
    try:
        records.extend(log.read(thread_id))
    except AmuxError as error:
        problems.append(Problem(code="unreadable", message=error.message, path=path))
    yield from _read(records, problems, path, request)


def _read(
    records: Sequence[Record], problems: list[Problem], path: str, request: Request
) -> Iterator[Item]:
    meta = meta_of(records[0]) if records else None
    if meta is None and records:  # damaged: the name of the file tells the id
        if not problems:
            problems.append(Problem(code="bad-record", message=_NO_META, path=path, line=1))
        meta = SessionMeta(thread_id=_id_in(path), session_id="", created_at=records[0].at)
    if meta is None or meta.schema_version > SCHEMA_VERSION:
        if records or not problems:
            newer = "" if meta is None else f" (version {meta.schema_version} is newer than amux)"
            problems.append(Problem(code="unknown-format", message=_NO_META + newer, path=path))
        yield from problems
        return
    if meta.payload_format == STATE_FORMAT:
        yield from problems
    elif meta.payload_format == CLAUDE_FORMAT:
        from amux.adapters.amux.transcripts import read_transcript

        yield from read_transcript(meta, records, problems, path, request)
    else:
        yield from _read_conversation(meta, records, problems, request)


def _read_conversation(
    meta: SessionMeta, records: Sequence[Record], problems: Sequence[Problem], request: Request
) -> Iterator[Item]:
    yield Head(session_id=meta.thread_id)
    thread = _Thread(meta, records)
    for problem in problems:
        thread.fold.problem(problem)
        yield problem
    for message in thread.messages():
        thread.fold.message(message)
        if has_bodies(request.want):
            yield message
    for call in thread.calls():
        thread.fold.call(call)
        yield call
    yield thread.fold.facts(meta.thread_id, **thread.known(), archived=request.archived)


def _id_in(path: str) -> str:
    """Return the id at the end of the location of a thread."""
    return path.removesuffix(".jsonl")[-_UUID_LENGTH:]


class _Thread:
    """The records of one thread, and what its facts are made of."""

    def __init__(self, meta: SessionMeta, records: Sequence[Record]) -> None:
        self.meta = meta
        self.fold = Fold()
        self._records = records
        self._unknowns = Unknowns()
        self._title = meta.title
        self._cwd = meta.cwd
        self._model = meta.model
        self._models: dict[int, str | None] = {}  # by sequence number
        self._is_imported = bool(meta.extra.get("imported_from"))
        self._lacks_usage = False
        self._billed: dict[int, str | None] = {}  # the models of answers that others bill, likewise
        self._unbilled: list[int] = []
        for record in records:
            self.fold.moment(record.at)
            self._note(record)
            self._models[record.seq] = self._model

    def _note(self, record: Record) -> None:
        if record.type not in _TYPES:
            self._unknowns.take(record.type, record.text.encode())
        elif record.type == "turn_context":
            context = as_mapping(record.payload)
            cwd, model = context.get("cwd"), context.get("model")
            self._cwd = cwd if isinstance(cwd, str) and cwd else self._cwd
            self._model = model if isinstance(model, str) and model else self._model
        else:
            found = control.event_of(record)
            if found is not None and found[0] == control.TITLE:
                title = found[1].get("title")
                self._title = title if isinstance(title, str) else None
            elif found is not None and found[0] == control.USAGE:
                self._note_billed(found[1])
        self._unbilled.append(record.seq)

    def _note_billed(self, usage: Mapping[str, Any]) -> None:
        """Note the answers, from the record that a usage names to the last one, as billed."""
        first, model = usage.get("from_seq"), usage.get("model")
        while isinstance(first, int) and self._unbilled and self._unbilled[-1] >= first:
            self._billed[self._unbilled.pop()] = model if isinstance(model, str) else None

    def messages(self) -> Iterator[SessionMessage]:
        """Yield the messages in order, with the outputs of tools beside their calls."""
        shown = list(searchable(list(reversed(self._records))))
        messages = [
            (record, message)
            for record in reversed(shown)
            for message in messages_of(record, self.meta.payload_format)
        ]
        results = {
            message.tool_result.tool_call_id: message.tool_result
            for _, message in messages
            if message.tool_result is not None
        }
        for record, message in messages:
            is_bare = message.role != "assistant" and message.id != record.id  # a further message
            usage = None if is_bare else usage_of(record, self.meta.payload_format)
            changes: dict[str, Any] = {}
            if usage is not None:
                tokens = usage.tokens
                changes["token_usage"] = TokenUsage(
                    input_tokens=tokens.input,
                    output_tokens=tokens.output,
                    thinking_tokens=tokens.thinking,
                    cached_tokens=tokens.cache_read,
                    cache_write_tokens=tokens.cache_write,
                )
            elif (
                message.role == "assistant"
                and not message.synthetic
                and record.seq > self.meta.copied + 1  # else it is a call of another thread
                and record.seq not in self._billed
            ):
                self._lacks_usage = True
            if message.role == "assistant" and message.model is None and not message.synthetic:
                changes["model"] = self._billed.get(record.seq) or self._models.get(record.seq)
            if message.tool_calls:
                changes["tool_calls"] = tuple(
                    msgspec.structs.replace(
                        call,
                        output=results[call.tool_call_id].output,
                        is_error=results[call.tool_call_id].is_error,
                    )
                    if call.tool_call_id in results
                    else call
                    for call in message.tool_calls
                )
            yield msgspec.structs.replace(message, **changes) if changes else message

    def calls(self) -> Iterator[Call]:
        """Yield the billed calls, those of rewound answers included."""
        found: dict[str, Call] = {}
        for record in () if self._is_imported else self._records:
            usage = usage_of(record, self.meta.payload_format)
            if usage is None:
                continue
            key = usage.key or _call_key(record)
            before = found.get(key)
            if before is not None and before.tokens.output > usage.tokens.output:
                continue  # of several records of one call the largest output counts
            found[key] = Call(
                key=key,
                model=usage.model or self._models.get(record.seq),
                at=record.at if before is None else before.at,
                tokens=usage.tokens,
                native_nusd=usage.cost_nusd,
                purpose="compaction" if record.type == "compacted" else "main",
                message_id=record.id if before is None else before.message_id,
                copied=1 < record.seq <= self.meta.copied + 1,
            )
        yield from found.values()

    def known(self) -> dict[str, Any]:
        """Return the fields of the facts that the records state."""
        gaps = (CALLS_ELSEWHERE,) if self._is_imported else ()
        if self._lacks_usage and not self._is_imported:
            gaps = (USAGE_NOT_RECORDED,)
        return {
            "kind": self.meta.kind,
            "parent": self.meta.parent or self.meta.forked_from,
            "cwd": self._cwd or None,
            "name": self._title or (self.meta.extra.get("title") if self._is_imported else None),
            "created_at": self.meta.created_at,
            "version": self.meta.cli_version,
            "compactions": sum(record.type == "compacted" for record in self._records),
            "gaps": gaps,
            "unnamed_copies": True,  # a sub-agent names its parent, not the other way round
            "raw": {
                **self._unknowns.raw(),
                "source": self.meta.source,
                "payloadFormat": self.meta.payload_format,
            },
        }


def _call_key(record: Record) -> str:
    digest = blake2b(record.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{record.id}:{record.at.isoformat()}:{digest}"


def _foreign(raw: Buffer, kind: str, number: int) -> Line | None:
    """Return a record of a type that this version does not know, so that it is counted."""
    from datetime import UTC, datetime

    return Line(
        Record(
            seq=number,
            id=f"line-{number}",
            type=kind,
            at=datetime(1970, 1, 1, tzinfo=UTC),
            text=_plain(raw).decode("utf-8", "replace"),
        ),
        1,
        1,
    )
