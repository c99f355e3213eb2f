"""Reads one chat file: an event log, a document, or a log as the specification describes it.

A log yields the whole conversation, not just the history the model sees: of a checkpoint only
messages without a record are used, and messages that a rewind dropped stay. A file without any
message is a stub (left by a resume, or by a start without a prompt) and not a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.fold import MAX_PROBLEMS, Unknowns
from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.jsonl import clean_line, read_records, unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import decode, items, moment, text
from amux.adapters.gemini.content import is_task
from amux.adapters.gemini.conversation import Conversation, UserTurn
from amux.adapters.gemini.directories import NamedPaths
from amux.adapters.gemini.records import (
    DOCUMENT,
    PATCH,
    RECORD,
    ChatMessage,
    Document,
    Patch,
    Record,
    message_of,
    type_of,
)
from amux.model.facts import Facts
from amux.model.incomplete import COMPACTION_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem

LARGEST_DOCUMENT: Final = 256 << 20
"""The size limit of a document, which has to be decoded in memory."""

_DELEGATED: Final = "subagent"
_NO_FORMAT: Final = frozenset({"bad-line", "bad-record", "torn-tail"})

FindDirectory = Callable[[str | None, Iterable[str] | None], str | None]
"""Returns the directory of the project with the given hash (None: no hash is recorded).

The second argument contains directories that may have the hash; if it is None, no chat is searched.
"""


class FileProblems:
    """Collects the problems of one file; beyond a limit they are only counted."""

    def __init__(self, path: Path) -> None:
        self.first: list[Problem] = []
        self.count = 0
        self._path = str(path)
        self._new: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Record a problem."""
        located = msgspec.structs.replace(problem, path=self._path)
        self._new.append(located)
        self.count += 1
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(located)

    def drain(self) -> Iterator[Problem]:
        """Yield the problems since the last call."""
        yield from self._new
        self._new.clear()

    def unknown_format(self, message: str) -> Iterator[Problem]:
        """Yield the problem of a file without records, unless the file is empty."""
        if any(problem.code in _NO_FORMAT for problem in self.first):
            self.add(Problem(code="unknown-format", message=message))
            yield from self.drain()


