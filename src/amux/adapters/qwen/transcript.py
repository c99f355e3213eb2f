"""Reads one transcript: its conversation, its calls, and what its lines say about the session.

A transcript also records the calls of its sub-agents. Where such an agent has a file of its own,
they are given as a further part of that agent's session, so that a call the file lacks is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.adapters._kit.jsonl import read_records
from amux.adapters._kit.samples import Unknowns
from amux.adapters._kit.values import mapping, text
from amux.adapters.gemini.places import read_json
from amux.adapters.gemini.usage import Counts
from amux.adapters.qwen.calls import CallBook, FigureKeys, billed
from amux.adapters.qwen.conversation import Conversation
from amux.adapters.qwen.places import AGENT_PREFIX, agents_of, notes_of
from amux.adapters.qwen.records import IGNORED_SUBTYPES, LINES, MESSAGE_TYPES, Entry
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.usage import Call

_RESPONSE: Final = "api_response"
_ERROR: Final = "api_error"
_NO_FORMAT: Final = frozenset({"bad-line", "bad-record", "torn-tail"})


class TranscriptReader:
    """One pass over one file."""

    def __init__(self, source: SourceRef, *, want: Want, only: str | None) -> None:
        self._source = source
        self._cut_texts = want != "all"
        self._only = only
        self._id = source.session_id or source.path.stem
        self._is_agent = source.role == "subagent"
        self._about = _About()
        self._calls = CallBook(self._has_file)
        self._agent_calls: list[Call] = []
        self._figure_keys = FigureKeys()
        self._agent_model = self._model_of_agent()
        self._found: list[Problem] = []
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._records = 0
        self._conversation = Conversation(
            bodies=has_bodies(want) and only in (None, self._id),
            delegated=self._is_agent,
            bill=self._bill_agent if self._is_agent else self._calls.answer,
            on_problem=self._on_problem,
        )

    def items(self) -> Iterator[Item]:
        """The session of the file, then what it says of its sub-agents."""
        began = False
        for item in self._everything():
            if not began and not isinstance(item, Problem):
                yield Head(session_id=self._id)
                began = True
            yield item
        self._conversation.close()
        if self._only in (None, self._id):
            yield from self._finish(began=began)
        for agent, calls in self._calls.delegated.items():
            yield from self._agent_items(agent, tuple(calls))

    def _everything(self) -> Iterator[SessionMessage | Problem]:
        for found in read_records(self._source.path, LINES, cut_texts=self._cut_texts):
            if isinstance(found, Problem):
                self._on_problem(found)
            else:
                yield from self._take(Entry(*found, log=self._id))
            yield from self._drain()
        yield from self._conversation.flush()
        yield from self._drain()

    def _take(self, entry: Entry) -> Iterator[SessionMessage]:
        if entry.type in MESSAGE_TYPES or entry.type == "system":
            self._records += 1
        self._about.take(entry)
        if entry.type == "system" and entry.subtype == "ui_telemetry":
            self._take_event(entry)
        return self._conversation.take(entry)

    def _take_event(self, entry: Entry) -> None:
        event = mapping(entry.payload.get("uiEvent"))
        name = (text(event.get("event.name")) or "").rpartition(".")[2]
        if name == _RESPONSE:
            self._calls.event(entry, event)
        if name in {_RESPONSE, _ERROR} and event.get("subagent_name") is None:
            self._conversation.see_response()

    def _bill_agent(self, entry: Entry, counts: Counts, message_id: str) -> None:
        agent = self._id.removeprefix(AGENT_PREFIX)
        self._agent_calls.append(
            Call(
                key=self._figure_keys.next_key(agent, counts),
                model=text(entry.line.model) or self._agent_model,
                at=entry.at,
                tokens=billed(counts),
                purpose="subagent",
                message_id=message_id,
                gaps=counts.gaps,
            )
        )

    def _model_of_agent(self) -> str | None:
        """A sub-agent's lines do not say which model answers; the file beside them does."""
        if not self._is_agent:
            return None
        about = mapping(read_json(notes_of(self._source.path)))
        flags = mapping(about.get("persistedCliFlags"))
        return text(about.get("model")) or text(flags.get("model"))

    def _has_file(self, agent: str) -> bool:
        """Whether a sub-agent of this session has a file of its own."""
        if self._is_agent or "/" in agent or "\\" in agent or "\0" in agent:
            return False
        try:
            return (agents_of(self._source.path) / f"{AGENT_PREFIX}{agent}.jsonl").is_file()
        except OSError:  # the name is longer than a name of a file can be
            return False

    def _on_problem(self, problem: Problem) -> None:
        located = msgspec.structs.replace(problem, path=str(self._source.path))
        self._found.append(located)
        self._problem_count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(located)

    def _drain(self) -> Iterator[Problem]:
        yield from self._found
        self._found.clear()

    def _finish(self, *, began: bool) -> Iterator[Item]:
        if not self._records and any(one.code in _NO_FORMAT for one in self._problems):
            message = "no line of the file is a record of Qwen Code"
            self._on_problem(Problem(code="unknown-format", message=message))
            yield from self._drain()
        if not self._conversation.has_messages:
            yield self._stub()
            return
        if not began:
            yield Head(session_id=self._id)
        facts = self._facts()
        yield from facts.calls
        yield facts

    def _stub(self) -> Facts:
        """A file in which nobody said anything is no session."""
        return Facts(
            session_id=self._id,
            addressable=False,
            attributed=False,
            trace=self._conversation.trace(),
            updated_at=self._about.updated_at,
            problems=tuple(self._problems),
            problem_count=self._problem_count,
        )

    def _facts(self) -> Facts:
        about, conversation = self._about, self._conversation
        origin = None if self._is_agent or about.origin == self._id else about.origin
        return Facts(
            session_id=self._id,
            aliases=(self._id.removeprefix(AGENT_PREFIX),) if self._is_agent else (),
            kind="subagent" if self._is_agent else "fork" if origin else "session",
            parent=(self._source.parent or about.session_id) if self._is_agent else origin,
            cwd=about.cwd,
            name=about.title,
            first_prompt=conversation.first_prompt,
            fallback_title=about.command,
            created_at=about.created_at,
            updated_at=about.updated_at,
            version=about.version,
            archived=self._source.archived,
            trace=conversation.trace(),
            calls=tuple(self._agent_calls) if self._is_agent else self._calls.settled(),
            models=tuple(conversation.models),
            compactions=conversation.compactions,
            gaps=tuple(conversation.gaps),
            children=tuple(f"{AGENT_PREFIX}{agent}" for agent in self._calls.delegated),
            problems=tuple(self._problems),
            problem_count=self._problem_count,
            raw=about.raw(),
        )

    def _agent_items(self, agent: str, calls: tuple[Call, ...]) -> Iterator[Item]:
        name = f"{AGENT_PREFIX}{agent}"
        if self._only not in (None, name):
            return
        yield Head(session_id=name)
        yield from calls
        yield Facts(session_id=name, kind="subagent", parent=self._id, calls=calls)


