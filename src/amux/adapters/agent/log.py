"""Reads an entry log: the whole conversation, or the messages that a resumed model gets.

Each line is a JSON object of one of four types:

    session     the header, first line: id, version, timestamp, cwd
    message     id, parent_id, timestamp, role (user, assistant, tool_result), message
    compaction  a summary that replaces everything before `first_kept_entry_id`
    branch      the origin of a fork

Lines are never changed: a compaction is one more line, and the messages it summarises remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.jsonl import Buffer, decode_lines, no_session, read_records
from amux.adapters._kit.usage import cost_view, usage_view
from amux.adapters._kit.values import (
    count,
    damage_in,
    items,
    mapping,
    moment,
    nano_usd,
    plain_text,
    text,
)
from amux.model.facts import Facts, Kind
from amux.model.incomplete import COMPACTION_NOT_RECORDED, USAGE_NOT_RECORDED
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem, ProblemCode
from amux.model.usage import Call, Tokens

FORMAT_VERSION: Final = 1
"""The newest format version that is supported."""

ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool_result": "tool",
}
_INTERRUPTED: Final = frozenset({"error", "aborted"})
_FIGURES: Final = ("input", "output", "cache_read", "cache_write")
_SEPARATOR: Final = re.compile(r"[/\\]")
_SUMMARY: Final = (
    "The conversation before this point was compacted into the following summary:"
    "\n\n<summary>\n{}\n</summary>"
)


class Entry(msgspec.Struct):
    """One line. A field may have any type; a missing field is None."""

    type: Any = None
    id: Any = None
    parent_id: Any = None
    timestamp: Any = None
    version: Any = None
    cwd: Any = None
    role: Any = None
    message: Any = None
    summary: Any = None
    first_kept_entry_id: Any = None
    parent_session_path: Any = None
    branch_summary: Any = None

    @property
    def at(self) -> datetime | None:
        """When the line was written; older lines have a time only in the message."""
        return moment(self.timestamp) or moment(mapping(self.message).get("timestamp"))


ENTRY: Final = msgspec.json.Decoder(Entry)


def message_of(entry: Entry, *, id: str) -> SessionMessage | None:
    """Return the message of an entry; None if it has no readable message."""
    body = mapping(entry.message)
    role = ROLES.get(text(entry.role) or text(body.get("role")) or "")
    if role is None or not body:
        return None
    content = body.get("content")
    blocks = [mapping(block) for block in items(content)]
    said = content if isinstance(content, str) else _joined(blocks, "text")
    error = text(body.get("error_message")) if not said and role == "assistant" else None
    return SessionMessage(
        role=role,
        content=error or said,
        timestamp=entry.at,
        id=id,
        parent_id=text(entry.parent_id),
        synthetic=error is not None,
        model=text(body.get("model")),
        thinking=_joined(blocks, "thinking") or None,
        tool_calls=tuple(
            SessionToolCall(
                tool_call_id=text(block.get("id")) or "",
                tool_name=text(block.get("name")) or "",
                input=block.get("arguments"),
            )
            for block in blocks
            if block.get("type") == "tool_call"
        ),
        tool_result=_tool_result(body, said) if role == "tool" else None,
        images=tuple(
            f"data:{text(block.get('mime_type')) or 'image/png'};base64,{block.get('data')}"
            for block in blocks
            if block.get("type") == "image" and isinstance(block.get("data"), str)
        ),
    )


def _joined(blocks: list[dict[str, Any]], kind: str) -> str:
    texts = (text(block.get(kind)) for block in blocks if block.get("type") == kind)
    return "\n".join(found for found in texts if found)


def _tool_result(body: dict[str, Any], said: str) -> ToolResult:
    failed = body.get("is_error")
    return ToolResult(
        tool_call_id=text(body.get("tool_call_id")) or "",
        tool_name=text(body.get("tool_name")) or "",
        output=said or plain_text(body.get("details")),
        is_error=failed if isinstance(failed, bool) else None,
    )


def summary_message(entry: Entry, *, id: str) -> SessionMessage:
    """Return the summary of a compaction as a message."""
    return SessionMessage(
        role="user",
        content=text(entry.summary) or "",
        timestamp=entry.at,
        id=id,
        parent_id=text(entry.parent_id),
        synthetic=True,
        compaction=True,
    )


def call_of(entry: Entry, *, id: str) -> Call | None:
    """Return the call of an assistant message; None if no usage was recorded."""
    body = mapping(entry.message)
    usage = mapping(body.get("usage"))
    tokens, damage = _tokens(usage), damage_in(usage, *_FIGURES)
    if not tokens.total and not damage:
        return None
    cut_short = text(body.get("stop_reason")) in _INTERRUPTED
    return Call(
        key=id,
        model=text(body.get("model")),
        at=entry.at,
        tokens=tokens,
        native_nusd=nano_usd(mapping(usage.get("cost")).get("total")) or None,  # 0: never set
        message_id=id,
        gaps=(*(("call-interrupted",) if cut_short else ()), *damage),
    )


def _tokens(usage: dict[str, Any]) -> Tokens:
    """Return disjoint buckets; the total shows whether the provider's input includes the cache."""
    given = count(usage.get("input")) or 0
    output = count(usage.get("output")) or 0
    read = count(usage.get("cache_read")) or 0
    write = count(usage.get("cache_write")) or 0
    inside = count(usage.get("total_tokens")) == given + output and given >= read + write
    return Tokens(
        input=given - read - write if inside else given,
        cache_read=read,
        cache_write=write,
        output=output,
    )


