"""The calls of one conversation, and which of their usage is missing.

All counting and deciding happens here, line by line. An answer stays open until the next answer or
a prompt begins; tool results and notices in between are queued behind it. The state is plain data,
so it can be serialized and resumed.

A call may have no answer: the agent was killed, or is still running. Claude Code writes an answer
when it is complete, and a failed call as a notice. Of a call that was cut short only the newest
versions record the request. In others it shows only if a file ends with tool results, because these
are sent to the model at once. A prompt alone does not prove a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from amux.adapters.claude.calls import CallBook
from amux.adapters.claude.prompts import (
    INTERRUPTED,
    WARM_UP,
    UserParts,
    is_compact_summary,
    split_user,
)
from amux.adapters.claude.records import (
    SYNTHETIC_MODEL,
    Block,
    Entry,
    Message,
    NotObject,
    content_blocks,
    packed,
    text_of,
)
from amux.adapters.claude.tools import OpenTools
from amux.model.incomplete import CALL_INTERRUPTED, COMPACTION_NOT_RECORDED, USAGE_NOT_RECORDED
from amux.model.trace import LineKind, key_of
from amux.model.usage import Purpose

WAITING_LIMIT: Final = 256
"""Number of messages queued behind an open answer after which it is considered complete."""

_LINE: Final = LineKind.LINE
_REPLY: Final = LineKind.REPLY
_NOTICE: Final = LineKind.NOTICE
_PROMPT: Final = LineKind.PROMPT
_TOOL: Final = LineKind.TOOL
_NO_MESSAGE: Final = Message()


class PendingCall(msgspec.Struct):
    """Tracks one conversation from tool results through the request to the answer."""

    cut_short: bool = False  # a recorded request was never answered
    state: Literal["idle", "tools-back", "requested"] = "idle"

    @property
    def is_pending(self) -> bool:
        """Whether the conversation ends where an answer should follow."""
        return self.state != "idle"

    @property
    def is_requested(self) -> bool:
        """Whether it ends with a recorded request."""
        return self.state == "requested"

    def note_record(self, kind: str) -> None:
        """Record a line that is not a message."""
        if kind == "api-request" and self.is_pending:
            self.state = "requested"
        elif kind == "cost-state":  # the process ended
            self.give_up()

    def give_up(self) -> None:
        """Record that an open request will get no answer."""
        self.cut_short |= self.is_requested
        self.state = "idle"


class UserLine(msgspec.Struct, gc=False):
    """The classified content of a user line."""

    parts: UserParts[Block]
    kinds: list[LineKind]  # one per message that the line begins
    tool_names: list[str | None]  # of its results; None if there is no such call so far
    orphans: list[int]  # lines of results that belong to no call, as is known now
    compaction: bool
    warm_up: bool
    after_result: bool  # the message before the line is a tool result


class CallState(msgspec.Struct):
    """The calls of one conversation and the current state of reading it."""

    purpose: Purpose
    book: CallBook = msgspec.field(default_factory=CallBook)
    models: dict[str, None] = {}  # models of answers without usage
    compactions: int = 0
    warm_up: bool = False
    open: str | None = None  # key of the answer that may get more lines
    answer_id: str = ""  # message id of that answer
    waiting: int = 0
    last_kind: LineKind = LineKind.LINE  # kind of the last line that began a message
    boundary_seen: bool = False
    seen_gaps: dict[str, None] = {}
    tools: OpenTools = msgspec.field(default_factory=OpenTools)
    pending_call: PendingCall = msgspec.field(default_factory=PendingCall)
    identity: bytearray = bytearray()
    """Keys of the API messages, 64 bits each, which copies of this conversation share."""

    @property
    def has_messages(self) -> bool:
        """Whether the file holds a conversation at all."""
        return self.last_kind is not _LINE

    @property
    def gaps(self) -> tuple[str, ...]:
        """Gaps in addition to those of the single calls."""
        pending = self.pending_call
        # A sub-agent that has used up its turns regularly ends with tool results.
        ends_early = pending.is_requested or (pending.is_pending and self.purpose == "main")
        if pending.cut_short or ends_early:
            return tuple({**self.seen_gaps, CALL_INTERRUPTED: None})
        return tuple(self.seen_gaps)

    def take_answer(self, entry: Entry) -> LineKind:
        """Record an assistant line; return the kind of the message it begins, or `LINE`."""
        line = entry.line
        message = line.message
        content = line.content
        if isinstance(message, Message):
            content = message.content
        else:
            message = _NO_MESSAGE
        key = message.id
        if not isinstance(key, str) or not key:
            key = text_of(line.request_id) or entry.id
        notice = message.model == SYNTHETIC_MODEL or line.is_api_error_message is True
        kind = _LINE
        if key != self.open:
            kind = _NOTICE if notice else _REPLY
            if notice:
                self._begin_notice(entry, key)
            else:
                self.begin_reply(key, entry.id)
            if key is message.id:
                self.identity += packed(key_of(key))
        if not notice and not self.book.take(key, entry, message, message_id=self.answer_id):
            self.seen_gaps[USAGE_NOT_RECORDED] = None
            if (model := text_of(message.model)) is not None:
                self.models[model] = None
        if isinstance(content, list):
            self.learn_tools(content, copied=entry.copied)
        return kind

    def take_user(self, entry: Entry) -> UserLine:
        """Record a user line."""
        line = entry.line
        blocks = content_blocks(line)
        warm_up = (
            self.purpose == "subagent"
            and not self.has_messages
            and len(blocks) == 1
            and (text_of(blocks[0].text) or "").strip() == WARM_UP
        )
        self.warm_up |= warm_up
        after_result = self.last_kind is _TOOL
        parts = split_user(line, blocks, synthetic=warm_up, after_result=after_result)
        kinds = parts.kinds()
        if _PROMPT in kinds:
            self._close()
        # A line with tool results is nothing else, whatever follows them.
        compaction = not parts.results and is_compact_summary(line, parts)
        if not parts.results:
            self._note_interruption(entry, parts)
        if compaction:
            if not self.boundary_seen:  # a summary after a boundary was counted with it
                self._count_compaction(entry)
            self.boundary_seen = False
        names: list[str | None] = []
        orphans: list[int] = []
        for block in parts.results:
            id = text_of(block.tool_use_id) or ""
            names.append(self.tools.take_result(id, entry.number, orphans))
        self.begin_messages(kinds, copied=entry.copied)
        return UserLine(parts, kinds, names, orphans, compaction, warm_up, after_result)

    def take_system(self, entry: Entry) -> list[LineKind]:
        """Record a system line; return the kinds of the messages it begins."""
        if entry.line.subtype == "compact_boundary":
            self._count_compaction(entry)
            self.boundary_seen = True
        kinds = [LineKind.INJECTED] if text_of(entry.line.content) else []
        self.begin_messages(kinds, copied=entry.copied)
        return kinds

    def take_record(self, entry: Entry) -> None:
        """Record a line that is not a message."""
        kind = entry.line.type
        if isinstance(kind, str):
            self.pending_call.note_record(kind)

    def _begin_notice(self, entry: Entry, key: str) -> None:
        self.open, self.answer_id, self.waiting = key, entry.id, 0
        self.last_kind = _NOTICE
        if entry.line.is_api_error_message is True:  # it takes the place of an answer
            self.pending_call.state = "idle"
        else:
            self.pending_call.give_up()  # on resume the agent closes what was open

    def begin_reply(self, key: str, message_id: str) -> None:
        """Begin an answer of the model: it has received the preceding tool results."""
        self.open, self.answer_id, self.waiting = key, message_id, 0
        self.last_kind = _REPLY
        self.tools.at_work.clear()
        self.pending_call.state = "idle"

    def begin_messages(self, kinds: Sequence[LineKind], *, copied: bool) -> None:
        """Queue messages behind the open answer, up to a limit."""
        if not kinds:
            return
        self.last_kind = kinds[-1]
        comes_back = self.last_kind is _TOOL and not copied and not self.tools.at_work
        self.pending_call.state = "tools-back" if comes_back else "idle"
        if self.open is not None:
            self.waiting += len(kinds)
            if self.waiting > WAITING_LIMIT:
                self._close()

    def _close(self) -> None:
        self.open, self.waiting = None, 0

    def learn_tools(self, content: Sequence[Block | NotObject], *, copied: bool) -> None:
        """Record the tool calls of an answer; all their results may have come before."""
        is_calling = False
        for block in content:
            if isinstance(block, Block) and isinstance(block.id, str) and block.id:
                kind = block.type
                if isinstance(kind, str) and kind.endswith("tool_use"):
                    is_calling = True
                    self.tools.call(block.id, text_of(block.name) or "")
        if is_calling:
            is_waiting = bool(self.tools.at_work) or copied
            self.pending_call.state = "idle" if is_waiting else "tools-back"

    def _note_interruption(self, entry: Entry, parts: UserParts[Block]) -> None:
        """Record that a person stopped an answer, whether or not its line was written."""
        named = text_of(entry.line.interrupted_message_id)
        if named is not None:
            self.book.interrupt(named)
            return
        if not parts.injected or parts.injected[0].text != INTERRUPTED or entry.copied:
            return
        if self.last_kind in {_PROMPT, _TOOL}:
            self.seen_gaps[CALL_INTERRUPTED] = None

    def _count_compaction(self, entry: Entry) -> None:
        self.compactions += 1
        if not entry.copied:
            self.seen_gaps[COMPACTION_NOT_RECORDED] = None
