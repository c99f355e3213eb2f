"""Reads one session from its lines: one pass for the facts, a second one for message bodies.

The current branch is known only at the end, so bodies need a second pass. It reads the lines that
the first pass selected, and none that were written since. `log` decides which lines are messages,
and of which kind; this module builds them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from amux.adapters._base import Head, Item, Want, has_bodies
from amux.adapters._kit.fold import Pool
from amux.adapters._kit.jsonl import no_session, read_records
from amux.adapters._kit.usage import cost_view, usage_view
from amux.adapters._kit.values import (
    decode,
    first,
    is_items,
    is_mapping,
    items,
    mapping,
    moment,
    plain_text,
    text,
)
from amux.adapters.pi.adapter import Writer
from amux.adapters.pi.log import Origin, SessionLog
from amux.adapters.pi.prompts import Said, UserText, UserTexts
from amux.adapters.pi.records import BODIES, FILE_SHIFT, LINES, Entry, LineSource, T
from amux.model.message import Role, SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem
from amux.model.trace import LineKind
from amux.model.usage import Call

_LARGEST_RECORD: Final = 16 << 10  # bytes of JSON of one record of another branch
_ALL_RECORDS: Final = 256 << 10

Json = dict[str, Any]

_ROLES: Final[dict[LineKind, Role]] = {
    LineKind.PROMPT: "user",
    LineKind.REPLY: "assistant",
    LineKind.NOTICE: "assistant",
    LineKind.TOOL: "tool",
}
_SYSTEM: Final = frozenset({"system", "developer"})
_SUMMARIES: Final = frozenset({"compaction", "branch_summary"})
_IMAGE_TYPE: Final = re.compile(r"image/[\w.+-]{1,40}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_BLOB: Final = re.compile(r"blob:sha256:([0-9a-f]{64})")
_LARGEST_BLOB: Final = 32 << 20
_EXIT_CODE: Final = re.compile(r"\(?Command exited with code (-?\d+)\)?\s*\Z")
_FILE_TOOLS: Final = frozenset({"read", "write", "edit"})


class FileLines:
    """The lines of one or more files, with numbers that are unique across the files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def decode(
        self, decoder: msgspec.json.Decoder[T], *, cut_texts: bool
    ) -> Iterator[tuple[int, T | Problem]]:
        """Yield all lines."""
        for index, path in enumerate(self._paths):
            offset = index << FILE_SHIFT
            for found in read_records(path, decoder, cut_texts=cut_texts):
                if isinstance(found, Problem):
                    yield offset + (found.line or 0), found
                else:
                    yield offset + found[0], found[1]


def read_log(
    lines: LineSource,
    origin: Origin,
    *,
    want: Want,
    blobs: Path | None = None,
    only_by: Writer | None = None,
) -> Iterator[Item]:
    """Yield the head, problems, messages, calls and facts of one log.

    With `only_by`, for a folder that several agents share, yield nothing for another agent's log.
    """
    log = SessionLog(origin)
    for number, found in lines.decode(LINES, cut_texts=True):
        if isinstance(found, Problem):
            log.add_problem(found)
        else:
            log.take(Entry(number, found))
    if only_by is not None and log.info.writer not in {None, only_by}:
        return
    log.finish()
    if log.info.has_newer_format:
        yield from log.problems
        return
    if not log.is_session:
        yield from log.problems
        yield from no_session(log.origin.path, log.problems)
        return
    _store_raw_records(lines, log)
    facts = log.facts()
    yield Head(session_id=facts.session_id)
    yield from log.problems
    if has_bodies(want):
        is_linear = log.info.has_header and not log.info.version
        builder = MessageBuilder(origin.texts, blobs=blobs, is_linear=is_linear)
        yield from _messages(lines, log, builder, cut_texts=want != "all")
    yield from facts.calls
    yield facts


def _store_raw_records(lines: LineSource, log: SessionLog) -> None:
    """Store the records that are in no message: those of other branches and of unknown types."""
    other_branches, unknown = log.lines_of_other_branches(), log.info.unknown_lines
    if not other_branches and not unknown:
        return
    pool = Pool(largest=_LARGEST_RECORD, total=_ALL_RECORDS)
    for number, record in _chosen(lines, other_branches | unknown, cut_texts=True):
        if number in unknown:
            log.info.unknown.keep(record)
        kept = pool.take(record) if number in other_branches else None
        if kept is not None:
            log.records[number] = kept