def read_log(path: Path, *, bodies: bool) -> Iterator[Item]:
    """Yield the items of the session in a file; summaries are in order between the messages."""
    return _items(read_records(path, ENTRY), path, bodies=bodies)


def read_log_bytes(data: bytes, path: Path) -> Iterator[Item]:
    """Yield the items of the session in the bytes of a file, as `read_log` does."""
    return _items(decode_lines(BytesIO(data), ENTRY, str(path)), path, bodies=True)


def _items(
    records: Iterable[tuple[int, Entry, Buffer] | Problem], path: Path, *, bodies: bool
) -> Iterator[Item]:
    log = _LogReader(path, bodies=bodies)
    for found in records:
        if isinstance(found, Problem):
            log.fold.problem(found)
            yield found
            continue
        number, entry, raw = found
        version = entry.version
        if (count(version) or 0) > FORMAT_VERSION and not log.has_begun:
            message = f"the log has format version {version}; amux reads up to {FORMAT_VERSION}"
            yield Problem(code="unknown-format", message=message, path=str(path), line=number)
            return
        yield from log.items(entry, number, raw)
    if log.has_begun:
        yield log.facts()
    else:
        yield from no_session(path, log.fold.problems)


class _LogReader:
    """Builds the items of a session from the lines read so far."""

    def __init__(self, path: Path, *, bodies: bool) -> None:
        self.fold = Fold()
        self._path = path
        self._bodies = bodies
        self._header: Entry | None = None
        self._session_id: str | None = None
        self._kind: Kind = "session"
        self._parent: str | None = None
        self._compactions = 0
        self._unbilled = False
        self._calls: set[str] = set()
        self._ids: set[str] = set()
        self._unknown = Unknowns()

    @property
    def has_begun(self) -> bool:
        """Whether any line was read."""
        return self._session_id is not None

    def items(self, entry: Entry, number: int, raw: Buffer) -> Iterator[Item]:
        """Yield the items of one line."""
        if self._session_id is None:
            is_header = entry.type == "session"
            self._header = entry if is_header else None
            self._session_id = (text(entry.id) if is_header else None) or self._path.stem
            yield Head(session_id=self._session_id)
        match entry.type:
            case "session":
                self.fold.moment(entry.at)
            case "message":
                yield from self._message(entry, number)
            case "compaction":
                self._compactions += 1
                yield from self._emit(summary_message(entry, id=self._id(entry, number)))
            case "branch":
                yield from self._branch(entry, number)
            case other:
                self._unknown.take(str(other), raw)

    def _message(self, entry: Entry, number: int) -> Iterator[Item]:
        message = message_of(entry, id=self._id(entry, number))
        if message is None:
            yield self._problem("bad-record", "the message cannot be read", number)
            return
        self._calls.update(call.tool_call_id for call in message.tool_calls)
        result = message.tool_result
        if result is not None and result.tool_call_id not in self._calls:
            yield self._problem("orphan-result", "a tool result belongs to no call", number)
        call = call_of(entry, id=message.id or "") if message.role == "assistant" else None
        if call is not None:
            usage, cost = usage_view(call), cost_view(call)
            message = msgspec.structs.replace(message, token_usage=usage, cost=cost)
        yield from self._emit(message)
        if call is not None:
            self.fold.call(call)
            yield call
        elif message.role == "assistant" and not message.synthetic:
            self._unbilled = True

    def _branch(self, entry: Entry, number: int) -> Iterator[Item]:
        self._kind = "fork"
        self._parent = _stem_of_sibling(entry.parent_session_path)
        summary = text(entry.branch_summary)
        if summary is not None:
            yield from self._emit(
                SessionMessage(
                    role="user",
                    content=summary,
                    timestamp=entry.at,
                    id=self._id(entry, number),
                    synthetic=True,
                )
            )

    def _emit(self, message: SessionMessage) -> Iterator[Item]:
        # The copies in a fork may lack the parent.
        if message.parent_id == message.id or message.parent_id not in self._ids:
            message = msgspec.structs.replace(message, parent_id=None)
        self.fold.message(message)
        if self._bodies:
            yield message

    def _id(self, entry: Entry, number: int) -> str:
        """Return the entry's id, which its copies in forks share; else its line number."""
        found = text(entry.id)
        id = f"{self._path.stem}:{number}" if found is None or found in self._ids else found
        self._ids.add(id)
        return id

    def _problem(self, code: ProblemCode, message: str, number: int) -> Problem:
        problem = Problem(code=code, message=message, path=str(self._path), line=number)
        self.fold.problem(problem)
        return problem

    def facts(self) -> Facts:
        """Return the facts, after at least one line."""
        header = self._header or Entry()
        stem = self._path.stem
        gaps = {
            USAGE_NOT_RECORDED: self._unbilled,
            COMPACTION_NOT_RECORDED: self._compactions > 0,
        }
        return self.fold.facts(
            self._session_id or stem,
            aliases=() if stem == self._session_id else (stem,),
            kind=self._kind,
            parent=self._parent,
            cwd=text(header.cwd),
            created_at=moment(header.timestamp),
            compactions=self._compactions,
            gaps=tuple(reason for reason, holds in gaps.items() if holds),
            raw=self._unknown.raw() or None,
        )


