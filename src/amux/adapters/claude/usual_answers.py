"""The short way for lines of answers as nearly all are: own, recorded, nothing odd about them.

What it does to a conversation is what `Ledger` and `Tally` do to it with any line; whatever is not
as usual is left to them. Which tools an answer called matters only if something depends on it
before the next answer begins: that is entered when somebody is about to look.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from amux.adapters.claude.calls import MOST_TOKENS, OpenCall
from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.records import SYNTHETIC_MODEL, moment_of, packed
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
        """The same in disjoint buckets."""
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
    """A line of a usual answer: of what an odd one has there is at most a null."""

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


class UsualAnswers:
    """Enters answers into the conversation of a file; `own_id` is that of `LineReader`."""

    __slots__ = ("_calls", "_contents", "_is_at_home", "_ledger", "_own_id", "_stamp", "_tally")

    def __init__(self, conversation: Conversation, own_id: str | None) -> None:
        self._ledger, self._tally = conversation.ledger, conversation.tally
        self._calls: dict[str, OpenCall] = self._tally.book.calls
        self._own_id = own_id
        self._is_at_home = False  # nothing new can be said of the session itself
        self._stamp = ""  # of the first line of the open answer, if others can be compared with it
        self._contents: list[list[_Block]] = []

    def decode(self, raw: memoryview) -> AnswerLine | None:
        """A line of a usual answer; None: it is something else, or needs a second look."""
        try:
            line = _LINES.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        if self._own_id is not None and (line.session_id != self._own_id or line.is_sidechain):
            return None
        is_odd = line.is_api_error_message or line.is_aborted_mid_stream
        return None if is_odd or line.message.model == SYNTHETIC_MODEL else line

    def is_open(self, message_id: str) -> bool:
        """Whether lines of this message came last."""
        return message_id == self._tally.open

    def take(self, line: AnswerLine) -> bool:
        """Enter a line; False: it is not as usual in this place."""
        if not (self._is_at_home or self._settles_in()):
            return False
        message, usage = line.message, line.message.usage
        call = self._calls.get(message.id)
        if (message.id == self._tally.open) is (call is None):  # its lines do not stand together
            return False
        if call is None:
            call = self._begin(line)
        elif not self._is_later(line.timestamp):
            return False
        self._ledger.version, self._ledger.total_nusd = line.version, None
        call.model = message.model
        if call.has_last_word(usage.output_tokens, stopped=message.stop_reason is not None):
            call.tokens, call.usage = usage.tokens(), None
        self._contents.append(message.content)
        return True

    def settle(self) -> None:
        """Enter what was put off."""
        if self._contents:
            for content in self._contents:
                for block in content:
                    if block.id and block.type.endswith("tool_use"):
                        self._tally.at_work.add(block.id)
            self._contents.clear()
        self._stamp = ""

    def _settles_in(self) -> bool:
        self._is_at_home = self._ledger.own_lines and not self._ledger.lacks_beginning
        return self._is_at_home

    def _is_later(self, stamp: str) -> bool:
        return stamp >= self._stamp and len(stamp) == len(self._stamp) and stamp[-1] == _UTC

    def _begin(self, line: AnswerLine) -> OpenCall:
        tally, key = self._tally, line.message.id
        tally.begin_reply(key, line.uuid)
        tally.identity += packed(key_of(key))
        self._contents.clear()
        call = self._calls[key] = OpenCall(line.uuid, line.message.usage.output_tokens)
        call.at = moment_of(line.timestamp)
        self._stamp = line.timestamp if call.at is not None and line.timestamp[-1] == _UTC else ""
        return call