class _About:
    """What the lines say about the session; the last word counts unless noted."""

    def __init__(self) -> None:
        self.cwd: str | None = None  # the first: a session may be resumed from elsewhere
        self.session_id: str | None = None
        self.version: str | None = None
        self.title: str | None = None
        self.origin: str | None = None
        self.command: str | None = None  # the first slash command: better than no title
        self.updated_at: datetime | None = None
        self._created: datetime | None = None
        self._earliest_copy: datetime | None = None
        self._branch: str | None = None
        self._raw: dict[str, Any] = {}
        self._unknown = Unknowns()

    @property
    def created_at(self) -> datetime | None:
        """The first record of the session's own; copied history is older."""
        return self._created or self._earliest_copy

    def take(self, entry: Entry) -> None:
        """Enter one line."""
        line = entry.line
        self.cwd = self.cwd or text(line.cwd)
        self.session_id = self.session_id or text(line.session_id)
        self.version = text(line.version) or self.version
        self._branch = text(line.git_branch) or self._branch
        self._see_time(entry)
        if entry.copied:
            self.origin = entry.origin or self.origin
        if entry.type == "system":
            self._take_system(entry)
        elif entry.type not in MESSAGE_TYPES:
            self._unknown.take(entry.type, entry.raw)

    def raw(self) -> dict[str, Any]:
        """What has no field of its own, kept small."""
        branch = {"gitBranch": self._branch} if self._branch else {}
        return branch | self._raw | self._unknown.raw()

    def _see_time(self, entry: Entry) -> None:
        if entry.at is None:
            return
        if not entry.copied:
            self._created = self._created or entry.at
        else:
            self._earliest_copy = self._earliest_copy or entry.at
        if self.updated_at is None or entry.at > self.updated_at:
            self.updated_at = entry.at

    def _take_system(self, entry: Entry) -> None:
        match entry.subtype:
            case "custom_title":
                self.title = text(entry.payload.get("customTitle")) or self.title
            case "parent_session":
                if parent := text(entry.payload.get("parentSessionId")):
                    self._raw["parentSession"] = parent
            case "slash_command":
                self.command = self.command or text(entry.payload.get("rawCommand"))
            case "rewind":
                self._raw["rewinds"] = self._raw.get("rewinds", 0) + 1
            case "ui_telemetry" | "chat_compression":
                pass
            case other if other not in IGNORED_SUBTYPES:
                self._unknown.take(f"system:{other}", entry.raw)
            case _:
                pass