def _stem_of_sibling(recorded: Any) -> str | None:
    """Return the name of the log that a fork came from, which is an alias of that session.

    The fork records a path. Only its last component is used, and no file is opened, so that the
    contents of a log cannot lead to another file.
    """
    name = _SEPARATOR.split(text(recorded) or "")[-1]
    return (name.removesuffix(".jsonl") or None) if name.endswith(".jsonl") else None


def read_context(path: Path) -> tuple[list[SessionMessage], list[Problem]]:
    """Return the messages a resumed model gets: the last summary and all from the first kept on."""
    problems: list[Problem] = []
    messages: list[SessionMessage] = []
    summary: SessionMessage | None = None
    kept = 0
    for found in read_records(path, ENTRY):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        number, entry, _ = found
        id = text(entry.id) or f"{path.stem}:{number}"
        if entry.type == "message":
            message = message_of(entry, id=id)
            messages += [] if message is None else [message]
        elif entry.type == "compaction":
            summary = summary_message(entry, id=id)
            content = _SUMMARY.format(summary.content)
            summary = msgspec.structs.replace(summary, content=content)
            first = text(entry.first_kept_entry_id)
            positions = [position for position, one in enumerate(messages) if one.id == first]
            kept = positions[0] if positions else len(messages)
            if not positions and entry.first_kept_entry_id != "":  # empty: it keeps nothing
                what = "the compaction refers to an entry that is missing"
                problem = Problem(code="bad-record", message=what, path=str(path), line=number)
                problems.append(problem)
    return ([] if summary is None else [summary]) + messages[kept:], problems