def _messages(
    lines: LineSource, log: SessionLog, builder: MessageBuilder, *, cut_texts: bool
) -> Iterator[SessionMessage]:
    """Yield the messages of the current branch.

    If the branch is not in the order of lines, as can happen across files, all are read first.
    """
    wanted = log.messages()
    numbers = [number for _, number, _ in wanted]
    found = _chosen(lines, set(numbers), cut_texts=cut_texts)
    if numbers != sorted(numbers):
        lines_by_number = dict(found)
        found = iter([(number, lines_by_number.get(number, {})) for number in numbers])
    calls = {call.message_id: call for call in log.collector.calls}
    parent: str | None = None
    for (position, number, kind), line in zip(wanted, _align(found, numbers), strict=True):
        name = log.message_id(position, text(line.get("id")), number)
        call = calls.get(name) if kind is LineKind.REPLY else None
        is_wrapped = position in log.wrapped
        if is_wrapped:
            yield builder.context(line, MessageHeader(f"{name}:context", parent, LineKind.INJECTED))
            parent = f"{name}:context"
        yield builder.message(line, MessageHeader(name, parent, kind, call, is_wrapped))
        parent = name


def _chosen(lines: LineSource, numbers: set[int], *, cut_texts: bool) -> Iterator[tuple[int, Json]]:
    for number, found in lines.decode(BODIES, cut_texts=cut_texts):
        if number in numbers:
            yield number, {} if isinstance(found, Problem) else found


def _align(found: Iterator[tuple[int, Json]], numbers: Sequence[int]) -> Iterator[Json]:
    """Yield one line for every number, an empty one if it cannot be read a second time."""
    ahead = next(found, None)
    for number in numbers:
        if ahead is not None and ahead[0] == number:
            yield ahead[1]
            ahead = next(found, None)
        else:
            yield {}


class MemoryLines:
    """Lines that are already in memory: database events, or the messages of a document."""

    def __init__(
        self, events: Sequence[bytes], *, path: str, problems: Sequence[Problem] = ()
    ) -> None:
        self._events = events
        self._path = path
        self._problems = problems

    def decode(
        self, decoder: msgspec.json.Decoder[T], *, cut_texts: bool
    ) -> Iterator[tuple[int, T | Problem]]:
        """Yield the problems of fetching the lines, then all lines."""
        del cut_texts  # the texts are in memory already
        for problem in self._problems:
            yield 0, problem
        for number, event in enumerate(self._events, start=1):
            found: T | Problem | None = decode(event, decoder)
            if found is None:
                message = "an event is not a JSON object"
                found = Problem(code="bad-record", message=message, path=self._path, line=number)
            yield number, found


class MessageHeader(NamedTuple):
    """The id, parent, kind and call of a message."""

    id: str
    parent_id: str | None
    kind: LineKind
    call: Call | None = None
    is_wrapped: bool = False  # an injected text is around the prompt, and a message of its own


