"""Reading an entry log: everything that was said, or what a resumed model would be given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.jsonl import Buffer, no_session, read_records
from amux.adapters._kit.values import count, moment, text
from amux.adapters.agent.entries import ENTRY, NEWEST, Entry, call_of, message_of, summary_message
from amux.model.facts import Facts, Kind
from amux.model.incomplete import COMPACTION_NOT_RECORDED, USAGE_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem, ProblemCode

_SEPARATOR: Final = re.compile(r"[/\\]")
_SUMMARY: Final = (
    "The conversation before this point was compacted into the following summary:"
    "\n\n<summary>\n{}\n</summary>"
)


def read_log(path: Path, *, bodies: bool) -> Iterator[Item]:
    """The one session of a file, whole: summaries stand between the messages."""
    log = _Log(path, bodies=bodies)
    for found in read_records(path, ENTRY):
        if isinstance(found, Problem):
            log.fold.problem(found)
            yield found
            continue
        number, entry, raw = found
        if (count(entry.version) or 0) > NEWEST and not log.has_begun:
            message = f"written in format version {entry.version}; the newest known is {NEWEST}"
            yield Problem(code="unknown-format", message=message, path=str(path), line=number)
            return
        yield from log.items(entry, number, raw)
    if log.has_begun:
        yield log.facts()
    else:
        yield from no_session(path, log.fold.problems)


class _Log:
    """What is known of the session so far."""

    def __init__(self, path: Path, *, bodies: bool) -> None:
        self.fold = Fold()
        self._path = path
        self._bodies = bodies
        self._header: Entry | None = None
        self._session_id: str | None = None
        self._kind: Kind = "session"
        self._parent: str | None = None
        self._compactions = 0
        self._unbilled = False
        self._calls: set[str] = set()
        self._ids: set[str] = set()
        self._unknown = Unknowns()

    @property
    def has_begun(self) -> bool:
        """Whether there was any line."""
        return self._session_id is not None

    def items(self, entry: Entry, number: int, raw: Buffer) -> Iterator[Item]:
        """What one line gives."""
        if self._session_id is None:
            is_header = entry.type == "session"
            self._header = entry if is_header else None
            self._session_id = (text(entry.id) if is_header else None) or self._path.stem
            yield Head(session_id=self._session_id)
        match entry.type:
            case "session":
                self.fold.moment(entry.at)
            case "message":
                yield from self._message(entry, number)
            case "compaction":
                self._compactions += 1
                yield from self._show(summary_message(entry, id=self._id(entry, number)))
            case "branch":
                yield from self._branch(entry, number)
            case other:
                self._unknown.take(str(other), raw)

    def _message(self, entry: Entry, number: int) -> Iterator[Item]:
        message = message_of(entry, id=self._id(entry, number))
        if message is None:
            yield self._problem("bad-record", "a message cannot be read", number)
            return
        self._calls.update(call.tool_call_id for call in message.tool_calls)
        result = message.tool_result
        if result is not None and result.tool_call_id not in self._calls:
            yield self._problem("orphan-result", "a tool result belongs to no call", number)
        yield from self._show(message)
        call = call_of(entry, id=message.id or "") if message.role == "assistant" else None
        if call is not None:
            self.fold.call(call)
            yield call
        elif message.role == "assistant" and not message.synthetic:
            self._unbilled = True

    def _branch(self, entry: Entry, number: int) -> Iterator[Item]:
        self._kind = "fork"
        self._parent = _stem_of_sibling(entry.parent_session_path)
        summary = text(entry.branch_summary)
        if summary is not None:
            yield from self._show(
                SessionMessage(
                    role="user",
                    content=summary,
                    timestamp=entry.at,
                    id=self._id(entry, number),
                    synthetic=True,
                )
            )

    def _show(self, message: SessionMessage) -> Iterator[Item]:
        if (
            message.parent_id == message.id or message.parent_id not in self._ids
        ):  # copies lose what was before them
            message = msgspec.structs.replace(message, parent_id=None)
        self.fold.message(message)
        if self._bodies:
            yield message

    def _id(self, entry: Entry, number: int) -> str:
        """The entry's id, which its copies in forks share; its line where it has none."""
        found = text(entry.id)
        id = f"{self._path.stem}:{number}" if found is None or found in self._ids else found
        self._ids.add(id)
        return id

    def _problem(self, code: ProblemCode, message: str, number: int) -> Problem:
        problem = Problem(code=code, message=message, path=str(self._path), line=number)
        self.fold.problem(problem)
        return problem

    def facts(self) -> Facts:
        """What it comes to; there was a line."""
        header = self._header or Entry()
        stem = self._path.stem
        gaps = {
            USAGE_NOT_RECORDED: self._unbilled,
            COMPACTION_NOT_RECORDED: self._compactions > 0,
        }
        return self.fold.facts(
            self._session_id or stem,
            aliases=() if stem == self._session_id else (stem,),
            kind=self._kind,
            parent=self._parent,
            cwd=text(header.cwd),
            created_at=moment(header.timestamp),
            compactions=self._compactions,
            gaps=tuple(reason for reason, holds in gaps.items() if holds),
            raw=self._unknown.raw() or None,
        )


def _stem_of_sibling(recorded: Any) -> str | None:
    """The name of the log a fork came from, by which that session goes as well.

    The fork records a path. Only its last part is used, and no file is opened: what a log says
    leads nowhere.
    """
    name = _SEPARATOR.split(text(recorded) or "")[-1]
    return (name.removesuffix(".jsonl") or None) if name.endswith(".jsonl") else None


def read_context(path: Path) -> tuple[list[SessionMessage], list[Problem]]:
    """What a resumed model is given: the last summary, and everything from the kept entry on."""
    problems: list[Problem] = []
    messages: list[SessionMessage] = []
    summary: SessionMessage | None = None
    kept = 0
    for found in read_records(path, ENTRY):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        number, entry, _ = found
        id = text(entry.id) or f"{path.stem}:{number}"
        if entry.type == "message":
            message = message_of(entry, id=id)
            messages += [] if message is None else [message]
        elif entry.type == "compaction":
            summary = _as_context(summary_message(entry, id=id))
            first = text(entry.first_kept_entry_id)
            places = [place for place, one in enumerate(messages) if one.id == first]
            kept = places[0] if places else len(messages)
            if not places:
                what = "a compaction keeps messages from an entry that is not there"
                problems.append(
                    Problem(code="bad-record", message=what, path=str(path), line=number)
                )
    return ([] if summary is None else [summary]) + messages[kept:], problems


def _as_context(summary: SessionMessage) -> SessionMessage:
    return msgspec.structs.replace(summary, content=_SUMMARY.format(summary.content))
