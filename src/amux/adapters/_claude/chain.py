"""One conversation, line by line: which lines begin messages, and which calls were made.

A `Chain` is the session of a file or one sidechain inside it. Everything that is counted or decided
happens here and is the same with and without bodies. An answer stays open until the next one (or a
prompt) begins; tool results and notices that come in between belong behind it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from amux.adapters._claude.bodies import Draft, Place, body_blocks, system_message, user_messages
from amux.adapters._claude.calls import CallBook
from amux.adapters._claude.prompts import (
    INTERRUPTED,
    WARM_UP,
    UserParts,
    command_title,
    is_compact_summary,
    split_user,
)
from amux.adapters._claude.records import (
    Block,
    Entry,
    Message,
    content_blocks,
    is_notice,
    text_of,
)
from amux.adapters._claude.unanswered import Unanswered
from amux.adapters._kit.times import to_millis
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import Mark, Trace, TraceBuilder, key_of
from amux.model.usage import Call, Purpose

WAITING_LIMIT: Final = 256
"""Messages that may wait behind an open answer before it is taken for complete."""


class Chain:
    """Collects one conversation; `take` gives back the messages that are complete."""

    def __init__(
        self,
        purpose: Purpose,
        *,
        with_bodies: bool,
        on_problem: Callable[[Problem], None],
    ) -> None:
        self.calls = CallBook()
        self.first_prompt: str | None = None
        self.first_command: str | None = None
        self.warm_up = False
        self.compactions = 0
        self.models: dict[str, None] = {}
        self._gaps: dict[str, None] = {}
        self._purpose: Purpose = purpose
        self._with_bodies = with_bodies
        self._on_problem = on_problem
        self._trace = TraceBuilder()
        self._identity = array("q")
        self._tool_names: dict[str, str] = {}
        self._open: str | None = None  # key of the answer whose lines may still come
        self._answer_id = ""  # and the id of its message
        self._draft: Draft | None = None
        self._waiting = 0
        self._last_mark = Mark.LINE  # of the last line that began a message
        self._last_message: str | None = None
        self._unanswered = Unanswered()
        self._boundary_seen = False
        self._message_of: dict[str, str] = {}  # line -> the message it belongs to or follows

    @property
    def has_messages(self) -> bool:
        """Whether there is a conversation at all."""
        return self._last_mark is not Mark.LINE

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is missing beyond what the calls themselves say."""
        open_ = self._unanswered
        # A sub-agent may end with tool results in order: when it has used up its turns.
        ends_early = open_.requested or (open_.pending and self._purpose == "main")
        if open_.cut_short or ends_early:
            return tuple({**self._gaps, "call-interrupted": None})
        return tuple(self._gaps)

    def take(self, entry: Entry) -> Sequence[SessionMessage]:
        """Enter one line; messages come out in the order in which they began."""
        match entry.type:
            case "assistant":
                return self._assistant(entry)
            case "user":
                return self._user(entry)
            case "system":
                return self._system(entry)
            case _:
                self._unanswered.see_record(entry.type)
                if entry.uuid is not None or entry.at is not None:
                    self._mark(entry, Mark.LINE)
                return ()

    def flush(self) -> Sequence[SessionMessage]:
        """The open answer and what waits behind it, now complete."""
        draft, key = self._draft, self._open
        self._draft, self._open, self._waiting = None, None, 0
        return () if draft is None or key is None else draft.finish(self.calls.tokens(key))

    def trace(self) -> Trace:
        """One record per line, more where a line holds several messages."""
        return self._trace.build()

    def identity(self) -> bytes:
        """Keys of the API messages: what a copy of this conversation shares with it."""
        return self._identity.tobytes()

    def settled_calls(self) -> tuple[Call, ...]:
        """The calls; those of a warm-up served no conversation."""
        return self.calls.settled("auxiliary" if self.warm_up else self._purpose)

    def _assistant(self, entry: Entry) -> Sequence[SessionMessage]:
        line = entry.line
        complete: Sequence[SessionMessage] = ()
        message = line.message if isinstance(line.message, Message) else Message()
        key = text_of(message.id) or text_of(line.request_id) or entry.id
        synthetic = is_notice(line)
        model = None if synthetic else text_of(message.model)
        if key == self._open:
            self._mark(entry, Mark.LINE, message_id=self._answer_id)
        else:
            complete = self.flush()
            self._open, self._answer_id = key, entry.id
            if self._with_bodies:
                self._draft = Draft(self._place(entry), model=model, synthetic=synthetic)
            self._mark(entry, Mark.NOTICE if synthetic else Mark.REPLY, message_id=entry.id)
            if text_of(message.id) is not None:
                self._identity.append(key_of(key))
        if not synthetic:
            self._bill(entry, key, model)
        self._learn_tool_names(content_blocks(line))
        if self._draft is not None:
            self._draft.add(body_blocks(entry))
        return complete

    def _bill(self, entry: Entry, key: str, model: str | None) -> None:
        if self.calls.take(key, entry, message_id=self._answer_id):
            return
        self._gaps["usage-not-recorded"] = None
        if model is not None:
            self.models[model] = None

    def _learn_tool_names(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            kind, call_id = text_of(block.type) or "", text_of(block.id)
            if kind.endswith("tool_use") and call_id is not None:
                self._tool_names[call_id] = text_of(block.name) or ""

    def _user(self, entry: Entry) -> Sequence[SessionMessage]:
        blocks = content_blocks(entry.line)
        warm_up = self._begins_warm_up(blocks)
        parts = split_user(entry.line, blocks, synthetic=warm_up)
        marks = parts.marks()
        complete = self.flush() if Mark.PROMPT in marks else ()
        self._learn_titles(parts)
        self._see_interruption(entry, parts)
        compaction = is_compact_summary(entry.line, parts)
        if compaction:
            self._see_summary(entry)
        names = [self._tool_name(entry, block) for block in parts.results]
        places = self._begin(entry, marks)
        messages: list[SessionMessage] = []
        if places:
            bodies = split_user(entry.line, body_blocks(entry), synthetic=warm_up)
            messages = user_messages(bodies, places, tool_names=names, compaction=compaction)
        return [*complete, *self._queue(messages, len(marks))]

    def _system(self, entry: Entry) -> Sequence[SessionMessage]:
        text = text_of(entry.line.content)
        if entry.line.subtype == "compact_boundary":
            self._count_compaction(entry)
            self._boundary_seen = True
        places = self._begin(entry, [Mark.INJECTED] if text else [])
        messages = [system_message(text, place) for place in places] if text else []
        return self._queue(messages, 1 if text else 0)

    def _begin(self, entry: Entry, marks: Sequence[Mark]) -> list[Place]:
        """Enter the marks of a line that is no answer; the places of its messages, if wanted."""
        if not marks:
            self._mark(entry, Mark.LINE)
            return []
        places = [self._place(entry)] if self._with_bodies else []
        for index, mark in enumerate(marks):
            message_id = entry.id if index == 0 else f"{entry.id}#{index}"
            if places and index > 0:
                places.append(Place(message_id, self._last_message, entry.at))
            self._mark(entry, mark, message_id=message_id)
        return places

    def _queue(self, messages: Sequence[SessionMessage], count: int) -> Sequence[SessionMessage]:
        """Messages that are no answers wait behind the open one, up to a bound."""
        if self._open is None:
            return messages
        self._waiting += count
        if self._draft is not None:
            self._draft.wait(messages)
        return self.flush() if self._waiting > WAITING_LIMIT else ()

    def _mark(self, entry: Entry, mark: Mark, *, message_id: str | None = None) -> None:
        self._trace.add(entry.key, to_millis(entry.at), mark)
        if mark is not Mark.LINE:
            self._last_mark = mark
            self._last_message = message_id
            self._unanswered.see_message(entry, mark, tools_at_work=bool(self._tool_names))
        if self._with_bodies and (owner := message_id or self._parent(entry)) is not None:
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

    def _begins_warm_up(self, blocks: Sequence[Block]) -> bool:
        if self._purpose != "subagent" or self.has_messages or len(blocks) != 1:
            return False
        text = text_of(blocks[0].text) or ""
        self.warm_up = text.strip() == WARM_UP
        return self.warm_up

    def _learn_titles(self, parts: UserParts[Block]) -> None:
        if self.first_prompt is None and parts.typed:
            self.first_prompt = fold_title(text_of(parts.typed[0].text) or "") or None
        if self.first_command is None and parts.injected:
            self.first_command = command_title(text_of(parts.injected[0].text) or "")

    def _see_interruption(self, entry: Entry, parts: UserParts[Block]) -> None:
        """A person stopped an answer: either its line is there, unfinished, or it was not kept."""
        named = text_of(entry.line.interrupted_message_id)
        if named is not None:
            self.calls.interrupt(named)
            return
        if not parts.injected or parts.injected[0].text != INTERRUPTED or entry.copied:
            return
        if self._last_mark in {Mark.PROMPT, Mark.TOOL}:
            self._gaps["call-interrupted"] = None

    def _see_summary(self, entry: Entry) -> None:
        """A summary follows its boundary; versions without boundaries have the summary alone."""
        if not self._boundary_seen:
            self._count_compaction(entry)
        self._boundary_seen = False

    def _count_compaction(self, entry: Entry) -> None:
        self.compactions += 1
        if not entry.copied:
            self._gaps["compaction-call-not-recorded"] = None

    def _tool_name(self, entry: Entry, block: Block) -> str:
        # A call has one result: forgetting answered calls keeps memory bounded.
        name = self._tool_names.pop(text_of(block.tool_use_id) or "", None)
        if name is None:
            message = "a tool result belongs to no call"
            self._on_problem(Problem(code="orphan-result", message=message, line=entry.number))
        return name or ""
