"""Records the most frequent lines of a transcript without the general rules.

Five of six lines belong to an answer of the model or hand over the result of one tool. For those
the rules of `Conversation` come down to a few assignments. This module makes them, with the same
effect on the conversation; any other line, and any line with an unusual field, is left to
`Conversation.take`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from sys import byteorder
from typing import Final

from amux.adapters.claude.calls import OpenCall, is_damaged
from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.records import SYNTHETIC_MODEL, Block, Line, Message, Usage
from amux.model.trace import LineKind, key_of

_LINE: Final = LineKind.LINE
_REPLY: Final = LineKind.REPLY
_TOOL: Final = LineKind.TOOL
_ONE_RESULT: Final = (_TOOL,)


class UsualLines:
    """Records usual lines in one conversation; `own_id` is that of `LineReader`."""

    __slots__ = ("_commands", "_description", "_has_begun", "_origin", "_own_id", "_state")

    def __init__(self, conversation: Conversation, own_id: str | None) -> None:
        self._origin = conversation.origin
        self._state = conversation.call_state
        self._description = conversation.description
        self._commands = conversation.description.commands
        self._own_id = own_id
        self._has_begun = False  # later lines say nothing new about the beginning

    def take(self, line: Line) -> bool:
        """Record a line; return False if it is left to `Conversation.take`."""
        message, uuid, stamp, version = line.message, line.uuid, line.timestamp, line.version
        own_id = self._own_id
        if (
            type(message) is not Message
            or type(uuid) is not str
            or type(stamp) is not str
            or type(version) is not str
            or not uuid
            or not version
            # The lines of a sidechain, of another session, and copies of those
            or (own_id is not None and (line.session_id != own_id or line.is_sidechain is True))
            or line.forked_from is not None
            or line.metadata is not None
            or not (self._has_begun or self._begins())
        ):
            return False
        try:
            at = datetime.fromisoformat(stamp)
        except ValueError:
            return False
        if at.tzinfo is not UTC:
            return False
        if line.type == "assistant":
            kind = self._take_answer(line, message, uuid, at)
        else:
            kind = self._take_result(message) if line.type == "user" else None
        if kind is None:
            return False
        self._origin.version = version
        description = self._description
        if description.updated is None or at > description.updated:
            description.updated = at
        description.envelope = (line.git_branch, line.entrypoint, line.slug)
        description.keys += key_of(uuid).to_bytes(8, byteorder)
        millis = round(at.timestamp() * 1000)
        description.times += millis.to_bytes(8, byteorder, signed=True)
        description.kinds.append(kind)
        return True

    def _begins(self) -> bool:
        self._has_begun = self._origin.own_lines and not self._origin.lacks_beginning
        return self._has_begun

    def _take_answer(
        self, line: Line, message: Message, uuid: str, at: datetime
    ) -> LineKind | None:
        """Record a line of an answer; return None for a line with anything unusual."""
        key, model, usage, content = message.id, message.model, message.usage, message.content
        if (
            type(key) is not str
            or type(model) is not str
            or type(usage) is not Usage
            or type(content) is not list
            or not key
            or not model
            or model == SYNTHETIC_MODEL
            or line.is_api_error_message
            or line.is_aborted_mid_stream
            or line.cost_usd is not None
        ):
            return None
        output = usage.output_tokens
        if type(output) is not int or is_damaged(usage):
            return None
        state, kind = self._state, _LINE
        if key != state.open:
            kind = _REPLY
            state.begin_reply(key, uuid)
            state.identity += key_of(key).to_bytes(8, byteorder)
            if self._commands.waiting is not None:
                self._commands.note_reply()
        self._origin.total_nusd = None
        call = state.book.calls.get(key)
        if call is None:
            call = state.book.calls[key] = OpenCall(state.answer_id, output)
        if call.has_last_word(output, stopped=message.stop_reason is not None):
            call.usage = usage
        call.model = model
        if call.at is None or at < call.at:
            call.at = at
        state.learn_tools(content, copied=False)
        return kind

    def _take_result(self, message: Message) -> LineKind | None:
        """Record the result of one open tool; return None for any other content."""
        content, state = message.content, self._state
        if type(content) is not list or len(content) != 1:
            return None
        block = content[0]
        if type(block) is not Block or block.type != "tool_result":
            return None
        id = block.tool_use_id
        if type(id) is not str or state.tools.names.pop(id, None) is None:
            return None
        state.tools.at_work.discard(id)
        state.begin_messages(_ONE_RESULT, copied=False)
        return _TOOL