class ChatReader:
    """Reads one file in one pass."""

    def __init__(
        self,
        source: SourceRef,
        *,
        want: Want,
        injected: InjectedTexts,
        find_directory: FindDirectory,
        has_older_document: bool = False,
    ) -> None:
        self._source = source
        self._injected = injected
        self._find_directory = find_directory
        # A compression goes on in a new document, and a sub-agent may have one beside its session.
        self._has_older_document = has_older_document
        self._cut_texts = want != "all"
        self._log = source.path.name.split(".")[0]
        self._problems = FileProblems(source.path)
        self._head = Patch()
        self._is_agent = source.role == "subagent"
        self._hash: str | None = None
        self._started: datetime | None = None
        self._summary: str | None = None
        self._directories: list[Any] = []
        self._cwd: str | None = None
        self._rewinds = 0
        self._records = 0
        self._unknown = Unknowns()
        self._conversation = Conversation(
            bodies=has_bodies(want),
            delegated=self._is_agent,
            injected=injected,
            on_problem=self._problems.add,
        )

    def items(self) -> Iterator[Item]:
        """Yield the session of the file."""
        session_id: str | None = None
        for item in self._messages():
            if session_id is None and not isinstance(item, Problem):
                session_id = self._id_before_the_end()
                yield Head(session_id=session_id)
            yield item
        yield from self._close(session_id)

    def _id_before_the_end(self) -> str:
        """Return the session id of the file; if the first line is torn, a later line has it."""
        if text(self._head.session_id) is not None or self._source.session_id is not None:
            return self._session_id()
        whole = ChatReader(
            self._source,
            want="facts",
            injected=self._injected,
            find_directory=self._find_directory,
        )
        return next(one.session_id for one in whole.items() if isinstance(one, Facts))

    def _messages(self) -> Iterator[SessionMessage | Problem]:
        is_document = self._source.path.suffix == ".json"
        for messages in self._document() if is_document else self._lines():
            yield from messages
            yield from self._problems.drain()
        yield from self._conversation.flush()
        yield from self._problems.drain()

    def _lines(self) -> Iterator[Iterator[SessionMessage]]:
        for found in read_records(self._source.path, RECORD, cut_texts=self._cut_texts):
            if isinstance(found, Problem):
                self._problems.add(found)
                yield iter(())
            else:
                number, record, raw = found
                yield self._take(record, number, raw)

    def _document(self) -> Iterator[Iterator[SessionMessage]]:
        document = _read_document(self._source.path)
        if isinstance(document, Problem):
            self._problems.add(document)
            yield iter(())
            return
        self._take_head(document)
        records_kind = text(document.kind) is not None  # from 0.31
        if self._has_older_document and not records_kind and self._holds_only_a_task(document):
            self._become_agent()
        for number, raw in enumerate(items(document.messages), start=1):
            record = decode(bytes(raw), RECORD) if isinstance(raw, msgspec.Raw) else None
            if record is None:
                message = f"message {number} of the document has an unexpected shape"
                self._problems.add(Problem(code="bad-record", message=message))
            yield iter(()) if record is None else self._take(record, number, raw)

    def _take(self, record: Record, number: int, raw: object) -> Iterator[SessionMessage]:
        self._records += 1
        message = message_of(record, line=number, name=self._log)
        if message is not None:
            return self._conversation.take(message)
        if bytes(record.changes):
            return self._take_patch(record, number)
        if record.rewind_to is not None:
            self._rewinds += 1
        elif text(record.session_id) is not None and not type_of(record):
            self._take_head(record)
        elif type_of(record):
            self._unknown.take(type_of(record), raw)
        return iter(())

    def _take_head(self, record: Record) -> None:
        self._records += 1
        self._hash = text(record.project_hash) or self._hash
        self._patch(
            Patch(
                session_id=record.session_id,
                start_time=record.start_time,
                last_updated=record.last_updated,
                summary=record.summary,
                directories=record.directories,
                kind=record.kind,
            )
        )
        if self._cwd is None and self._conversation.named_paths is None:
            self._cwd = self._find_directory(self._hash, None)
            if self._cwd is None:
                self._conversation.named_paths = NamedPaths()

    def _take_patch(self, record: Record, number: int) -> Iterator[SessionMessage]:
        patch = decode(bytes(record.changes), PATCH)
        if patch is None:
            shape = "a `$set` record has an unexpected shape"
            self._problems.add(Problem(code="bad-record", message=shape, line=number))
            return iter(())
        self._patch(patch)
        if not isinstance(patch.messages, list):
            return iter(())
        history: list[ChatMessage] = []
        for index, raw in enumerate(patch.messages):
            inner = decode(bytes(raw), RECORD)
            name = f"{self._log}:{number}.{index}"
            message = None if inner is None else message_of(inner, line=number, name=name)
            if message is not None:
                history.append(message)
        return self._conversation.restore(history)

    def _patch(self, patch: Patch) -> None:
        head = self._head
        if text(head.session_id) is None:  # the record with the id also states the kind
            head.session_id = text(patch.session_id)
            head.kind = text(head.kind) or text(patch.kind)
            if head.kind == _DELEGATED:
                self._become_agent()
        self._summary = text(patch.summary) or self._summary
        self._directories = items(patch.directories) or self._directories
        started = moment(patch.start_time)
        if started is not None:  # written again on resume
            self._started = started if self._started is None else min(started, self._started)
        self._conversation.moment(moment(patch.last_updated) or started)

    def _become_agent(self) -> None:
        """Record that the file is the chat of a sub-agent."""
        self._is_agent = self._conversation.delegated = True

    def _holds_only_a_task(self, document: Document) -> bool:
        """Return whether a document begins with a sub-agent's task and no person speaks in it."""
        began = False
        for raw in items(document.messages):
            record = decode(bytes(raw), RECORD) if isinstance(raw, msgspec.Raw) else None
            message = None if record is None else message_of(record, line=0, name="")
            if message is not None and message.kind == "user":
                turn = UserTurn(message, self._injected, delegated=False)
                if turn.is_prompt or not (began or is_task(turn.text)):
                    return False
                began = True
        return began

    def _session_id(self) -> str:
        if self._source.session_id is not None:
            return self._source.session_id
        if self._is_agent:  # recorded in its parent's folder, under the parent's id
            return self._log
        return text(self._head.session_id) or self._log

    def _close(self, session_id: str | None) -> Iterator[Item]:
        conversation = self._conversation
        if not self._records:
            yield from self._problems.unknown_format("the file holds no record of a chat")
        known = session_id or self._session_id()
        if not conversation.is_conversation:
            yield self._stub(known)
            return
        if session_id is None:
            yield Head(session_id=known)
        yield from conversation.calls()
        yield self._facts(known)

    def _stub(self, session_id: str) -> Facts:
        trace = self._conversation.trace()
        return Facts(
            session_id=session_id,
            addressable=False,
            attributed=False,
            trace=trace,
            updated_at=self._conversation.latest if trace else None,
            problems=tuple(self._problems.first),
            problem_count=self._problems.count,
        )

    def _directory(self) -> str | None:
        """Return the directory of the project, else the first one that the file records."""
        if self._cwd is not None:
            return self._cwd
        recorded = [directory for one in self._directories if (directory := text(one))]
        named = self._conversation.named_paths
        paths = () if named is None else named.paths
        proved = self._find_directory(self._hash, (*recorded, *paths))
        return proved or next(iter(recorded), None)

    def _facts(self, session_id: str) -> Facts:
        conversation = self._conversation
        is_agent = self._is_agent
        parent = self._source.parent or text(self._head.session_id) if is_agent else None
        # A log has a checkpoint for each compaction, a document an empty notice or an older file.
        compactions = conversation.compactions
        if self._source.path.suffix == ".json":
            continued = self._has_older_document and not is_agent
            compactions = max(conversation.empty_notes, int(continued))
        if compactions:
            conversation.gaps[COMPACTION_NOT_RECORDED] = None
        raw = {
            "projectHash": self._hash,
            "directories": self._directories,
            "rewinds": self._rewinds,
            "safety": conversation.safety,
            **self._unknown.raw(),
        }
        return Facts(
            session_id=session_id,
            kind="subagent" if is_agent else "session",
            parent=parent,
            cwd=self._directory(),
            name=self._summary,
            first_prompt=conversation.first_prompt,
            fallback_title=conversation.command_title,
            created_at=self._started or conversation.earliest,
            updated_at=conversation.latest,
            addressable=not (is_agent and session_id == self._log and self._source.parent is None),
            trace=conversation.trace(),
            calls=conversation.calls(),
            models=tuple(conversation.models),
            fragment=not is_agent,
            rollout=self._log,
            compactions=compactions,
            gaps=tuple(conversation.gaps),
            problems=tuple(self._problems.first),
            problem_count=self._problems.count,
            raw={name: value for name, value in raw.items() if value},
        )


def _read_document(path: Path) -> Document | Problem:
    """Return the document, or the problem that prevents reading it."""
    try:
        with open_stream(path) as stream:
            data = stream.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        return unreadable(path, error)
    if len(data) > LARGEST_DOCUMENT:
        message = f"the document is larger than {LARGEST_DOCUMENT >> 20} MB and is not read"
        return Problem(code="unknown-format", message=message)
    if not clean_line(data):
        return Document()
    found = decode(data.removeprefix(b"\xef\xbb\xbf"), DOCUMENT)
    if found is None:
        return Problem(code="bad-line", message="the document is not valid JSON or not a chat")
    return found
