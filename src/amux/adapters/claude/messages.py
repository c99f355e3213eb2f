"""Builds the messages of one conversation with their bodies, in the order in which they began.

`call_state` decides which messages there are; this module fills them from the raw lines and orders
them. An answer is a `Draft` until the next one begins, so that further blocks and tool results can
be added to it; messages that follow it are queued behind it. A tool result that came before its
call is `Unclaimed` until that call gives it a name; the messages after it wait, up to a limit.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from amux.adapters._kit.usage import tokens_view
from amux.adapters.claude.call_state import WAITING_LIMIT, UserLine
from amux.adapters.claude.conversation import Conversation, OnProblem
from amux.adapters.claude.prompts import UserParts, joined_text, split_user
from amux.adapters.claude.records import (
    AnyJson,
    Block,
    Entry,
    Line,
    Message,
    NotObject,
    content_blocks,
    decode_more,
    object_of,
    plain_text,
    text_of,
)
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.trace import LineKind
from amux.model.usage import Tokens


class AnswerText:
    """Joins the text blocks of an answer.

    Consecutive blocks are one text: a model cites by beginning a new block in mid-sentence. Texts
    with another block between them, such as thinking or a tool call, are separate paragraphs.
    """

    __slots__ = ("_is_apart", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_apart = False

    def add(self, text: str | None) -> None:
        """Add a text block."""
        if text:
            if self._is_apart and self._pieces:
                self._pieces.append("\n\n")
            self._pieces.append(text)
            self._is_apart = False

    def part(self) -> None:
        """Record a block of any other kind."""
        self._is_apart = True

    def __str__(self) -> str:
        """Return the joined text."""
        return "".join(self._pieces)


_IMAGE_TYPE: Final = re.compile(r"image/[\w.+-]{1,40}")


class BodyBlock(Block, gc=False):
    """A content block with everything a message shows."""

    thinking: AnyJson = None
    input: AnyJson = None
    content: AnyJson = None
    is_error: AnyJson = None
    source: AnyJson = None


Body = str | int | float | bool | list[BodyBlock | NotObject] | dict[str, Any] | None


_MESSAGE: Final = msgspec.defstruct(
    "BodyMessage", [("content", Body, None)], bases=(Message,), gc=False
)
_LINE: Final = msgspec.defstruct(
    "BodyLine",
    [("message", _MESSAGE | NotObject, None), ("content", Body, None)],
    bases=(Line,),
    rename="camel",
    gc=False,
)
WHOLE_LINES: Final = msgspec.json.Decoder(cast("type[Line]", _LINE))
"""Decodes the lines of `LINES` together with the bodies of their blocks."""


class MessageHeader(msgspec.Struct, frozen=True, gc=False):
    """The id, the preceding message and the time of a message."""

    id: str
    parent_id: str | None
    at: datetime | None


def body_blocks(entry: Entry) -> list[BodyBlock]:
    """Return the blocks of a line, without their bodies if those cannot be decoded."""
    line = entry.line
    if not isinstance(line, _LINE) and plain_text(line) is None:  # plain text may be 50 MB
        line = decode_more(entry.raw, WHOLE_LINES) or line
    return [
        block
        if isinstance(block, BodyBlock)
        else BodyBlock(block.type, block.text, block.id, block.name, block.tool_use_id)
        for block in content_blocks(line)
    ]


def user_messages(
    parts: UserParts[BodyBlock],
    headers: Sequence[MessageHeader],
    *,
    tool_names: Sequence[str],
    compaction: bool,
) -> list[SessionMessage]:
    """Return the messages of one user line, in the order of its kinds."""
    messages: list[SessionMessage] = []
    for kind, header in zip(parts.kinds(), headers, strict=True):
        if kind is LineKind.TOOL:
            index = len(messages)
            messages.append(_tool_message(parts.results[index], tool_names[index], header))
            continue
        typed = kind is LineKind.PROMPT
        blocks = parts.typed if typed else parts.injected
        with_images = typed or not parts.is_prompt
        messages.append(
            SessionMessage(
                role="user",
                content=joined_text(blocks),
                timestamp=header.at,
                id=header.id,
                parent_id=header.parent_id,
                synthetic=not typed,
                images=_data_urls(parts.images) if with_images else (),
                compaction=compaction and not typed,
            )
        )
    return messages


def _tool_message(block: BodyBlock, tool_name: str, header: MessageHeader) -> SessionMessage:
    return SessionMessage(
        role="tool",
        content=result_text(block.content),
        timestamp=header.at,
        id=header.id,
        parent_id=header.parent_id,
        tool_result=ToolResult(
            tool_call_id=text_of(block.tool_use_id) or "",
            tool_name=tool_name,
            output=block.content,
            is_error=block.is_error is True,
        ),
    )


class Unclaimed:
    """A tool result whose call has not come yet."""

    __slots__ = ("message", "waits")

    def __init__(self, message: SessionMessage) -> None:
        self.message = message
        self.waits = True

    def name(self, tool_name: str) -> ToolResult | None:
        """Add the name of the tool; return the result."""
        result = self.message.tool_result
        if result is not None:
            result = msgspec.structs.replace(result, tool_name=tool_name)
            self.message = msgspec.structs.replace(self.message, tool_result=result)
        self.waits = False
        return result


Queued = SessionMessage | Unclaimed


class Draft:
    """An answer that may still get more lines, and the messages queued behind it."""

    def __init__(self, header: MessageHeader, *, model: str | None, synthetic: bool) -> None:
        self._header = header
        self._model = model
        self._synthetic = synthetic
        self._text = AnswerText()
        self._thinking: list[str] = []
        self._calls: list[SessionToolCall] = []
        self._answers: dict[str, tuple[Any, bool]] = {}
        self._behind: list[Queued] = []

    def add(self, blocks: Sequence[BodyBlock]) -> None:
        """Add the blocks of one line."""
        for block in blocks:
            kind = text_of(block.type) or ""
            if kind == "text":
                self._text.add(text_of(block.text))
                continue
            self._text.part()
            if kind == "thinking":
                self._thinking.append(text_of(block.thinking) or "")
            elif kind.endswith("tool_use"):
                id, name = text_of(block.id) or "", text_of(block.name) or ""
                call = SessionToolCall(tool_call_id=id, tool_name=name, input=block.input)
                self._calls.append(call)
            elif kind.endswith("tool_result"):  # the result of a tool that ran on the server
                self._answer(text_of(block.tool_use_id), block.content, failed=False)

    def wait(self, messages: Sequence[Queued]) -> None:
        """Queue messages behind the answer; tool results also complete its tool calls."""
        for message in messages:
            result = (message.message if isinstance(message, Unclaimed) else message).tool_result
            if result is not None:
                self.complete(result)
        self._behind.extend(messages)

    def complete(self, result: ToolResult) -> None:
        """Add the result of a tool call."""
        self._answer(result.tool_call_id, result.output, failed=result.is_error is True)

    def _answer(self, call_id: str | None, output: Any, *, failed: bool) -> None:
        if call_id is not None:
            self._answers[call_id] = (output, failed)

    def finish(self, usage: Tokens | None) -> list[Queued]:
        """Return the answer and the messages queued behind it."""
        answer = SessionMessage(
            role="assistant",
            content=str(self._text),
            timestamp=self._header.at,
            tool_calls=tuple(self._answered(call) for call in self._calls),
            token_usage=None if usage is None else tokens_view(usage),
            thinking="\n\n".join(text for text in self._thinking if text) or None,
            model=self._model,
            id=self._header.id,
            parent_id=self._header.parent_id,
            synthetic=self._synthetic,
        )
        return [answer, *self._behind]

    def _answered(self, call: SessionToolCall) -> SessionToolCall:
        if call.tool_call_id not in self._answers:
            return call
        output, failed = self._answers[call.tool_call_id]
        return msgspec.structs.replace(call, output=output, is_error=failed)


def result_text(content: AnyJson) -> str:
    """Return the readable text of a tool result."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [text_of(object_of(block).get("text")) for block in content]
    return "\n".join(text for text in texts if text)


