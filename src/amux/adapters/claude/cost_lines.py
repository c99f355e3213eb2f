"""Reads the lines of a transcript that affect cost, and skips most tool results.

Two thirds of a transcript are tool output. A line with a tool result affects cost in one way: until
an answer begins, a call may be under way. Such lines are therefore deferred undecoded and dropped
when an answer begins. If another line that may depend on them follows, or the file ends, they are
decoded in order. They are recognised without decoding: a line that begins and ends like a decoded
one has the same kind, session and folder.

Lines of ordinary answers take a fast path. It changes the conversation exactly as `Origin` and
`CallState` do; every other line is left to those. The tools that an answer called matter only if a
later line depends on them before the next answer begins, so they are recorded on demand. A result
that was dropped matters then only if it came before its call, in the answer that followed: if the
id of such a tool occurs in one of the dropped lines, they are decoded after all.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from amux.adapters.claude.calls import MOST_TOKENS, OpenCall
from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.lines import LineReader
from amux.adapters.claude.records import (
    LINES,
    SYNTHETIC_MODEL,
    Entry,
    Line,
    Message,
    content_blocks,
    decode_more,
    is_notice,
    moment_of,
    packed,
    text_of,
)
from amux.model.problems import Problem
from amux.model.trace import key_of
from amux.model.usage import Tokens

_UTC: Final = "Z"
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Block(msgspec.Struct, gc=False):
    type: str
    id: str | None = None


class _CacheCreation(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: _Count = 0


class _OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: _Count | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: _Count = 0
    cache_creation_input_tokens: _Count = 0
    cache_read_input_tokens: _Count = 0
    cache_creation: _CacheCreation | None = None
    output_tokens: _Count = 0
    output_tokens_details: _OutputDetails | None = None

    def tokens(self) -> Tokens:
        """Return the usage in disjoint buckets."""
        creation, details = self.cache_creation, self.output_tokens_details
        return Tokens(
            input=self.input_tokens,
            cache_read=self.cache_read_input_tokens,
            cache_write=self.cache_creation_input_tokens,
            cache_write_1h=0 if creation is None else creation.ephemeral_1h_input_tokens,
            output=self.output_tokens,
            thinking=None if details is None else details.thinking_tokens,
        )


class _Message(msgspec.Struct, gc=False):
    model: _Text
    id: _Text
    content: list[_Block]
    usage: _Usage
    stop_reason: str | UnsetType | None = UNSET


class AnswerLine(msgspec.Struct, rename="camel", gc=False):
    """A line of an ordinary answer: fields that unusual lines use are absent or null."""

    session_id: str
    version: _Text
    message: _Message
    type: Literal["assistant"]
    uuid: _Text
    timestamp: _Text
    is_sidechain: bool = False
    is_api_error_message: bool | None = None
    is_aborted_mid_stream: bool | None = None
    forked_from: None = None
    metadata: None = None
    cost_usd: None = msgspec.field(default=None, name="costUSD")


_LINES: Final = msgspec.json.Decoder(AnswerLine)


class Result(NamedTuple):
    """An undecoded line that holds a tool result."""

    number: int
    raw: memoryview


Deferred = list[Entry | Result]
"""Lines since the last answer: decoded records, and undecoded tool results."""


Dropped = tuple[Deferred, int, Collection[str], list[list[_Block]]]
"""Lines that were dropped because an answer began, the number of answers before it, and the tools
that were at work then: those that were recorded, and the content of lines whose were not. It is a
plain tuple because most answers have one."""


def may_hold(dropped: Dropped, ids: Iterable[str]) -> bool:
    """Return whether one of the dropped results may be that of one of these tools."""
    # JSON may spell an id in several ways, but no version does so with ASCII.
    raws = [bytes(each.raw) for each in dropped[0] if isinstance(each, Result)]
    return any(not id.isascii() or any(id.encode() in raw for raw in raws) for id in ids)


def results_in(lines: Deferred) -> Iterator[str]:
    """Yield the ids of the tool results in undecoded lines."""
    for each in lines:
        line = decode_more(each.raw, LINES) if isinstance(each, Result) else None
        for block in () if line is None else content_blocks(line):
            if block.type == "tool_result" and (id := text_of(block.tool_use_id)) is not None:
                yield id


def tools_in(contents: Iterable[Iterable[_Block]]) -> list[str]:
    """Return the ids of the tools that some lines of an answer call, in order."""
    return [
        block.id
        for content in contents
        for block in content
        if block.id and block.type.endswith("tool_use")
    ]


class FastAnswers:
    """Records answers in the conversation of a file; `own_id` is that of `LineReader`."""

    __slots__ = (
        "_call_state",
        "_calls",
        "_contents",
        "_dropped",
        "_first_time",
        "_has_begun",
        "_origin",
        "_own_id",
    )

    def __init__(self, conversation: Conversation, own_id: str | None) -> None:
        self._origin, self._call_state = conversation.origin, conversation.call_state
        self._calls: dict[str, OpenCall] = self._call_state.book.calls
        self._own_id = own_id
        self._has_begun = False  # later lines say nothing new about the session
        self._first_time = ""  # of the open answer; "" if not comparable as text
        self._contents: list[list[_Block]] = []
        self._dropped: Dropped | None = None

    def decode(self, raw: memoryview) -> AnswerLine | None:
        """Decode a line of an ordinary answer; None if the line needs the slow path."""
        try:
            line = _LINES.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        if self._own_id is not None and (line.session_id != self._own_id or line.is_sidechain):
            return None
        is_unusual = line.is_api_error_message or line.is_aborted_mid_stream
        return None if is_unusual or line.message.model == SYNTHETIC_MODEL else line

    def is_open(self, message_id: str) -> bool:
        """Return whether the last recorded lines belong to this message."""
        return message_id == self._call_state.open

    def take(self, line: AnswerLine) -> bool:
        """Record a line; False if it needs the slow path at this point."""
        if not self._has_begun:
            self._has_begun = self._origin.own_lines and not self._origin.lacks_beginning
            if not self._has_begun:
                return False
        message, usage = line.message, line.message.usage
        call = self._calls.get(message.id)
        if (message.id == self._call_state.open) is (call is None):  # its lines are not consecutive
            return False
        if call is None:
            call = self._begin(line)
        elif (
            line.timestamp < self._first_time
            or len(line.timestamp) != len(self._first_time)
            or line.timestamp[-1] != _UTC
        ):
            return False  # the line may be older than the first one
        self._origin.version, self._origin.total_nusd = line.version, None
        call.model = message.model
        if call.has_last_word(usage.output_tokens, stopped=message.stop_reason is not None):
            call.tokens, call.usage = usage.tokens(), None
        self._contents.append(message.content)
        return True

    def drop(self, lines: Deferred) -> None:
        """Record that lines are dropped because an answer begins."""
        tools = self._call_state.tools
        at_work = tuple(tools.at_work) if tools.at_work else ()
        self._dropped = (lines, tools.answers, at_work, self._contents)
        self._contents = []

    def expect(self, ids: Sequence[str] | None) -> None:
        """Record the dropped results if one may be that of a tool; None: of any tool."""
        dropped, tools = self._dropped, self._call_state.tools
        if dropped is None:
            return
        lines, answers, at_work, contents = dropped
        is_recent = tools.answers <= answers + 1
        if is_recent and ids is not None and not may_hold(dropped, ids):
            return
        self._dropped = None
        if is_recent:
            tools.replay(results_in(lines), {*at_work, *tools_in(contents)}, answers=answers)

    def settle(self) -> None:
        """Record the tools of the lines whose recording was postponed."""
        if self._contents:
            ids = tools_in(self._contents)
            self._contents.clear()
            if ids:
                self.expect(ids)
                for id in ids:
                    self._call_state.tools.call(id, "")
                self._call_state.note_tools(copied=False)
        self._first_time = ""

    def _begin(self, line: AnswerLine) -> OpenCall:
        call_state, key = self._call_state, line.message.id
        call_state.begin_reply(key, line.uuid)
        call_state.identity += packed(key_of(key))
        self._contents.clear()
        call = self._calls[key] = OpenCall(line.uuid, line.message.usage.output_tokens)
        call.at = moment_of(line.timestamp)
        self._first_time = (
            line.timestamp if call.at is not None and line.timestamp[-1] == _UTC else ""
        )
        return call


_BEGIN: Final = b'{"parentUuid":"'
_HEAD_AT: Final = len(_BEGIN) + 36  # after the id
_RESULT: Final = b'"tool_use_id":"'
_HANDS_OVER: Final = (
    b'"message":{"role":"user","content":[{"tool_use_id":"',
    b'"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"',
)
_ENVELOPE: Final = b',"userType":"'  # newer versions repeat session and folder from here on
_MESSAGE: Final = b'"message":{'
_SESSION: Final = b'"sessionId":"'
_DEPEND_ON_RESULTS: Final = frozenset({"user", "assistant", "cost-state"})


class LineTemplate(NamedTuple):
    """The bytes that all lines with tool results of one session have in common."""

    head: bytes = b"\n"  # after the first id; a line break matches no line
    tail: bytes = b"\n"


class CostLineReader(LineReader):
    """Reads like `LineReader`, but yields only lines that need further processing.

    Lines of ordinary answers are recorded directly (see `enter_into`). Tool results that are
    followed by an answer are skipped.
    """

    _template = LineTemplate()
    _answer_head = b"\n"  # head of lines that are probably answers
    _fast: FastAnswers

    def enter_into(self, conversation: Conversation) -> None:
        """Set the conversation that the lines belong to, before the first line is read."""
        self._fast = FastAnswers(conversation, self._own_id)

    def _entries_of_chunk(self, chunk: bytes, start: int) -> Generator[Entry | Problem, None, int]:
        """Yield the lines that end in a chunk; return the offset after them."""
        view, number, fast = memoryview(chunk), self.number, self._fast
        deferred: Deferred = []
        while (end := chunk.find(b"\n", start)) >= 0:
            raw, head_at = view[start:end], start + _HEAD_AT
            number += 1
            if chunk.startswith(self._answer_head, head_at):
                answer = fast.decode(raw)
                if answer is not None and deferred:
                    yield from self._before(answer.message.id, deferred)
                if answer is None or not fast.take(answer):
                    yield from self._slow_path(number, raw, deferred)
            elif (
                chunk.startswith(self._template.head, head_at)
                and chunk.startswith(_BEGIN, start)
                and chunk.endswith(self._template.tail, head_at + len(self._template.head), end)
            ):
                deferred.append(Result(number, raw))
            else:
                yield from self._slow_path(number, raw, deferred)
            start = end + 1
        yield from self._read(deferred)
        fast.expect(None)  # the bytes of dropped results will be gone
        self.number = number
        return start

    def _slow_path(
        self, number: int, raw: memoryview, deferred: Deferred
    ) -> Iterator[Entry | Problem]:
        """Decode any other line; yield it, or defer it behind deferred results."""
        entry = self._decoded(number, raw)
        if entry is None:
            yield from self._read(deferred)
            yield from self._entry(raw, number)
            return
        line = entry.line
        is_aside = line.is_sidechain is True and self._own_id is not None  # an inline sub-agent
        if deferred and line.type not in _DEPEND_ON_RESULTS and not is_aside:
            deferred.append(entry)  # it may be processed after the results that precede it
        else:
            if deferred:
                is_reply = line.type == "assistant" and not is_notice(line) and not is_aside
                message = line.message if is_reply else None
                reply_id = text_of(message.id) if isinstance(message, Message) else None
                yield from self._before(reply_id, deferred)
            self._fast.settle()
            if line.type == "assistant":
                self._fast.expect(_tools_of(line))
            yield entry
            if line.type == "assistant":
                data = bytes(entry.raw)
                self._answer_head = data[_HEAD_AT : data.find(_MESSAGE) + len(_MESSAGE)] or b"\n"
            elif line.type == "user" and not is_aside and not entry.copied:
                # Lines like a typical tool result say nothing new about the session.
                names_all = text_of(line.cwd) and text_of(line.session_id) and entry.at is not None
                blocks = content_blocks(line) if names_all else []
                if blocks and blocks[0].type == "tool_result":
                    self._template = template_of(bytes(entry.raw)) or self._template

    def _before(self, reply_id: str | None, deferred: Deferred) -> Iterator[Entry | Problem]:
        """Drop deferred results if a new reply begins, otherwise yield them decoded."""
        if reply_id is None or self._fast.is_open(reply_id):
            yield from self._read(deferred)
        else:
            yield from (each for each in deferred if isinstance(each, Entry))
            self._fast.drop(deferred.copy())
            deferred.clear()

    def _read(self, deferred: Deferred) -> Iterator[Entry | Problem]:
        self._fast.settle()
        for each in deferred:
            if isinstance(each, Entry):
                yield each
            elif (entry := self._decoded(each.number, each.raw)) is not None:
                yield entry
            else:
                yield from self._entry(each.raw, each.number)
        deferred.clear()


def _tools_of(line: Line) -> list[str]:
    """Return the ids of the tools that an answer calls."""
    return [
        id
        for block in content_blocks(line)
        if (text_of(block.type) or "").endswith("tool_use") and (id := text_of(block.id))
    ]


def template_of(raw: bytes) -> LineTemplate | None:
    """Return the template of a line with a tool result; None if it identifies no others."""
    head = raw[_HEAD_AT : raw.find(_RESULT) + len(_RESULT)]
    envelope = raw.rfind(_ENVELOPE)
    tail = raw[envelope:] if envelope >= _HEAD_AT + len(head) else b""
    is_known = raw.startswith(_BEGIN) and head.startswith(b'"') and head.endswith(_HANDS_OVER)
    # No object is nested before or after the message.
    is_flat = head.count(b"{") == 2 and tail.count(b"{") == 0 and tail.count(b"}") == bool(tail)  # noqa: PLR2004 - the message and its first block
    if is_known and is_flat and (_SESSION in head or _SESSION in tail):
        return LineTemplate(head, tail)
    return None
