"""The messages of one conversation, in the order in which they began.

Which messages there are is decided in `tally`; this module puts them into their places. An answer
is held back until it is complete, and what waits behind it with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from amux.adapters.claude.bodies import (
    Draft,
    Place,
    body_blocks,
    system_message,
    user_messages,
    whole_parts,
)
from amux.adapters.claude.conversation import Conversation, OnProblem
from amux.adapters.claude.records import Entry, Message, text_of
from amux.adapters.claude.tally import UserLine
from amux.model.message import SessionMessage
from amux.model.trace import Mark


class Dialogue:
    """Follows a conversation and gives back the messages that are complete."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._draft: Draft | None = None
        self._key = ""  # of the call that the draft's answer belongs to
        self._last_message: str | None = None
        self._message_of: dict[str, str] = {}  # line -> the message it belongs to or follows

    def take(self, entry: Entry, on_problem: OnProblem) -> Sequence[SessionMessage]:
        """Enter one line."""
        found = self._conversation.take(entry, on_problem)
        if isinstance(found, UserLine):
            return self._user(entry, found)
        match entry.line.type:
            case "assistant":
                return self._assistant(entry, found[0])
            case "system":
                text = text_of(entry.line.content) or ""
                return self._queue([system_message(text, p) for p in self._begin(entry, found)])
            case _:
                if text_of(entry.line.uuid) is not None or entry.at is not None:
                    self._follow(entry)
                return ()

    def flush(self) -> Sequence[SessionMessage]:
        """The open answer and what waits behind it, now complete."""
        draft, self._draft = self._draft, None
        book = self._conversation.tally.book
        return () if draft is None else draft.finish(book.tokens(self._key))

    def _assistant(self, entry: Entry, mark: Mark) -> Sequence[SessionMessage]:
        complete: Sequence[SessionMessage] = ()
        tally = self._conversation.tally
        if mark is not Mark.LINE:
            complete = self.flush()
            self._key = tally.open or ""
            self._draft = _draft_of(entry, self._place(entry), mark)
            self._last_message = entry.id
        self._message_of.setdefault(entry.id, tally.answer_id)
        if self._draft is not None:
            self._draft.add(body_blocks(entry))
        return complete

    def _user(self, entry: Entry, user: UserLine) -> Sequence[SessionMessage]:
        complete = self.flush() if Mark.PROMPT in user.marks else ()
        places = self._begin(entry, user.marks)
        if not places:
            return complete
        parts = whole_parts(entry, user.parts, synthetic=user.warm_up)
        names = [name or "" for name in user.tool_names]
        messages = user_messages(parts, places, tool_names=names, compaction=user.compaction)
        return [*complete, *self._queue(messages)]

    def _begin(self, entry: Entry, marks: Sequence[Mark]) -> list[Place]:
        """The places of the messages that a line begins; it is no answer."""
        if not marks:
            self._follow(entry)
            return []
        places = [self._place(entry)]
        for index in range(1, len(marks)):
            places.append(Place(f"{entry.id}#{index}", places[-1].id, entry.at))
        self._last_message = places[-1].id
        self._message_of.setdefault(entry.id, entry.id)
        return places

    def _queue(self, messages: Sequence[SessionMessage]) -> Sequence[SessionMessage]:
        """Messages that are no answers wait behind the open one, if it is still open."""
        if self._draft is None:
            return messages
        self._draft.wait(messages)
        return self.flush() if self._conversation.tally.open is None else ()

    def _follow(self, entry: Entry) -> None:
        """A line that is no message: who follows it follows the message before it."""
        if (owner := self._parent(entry)) is not None:
            self._message_of.setdefault(entry.id, owner)

    def _place(self, entry: Entry) -> Place:
        return Place(entry.id, self._parent(entry), entry.at)

    def _parent(self, entry: Entry) -> str | None:
        """The message a line follows: chains run through lines that are no messages."""
        line = entry.line
        parent = line.parent_uuid
        if parent is None:
            parent = line.logical_parent_uuid
        if isinstance(parent, str):
            return self._message_of.get(parent)
        return None if parent is None else self._last_message


def _draft_of(entry: Entry, place: Place, mark: Mark) -> Draft:
    message = entry.line.message
    synthetic = mark is Mark.NOTICE
    model = text_of(message.model) if isinstance(message, Message) and not synthetic else None
    return Draft(place, model=model, synthetic=synthetic)
