"""Threads in and out: exports and imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from amux.errors import StoreError, ValidationError
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.rollout.ids import new_run_session_id, new_thread_id
from amux.rollout.log import ThreadLog, check_meta
from amux.rollout.records import (
    Line,
    NewRecord,
    Record,
    RecordType,
    SessionMeta,
    as_mapping,
    decode_line,
    encode_record,
    meta_of,
    utc,
)
from amux.rollout.rollout_reader import committed
from amux.store.imported_records import prepare_records
from amux.store.reports import ImportReport

if TYPE_CHECKING:
    from amux.model.session import Session


def export(log: ThreadLog, thread_id: str, format: str) -> str:
    """Return a thread as text: "jsonl" or "json"."""
    if format == "jsonl":
        return b"".join(map(encode_record, log.read(thread_id))).decode()
    if format == "json":
        return msgspec.json.format(
            msgspec.json.encode(document_of(log, thread_id)), indent=2
        ).decode()
    raise ValidationError(
        f"a thread is exported as jsonl or json, not as `{format}`",
        fields=("format",),
        hint="`amux export amux:<id>` writes Markdown and HTML",
    )


def document_of(log: ThreadLog, thread_id: str) -> dict[str, Any]:
    """Return a thread as one document: its meta data and all its records."""
    meta = msgspec.to_builtins(log.meta(thread_id))
    records = [
        {
            "seq": record.seq,
            "id": record.id,
            "type": record.type,
            "parent_id": record.parent_id,
            "timestamp": record.at.isoformat(),
            "payload": record.text,
            **({"blobs": list(record.blobs)} if record.blobs else {}),
        }
        for record in log.read(thread_id)
        if record.type != "session_meta"
    ]
    return {"meta": meta, "records": records}


def import_lines(log: ThreadLog, lines: Iterable[bytes]) -> ImportReport:
    """Store exported text: a document per line, one document, or the lines of a rollout."""
    given = (line for line in lines if line.strip())
    first = next(given, b"")
    match _decoded(first):
        case {"type": "session_meta"}:
            return _import_rollout(log, (first, *given))
        case {"meta": _}:
            return import_documents(log, map(_document, (first, *given)))
        case _:
            document = _decoded(b"".join((first, *given)))
    if not as_mapping(document).get("meta"):
        raise ValidationError(
            "the text is not an export of threads",
            fields=("lines",),
            hint="`amux store export` writes one",
        )
    return import_documents(log, (document,))


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _document(line: bytes) -> Mapping[str, Any]:
    return as_mapping(_decoded(line))


def _import_rollout(log: ThreadLog, lines: Iterable[bytes]) -> ImportReport:
    problems: list[Problem] = []
    records = [line.record for line in committed(_lines(lines, problems), "", problems)]
    meta = meta_of(records[0]) if records else None
    if meta is None:
        raise ValidationError("the first line is not the meta data of a thread", fields=("lines",))
    meta = check_meta(meta)
    is_new = log.get(meta.thread_id) is None
    if is_new:
        log.create(*prepare_records(meta, records[1:], {}))
    return ImportReport(
        imported=(meta.thread_id,) if is_new else (),
        skipped=() if is_new else (meta.thread_id,),
        problems=tuple(problems),
    )


def _lines(lines: Iterable[bytes], problems: list[Problem]) -> Iterator[Line]:
    for number, raw in enumerate(lines, 1):
        line = decode_line(raw.rstrip(b"\r\n"))
        if line is None:
            message = "the line is not a record"
            problems.append(Problem(code="bad-line", message=message, line=number))
        else:
            yield line


def import_documents(log: ThreadLog, documents: Iterable[Mapping[str, Any]]) -> ImportReport:
    """Store exported threads; threads whose id exists are skipped, bad documents are reported."""
    imported: list[str] = []
    skipped: list[str] = []
    problems: list[Problem] = []
    for number, document in enumerate(documents, 1):
        try:
            meta = check_meta(msgspec.convert(document.get("meta"), SessionMeta))
            if log.get(meta.thread_id) is not None:
                skipped.append(meta.thread_id)
                continue
            records = [_record(each, at) for at, each in enumerate(_records_in(document), 2)]
            log.create(*prepare_records(meta, records, {}))
        except (msgspec.ValidationError, ValidationError, StoreError) as error:
            message = f"document {number} cannot be imported: {error}"
            problems.append(Problem(code="bad-record", message=message))
        else:
            imported.append(meta.thread_id)
    return ImportReport(imported=tuple(imported), skipped=tuple(skipped), problems=tuple(problems))


class _ExportedRecord(msgspec.Struct, kw_only=True):
    id: str
    type: RecordType
    payload: str
    timestamp: datetime
    parent_id: str | None = None
    seq: int | None = None
    blobs: tuple[str, ...] = ()


def _records_in(document: Mapping[str, Any]) -> list[_ExportedRecord]:
    return msgspec.convert(document.get("records") or [], list[_ExportedRecord])


def _record(exported: _ExportedRecord, number: int) -> Record:
    return Record(
        seq=number if exported.seq is None else exported.seq,
        id=exported.id,
        type=exported.type,
        at=utc(exported.timestamp, exported.timestamp),
        text=exported.payload,
        parent_id=exported.parent_id,
        blobs=exported.blobs,
    )


def import_session(log: ThreadLog, session: Session) -> tuple[str, str]:
    """Store a session that was read from any agent; return the ids of the thread and the run."""
    run = new_run_session_id()
    meta = SessionMeta(
        thread_id=new_thread_id(),
        session_id=run,
        created_at=session.created_at,
        cwd=session.cwd or "",
        model=session.model,
        source=session.agent,
        extra={"imported_from": session.unified_id, "title": session.title},
    )
    usage = {call.message_id: call for call in session.calls if call.message_id is not None}
    records: list[NewRecord] = []
    at = session.created_at
    for number, message in enumerate(session.messages):
        at = message.timestamp or at  # a message without a time follows the one before it
        payload = _payload_of(message)
        call = usage.get(message.id or "")
        if call is not None:
            payload["usage"] = {
                "input_tokens": call.tokens.input,
                "output_tokens": call.tokens.output,
                "cache_read_tokens": call.tokens.cache_read,
                "cache_write_tokens": call.tokens.cache_write,
                **(
                    {}
                    if call.tokens.thinking is None
                    else {"reasoning_tokens": call.tokens.thinking}
                ),
            }
            payload["model"] = call.model
        records.append(NewRecord(payload=payload, id=f"{number}:{message.id}"[:128], at=at))
    log.create(meta, records)
    return meta.thread_id, run


def _payload_of(message: SessionMessage) -> dict[str, Any]:
    payload: dict[str, Any] = {"type": "message", "role": message.role, "content": message.content}
    if message.thinking:
        payload["thinking"] = message.thinking
    if message.model:
        payload["model"] = message.model
    if message.synthetic:
        payload["synthetic"] = True
    if message.images:
        payload["images"] = list(message.images)
    if message.tool_calls:
        payload["tool_calls"] = [
            {"id": call.tool_call_id, "name": call.tool_name, "arguments": call.input}
            for call in message.tool_calls
        ]
    if message.tool_result is not None:
        result = message.tool_result
        payload |= {"tool_call_id": result.tool_call_id, "tool_name": result.tool_name}
        payload["content"] = result.output if message.content == "" else message.content
        if result.is_error is not None:
            payload["is_error"] = result.is_error
    return payload