class MessageBuilder:
    """Builds the messages of one log, in order."""

    def __init__(
        self, texts: UserTexts, *, blobs: Path | None = None, is_linear: bool = False
    ) -> None:
        self._texts = texts
        self._blobs = blobs
        self._is_linear = is_linear  # version 1, which does not record whether a tool failed
        self._tool_names: dict[str, str] = {}

    def message(self, line: Json, header: MessageHeader) -> SessionMessage:
        """Return the message of one line."""
        body = _body(line)
        blocks = _blocks(body.get("content"))
        is_reply = header.kind is LineKind.REPLY
        calls = self._tool_calls(blocks) if is_reply else ()
        result = self._tool_result(body, blocks) if header.kind is LineKind.TOOL else None
        thoughts = (
            text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"
        )
        role = _ROLES.get(header.kind)
        if role is None:
            type, author = text(line.get("type")), text(body.get("role"))
            role = "system" if {type, author} & _SYSTEM or type in _SUMMARIES else "user"
        content = _content(line, body, blocks, header.kind)
        if header.kind is LineKind.PROMPT:
            typed = self._split(line, blocks).typed if header.is_wrapped else content
            content = typed.strip("\n")  # the shell adds line breaks
        return SessionMessage(
            role=role,
            content=content,
            timestamp=_time(line, body),
            tool_calls=calls,
            tool_result=result,
            token_usage=usage_view(header.call),
            cost=cost_view(header.call),
            thinking=("\n\n".join(filter(None, thoughts)) or None) if is_reply else None,
            model=text(body.get("model")) if is_reply else None,
            id=header.id,
            parent_id=header.parent_id,
            synthetic=header.kind in {LineKind.INJECTED, LineKind.NOTICE},
            images=tuple(filter(None, map(self._image, blocks))),
            compaction=line.get("type") == "compaction",
        )

    def context(self, line: Json, header: MessageHeader) -> SessionMessage:
        """Return what the agent wrote around the prompt of a line."""
        body = _body(line)
        return SessionMessage(
            role="user",
            content=self._split(line, _blocks(body.get("content"))).injected.strip("\n"),
            timestamp=_time(line, body),
            id=header.id,
            parent_id=header.parent_id,
            synthetic=True,
        )

    def _split(self, line: Json, blocks: list[Json]) -> UserText:
        is_custom = line.get("type") == "custom_message"
        custom_type = text(line.get("customType")) or "" if is_custom else None
        said = _texts(blocks, filled=True)
        return self._texts.split(Said(said, text(line.get("id")), custom_type, line.get("details")))

    def _tool_calls(self, blocks: list[Json]) -> tuple[SessionToolCall, ...]:
        calls = [
            SessionToolCall(
                tool_call_id=text(block.get("id")) or "",
                tool_name=text(block.get("name")) or "unknown",
                input=block.get("arguments"),
            )
            for block in blocks
            if block.get("type") == "toolCall"
        ]
        self._tool_names.update((call.tool_call_id, call.tool_name) for call in calls)
        return tuple(calls)

    def _tool_result(self, body: Json, blocks: list[Json]) -> ToolResult:
        call_id = text(body.get("toolCallId")) or ""
        name = text(body.get("toolName")) or self._tool_names.get(call_id) or "unknown"
        plain = all(block.get("type") == "text" for block in blocks)
        return ToolResult(
            tool_call_id=call_id,
            tool_name=name,
            output=_texts(blocks) if plain else body.get("content"),
            is_error=self._has_failed(body, name, _texts(blocks)),
        )

    def _has_failed(self, body: Json, tool: str, output: str) -> bool:
        """Return whether a tool failed; a command may have failed although its tool did not."""
        if body.get("isError") is True:
            return True
        details = mapping(body.get("details"))
        code = details.get("exitCode")
        if isinstance(code, int):
            return code != 0
        if text(details.get("status")) in {"error", "failed"}:
            return True
        exited = _EXIT_CODE.search(output)
        if exited is not None and self._is_linear:
            return int(exited[1]) != 0
        return self._is_linear and tool in _FILE_TOOLS and output.startswith("Error: ")

    def _image(self, block: Json) -> str | None:
        """Return a pasted image as a data URL; large images are in separate files."""
        kind, data = text(block.get("mimeType")), text(block.get("data"))
        if block.get("type") != "image" or kind is None or data is None:
            return None
        if not _IMAGE_TYPE.fullmatch(kind):
            return None
        blob = _BLOB.fullmatch(data)
        if blob is not None and self._blobs is not None:
            try:
                with (self._blobs / blob[1]).open("rb") as file:
                    content = file.read(_LARGEST_BLOB + 1)
            except OSError:
                return None
            data = "" if len(content) > _LARGEST_BLOB else base64.b64encode(content).decode()
        if not _BASE64.fullmatch(data):
            return None
        return f"data:{kind};base64,{data}"


def _content(line: Json, body: Json, blocks: list[Json], kind: LineKind) -> str:
    if text(line.get("type")) in _SUMMARIES:
        return text(line.get("summary")) or ""
    if kind is LineKind.NOTICE:
        return text(body.get("errorMessage")) or _texts(blocks)
    if body.get("role") == "bashExecution":
        output = text(body.get("output")) or ""
        return f"!{plain_text(body.get('command'))}\n{output}".rstrip("\n")
    words = _texts(blocks)
    if not words and kind is LineKind.INJECTED:
        sections = mapping(body.get("sections")).values()
        return "\n\n".join(section for section in sections if isinstance(section, str))
    return words


def _body(line: Json) -> Json:
    inner = line.get("message")
    return inner if is_mapping(inner) else line


def _time(line: Json, body: Json) -> datetime | None:
    times = (line.get("timestamp"), body.get("timestamp"), line.get("createdAt"))
    return next(filter(None, map(moment, times)), None)


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not is_items(content):
        return []
    return [
        {"type": "text", "text": block} if isinstance(block, str) else mapping(block)
        for block in items(content)
    ]


def _texts(blocks: list[Json], *, filled: bool = False) -> str:
    """Return the texts of blocks, one below the other; with `filled`, only those with content."""
    texts = (first(block, "text") for block in blocks if block.get("type") == "text")
    return "\n".join(
        found for found in texts if isinstance(found, str) and (not filled or text(found))
    )
