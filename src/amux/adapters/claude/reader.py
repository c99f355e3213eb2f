"""Reads one transcript file: its session, and the sidechains that older versions wrote into it.

A file without a conversation is not a session (the agent was killed in the first turn, or the file
holds only titles of other sessions): it yields only facts with its title notes.

A pass without bodies can be resumed: its state at the end of the last whole line is serialized. A
last line without a line end contributes to the facts but not to that state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from os import SEEK_END
from typing import BinaryIO, Final

import msgspec

from amux.adapters._base import Checkpoint, Head, Item, Reading, SourceRef, Want, has_bodies
from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters.claude.conversation import Conversation, orphan_result
from amux.adapters.claude.lines import LineReader
from amux.adapters.claude.messages import WHOLE_LINES, Dialogue
from amux.adapters.claude.records import LINES, Entry
from amux.adapters.claude.transcript import AGENT_PREFIX, Transcript, TranscriptFacts, own_id
from amux.adapters.claude.usual_lines import UsualLines
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.usage import Purpose

OpenLines = Callable[[str], AbstractContextManager[BinaryIO]]


class TranscriptState(msgspec.Struct):
    """The state of a pass without bodies after `lines` lines."""

    lines: int
    transcript: Transcript


_STATES: Final = msgspec.msgpack.Decoder(TranscriptState)


def save(state: TranscriptState, offset: int) -> Checkpoint | None:
    """Serialize a state; None if that is impossible, as for a sum beyond 64 bits."""
    state.transcript.settle()
    try:
        return Checkpoint(offset=offset, state=msgspec.msgpack.encode(state))
    except (OverflowError, UnicodeEncodeError):
        return None


def restore(checkpoint: Checkpoint) -> TranscriptState | None:
    """Deserialize a state; None if it was written in another format."""
    try:
        return _STATES.decode(checkpoint.state)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class TranscriptReader:
    """One pass over one file, or over the lines that `open_lines` gives instead of the file."""

    def __init__(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        open_lines: OpenLines = open_stream,
    ) -> None:
        self._source = source
        self._only = only
        self._open = open_lines
        self._with_bodies = has_bodies(want)
        is_agent = source.role == "subagent"
        self._id = own_id(source)
        self._own_id = None if is_agent else self._id  # the lines of a sub-agent name its parent
        purpose: Purpose = "subagent" if is_agent else "main"
        self._transcript = Transcript(Conversation.begin(purpose))
        self._lines = LineReader(
            source.location,
            WHOLE_LINES if self._with_bodies else LINES,
            own_id=self._own_id,
            cut_texts=want != "all",
        )
        self._found: list[Problem] = []
        self._dialogues: dict[int | None, Dialogue | None] = {}
        self._sidechain_messages: dict[int, list[SessionMessage]] = {}  # keyed by sidechain number

    def items(self) -> Iterator[Item]:
        """Yield the items of the session, then those of its sidechains."""
        began = False
        for item in self._main_items():
            if not began and not isinstance(item, Problem):
                yield Head(session_id=self._id)
                began = True
            yield item
        session_facts = self._session_facts()
        if self._is_wanted(self._id):
            if self._transcript.main.call_state.has_messages and not began:
                yield Head(session_id=self._id)
            yield from _calls_and_facts(session_facts.main())
        for number in range(len(self._transcript.sidechains)):
            name = session_facts.sidechain_id(number)
            if self._is_wanted(name):
                yield Head(session_id=name)
                yield from self._sidechain_messages.get(number, ())
                yield from _calls_and_facts(session_facts.sidechain(number))

    def resume_read(self, checkpoint: Checkpoint | None) -> Reading:
        """Return the facts of the file, reading only what follows `checkpoint`."""
        state = None
        try:
            with self._open(self._source.location) as stream:
                self._resume(stream, checkpoint)
                self._consume(self._lines.whole_lines(stream))
            state = save(
                TranscriptState(self._lines.number, self._transcript), offset=self._lines.offset
            )
            self._consume(self._lines.last_line())
        except OSError as error:
            self._note(unreadable(self._source.path, error))
        self._note_ends()
        return Reading(facts=tuple(self._session_facts().facts()), checkpoint=state)

    def _resume(self, stream: BinaryIO, checkpoint: Checkpoint | None) -> None:
        """Restore the saved state, unless the file has shrunk: then it was rewritten."""
        state = None if checkpoint is None else restore(checkpoint)
        if checkpoint is None or state is None or stream.seek(0, SEEK_END) < checkpoint.offset:
            stream.seek(0)
            return
        stream.seek(checkpoint.offset)
        self._transcript = state.transcript
        self._lines.offset, self._lines.number = checkpoint.offset, state.lines

    def _main_items(self) -> Iterator[SessionMessage | Problem]:
        try:
            with self._open(self._source.location) as stream:
                yield from self._items_of(self._lines.whole_lines(stream))
            yield from self._items_of(self._lines.last_line())
        except OSError as error:
            self._note(unreadable(self._source.path, error))
        for number, dialogue in self._dialogues.items():
            if dialogue is not None:
                open_messages = dialogue.flush()
                if number is None:
                    yield from open_messages
                else:
                    self._sidechain_messages.setdefault(number, []).extend(open_messages)
        self._note_ends()
        yield from self._drain()

    def _items_of(self, lines: Iterator[Entry | Problem]) -> Iterator[SessionMessage | Problem]:
        """Yield the messages and problems of some lines, and store messages of sidechains."""
        if not self._with_bodies:
            yield from self._problems_of(lines)
            return
        for line in lines:
            if isinstance(line, Problem):
                self._note(line)
            else:
                yield from self._messages_of(line)
            if self._found:
                yield from self._drain()

    def _problems_of(self, lines: Iterator[Entry | Problem]) -> Iterator[Problem]:
        """Process some lines without bodies and yield their problems."""
        transcript, note, found = self._transcript, self._note, self._found
        self._lines.take_usual = UsualLines(transcript.main, self._own_id).take
        for line in lines:
            if isinstance(line, Problem):
                note(line)
            else:
                transcript.conversation(transcript.route(line)).take(line, note)
            if found:
                yield from self._drain()

    def _consume(self, lines: Iterator[Entry | Problem]) -> None:
        for _ in self._problems_of(lines):
            pass  # the transcript records each problem as well

    def _messages_of(self, entry: Entry) -> Sequence[SessionMessage]:
        number = self._transcript.route(entry)
        if number not in self._dialogues:
            name = self._id if number is None else self._session_facts().sidechain_id(number)
            conversation = self._transcript.conversation(number)
            self._dialogues[number] = Dialogue(conversation) if self._is_wanted(name) else None
        dialogue = self._dialogues[number]
        if dialogue is None:  # its messages are not requested
            self._transcript.conversation(number).take(entry, self._note)
            return ()
        messages = dialogue.take(entry, self._note)
        if number is None:
            return messages
        self._sidechain_messages.setdefault(number, []).extend(messages)
        return ()

    def _session_facts(self) -> TranscriptFacts:
        return TranscriptFacts(self._source, self._id, self._transcript)

    def _is_wanted(self, session_id: str) -> bool:
        return self._only in {None, session_id, f"{AGENT_PREFIX}{session_id}"}

    def _note_ends(self) -> None:
        """Report the problems that only the end of the file shows."""
        for line in self._transcript.unclaimed_results():
            self._note(orphan_result(line))
        if self._transcript.is_foreign:
            message = "no line of the file is a record of Claude Code"
            self._note(Problem(code="unknown-format", message=message))

    def _note(self, problem: Problem) -> None:
        located = msgspec.structs.replace(problem, path=self._source.location)
        self._found.append(located)
        self._transcript.note(located)

    def _drain(self) -> Iterator[Problem]:
        yield from self._found
        self._found.clear()


def _calls_and_facts(facts: Facts) -> Iterator[Item]:
    """Yield the calls of a session one by one, then the facts that contain them."""
    yield from facts.calls
    yield facts