def _data_urls(blocks: Sequence[BodyBlock]) -> tuple[str, ...]:
    urls: list[str] = []
    for block in blocks:
        source = object_of(block.source)
        media, data = source.get("media_type"), source.get("data")
        if isinstance(media, str) and isinstance(data, str) and _IMAGE_TYPE.fullmatch(media):
            urls.append(f"data:{media};base64,{data}")
    return tuple(urls)


class Dialogue:
    """Follows a conversation and returns its messages as they are completed."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._draft: Draft | None = None
        self._key = ""  # key of the call that produced the draft
        self._last_message: str | None = None
        self._message_of: dict[str, str] = {}  # line id -> message it belongs to or follows
        self._unclaimed: dict[str, Unclaimed] = {}  # those that wait, by tool call id
        self._marked = 0  # number of results that were not returned since they were unclaimed
        self._held: deque[Queued] = deque()  # an unclaimed result, and the messages after it

    def take(self, entry: Entry, on_problem: OnProblem) -> Sequence[SessionMessage]:
        """Process one line; return the messages it completes."""
        return self._released(self._take(entry, on_problem))

    def flush(self) -> Sequence[SessionMessage]:
        """Complete the open answer; return it and all messages that wait."""
        for unclaimed in self._unclaimed.values():
            unclaimed.waits = False
        return self._released(self._complete_draft())

    def _take(self, entry: Entry, on_problem: OnProblem) -> Sequence[Queued]:
        found = self._conversation.take(entry, on_problem)
        if isinstance(found, UserLine):
            return self._user(entry, found)
        match entry.line.type:
            case "assistant":
                return self._assistant(entry, found[0])
            case "system":
                notices = [
                    SessionMessage(  # a compaction boundary or a command echo
                        role="system",
                        content=text_of(entry.line.content) or "",
                        timestamp=header.at,
                        id=header.id,
                        parent_id=header.parent_id,
                        synthetic=True,
                    )
                    for header in self._begin(entry, found)
                ]
                return self._queue(notices)
            case _:
                if text_of(entry.line.uuid) is not None or entry.at is not None:
                    self._follow(entry)
                return ()

    def _released(self, messages: Sequence[Queued]) -> Sequence[SessionMessage]:
        """Return the messages that no unclaimed result precedes; hold the others."""
        if not self._marked:  # nearly always
            return cast("Sequence[SessionMessage]", messages)
        held = self._held
        held.extend(messages)
        released: list[SessionMessage] = []
        while held:
            first = held[0]
            if isinstance(first, Unclaimed):
                if first.waits and len(held) <= WAITING_LIMIT:
                    break
                self._marked -= 1
                self._give_up(first)
                first = first.message
            released.append(first)
            held.popleft()
        return released

    def _give_up(self, unclaimed: Unclaimed) -> None:
        """Stop waiting for the call of a result."""
        result = unclaimed.message.tool_result
        if result is not None and self._unclaimed.get(result.tool_call_id) is unclaimed:
            del self._unclaimed[result.tool_call_id]

    def _complete_draft(self) -> Sequence[Queued]:
        draft, self._draft = self._draft, None
        book = self._conversation.call_state.book
        return () if draft is None else draft.finish(book.tokens(self._key))

    def _assistant(self, entry: Entry, kind: LineKind) -> Sequence[Queued]:
        complete: Sequence[Queued] = ()
        call_state = self._conversation.call_state
        if kind is not LineKind.LINE:
            complete = self._complete_draft()
            self._key = call_state.open or ""
            message, synthetic = entry.line.message, kind is LineKind.NOTICE
            model = text_of(message.model) if isinstance(message, Message) else None
            self._draft = Draft(
                self._header(entry), model=None if synthetic else model, synthetic=synthetic
            )
            self._last_message = entry.id
        self._message_of.setdefault(entry.id, call_state.answer_id)
        if self._draft is not None:
            blocks = body_blocks(entry)
            self._draft.add(blocks)
            if self._unclaimed:
                self._match_results(self._draft, blocks)
        return complete

    def _match_results(self, draft: Draft, blocks: Sequence[BodyBlock]) -> None:
        """Give the results that came before their calls to these calls."""
        for block in blocks:
            if (text_of(block.type) or "").endswith("tool_use"):
                unclaimed = self._unclaimed.pop(text_of(block.id) or "", None)
                result = None if unclaimed is None else unclaimed.name(text_of(block.name) or "")
                if result is not None:
                    draft.complete(result)

    def _user(self, entry: Entry, user: UserLine) -> Sequence[Queued]:
        complete = self._complete_draft() if LineKind.PROMPT in user.kinds else ()
        headers = self._begin(entry, user.kinds)
        if not headers:
            return complete
        if isinstance(entry.line, _LINE):  # it was decoded with bodies
            parts = cast("UserParts[BodyBlock]", user.parts)
        else:
            blocks, after_result = body_blocks(entry), user.after_result
            parts = split_user(
                entry.line, blocks, synthetic=user.warm_up, after_result=after_result
            )
        names = [name or "" for name in user.tool_names]
        messages = user_messages(parts, headers, tool_names=names, compaction=user.compaction)
        queued = messages if None not in user.tool_names else self._note_unclaimed(messages, user)
        return [*complete, *self._queue(queued)]

    def _note_unclaimed(
        self, messages: Sequence[SessionMessage], user: UserLine
    ) -> Sequence[Queued]:
        """Return the messages of a line; those of results whose calls have not come are marked."""
        queued: list[Queued] = [*messages]
        for index, name in enumerate(user.tool_names):
            result = messages[index].tool_result
            if name is None and result is not None and result.tool_call_id:
                if (repeated := self._unclaimed.get(result.tool_call_id)) is not None:
                    repeated.waits = False
                unclaimed = self._unclaimed[result.tool_call_id] = Unclaimed(messages[index])
                queued[index] = unclaimed
                self._marked += 1
        return queued

    def _begin(self, entry: Entry, kinds: Sequence[LineKind]) -> list[MessageHeader]:
        """Return the headers of the messages that a user or system line begins."""
        if not kinds:
            self._follow(entry)
            return []
        headers = [self._header(entry)]
        for index in range(1, len(kinds)):
            headers.append(MessageHeader(f"{entry.id}#{index}", headers[-1].id, entry.at))
        self._last_message = headers[-1].id
        self._message_of.setdefault(entry.id, entry.id)
        return headers

    def _queue(self, messages: Sequence[Queued]) -> Sequence[Queued]:
        """Queue messages behind the open answer; return those that are complete."""
        if self._draft is None:
            return messages
        self._draft.wait(messages)
        return self._complete_draft() if self._conversation.call_state.open is None else ()

    def _follow(self, entry: Entry) -> None:
        """Map a line that is not a message to the message before it."""
        if (owner := self._parent(entry)) is not None:
            self._message_of.setdefault(entry.id, owner)

    def _header(self, entry: Entry) -> MessageHeader:
        return MessageHeader(entry.id, self._parent(entry), entry.at)

    def _parent(self, entry: Entry) -> str | None:
        """Return the message that a line follows, across lines that are not messages."""
        line = entry.line
        parent = line.parent_uuid
        if parent is None:
            parent = line.logical_parent_uuid
        if isinstance(parent, str):
            return self._message_of.get(parent)
        return None if parent is None else self._last_message
