"""Reads one event log: a session and its sub-agents, which are recorded in the same file.

One pass over all lines collects the facts. Bodies take another pass per conversation, up to the
last line of the first pass, because the lines of sub-agents are mixed with those of their session.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.commands import TitlePrompt, is_command
from amux.adapters._kit.fold import Fold, Unknowns
from amux.adapters._kit.jsonl import no_session, read_records
from amux.adapters._kit.usage import usage_view
from amux.adapters._kit.values import mapping, moment, text
from amux.adapters.copilot.events import LINES, MESSAGE_EVENTS, Event, MessageBuilder, is_known
from amux.adapters.copilot.processes import ProcessUsage, is_reply
from amux.adapters.copilot.prompts import typed_text
from amux.adapters.copilot.usage import CallCollector
from amux.adapters.copilot.workspace import Workspace, read_workspace
from amux.model.facts import Facts
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import key_of

_DIRECTORY: Final = re.compile(r"^[ *]*Current working directory: *(\S.*?)\s*$", re.MULTILINE)
_FORKED: Final = re.compile(r"\(([0-9a-fA-F-]{36})\) as ")
_MAX_COPY_KEYS: Final = 32
_NO_LIMIT: Final = 1 << 62


def read_log(source: SourceRef, *, want: Want, only: str | None = None) -> Iterator[Item]:
    """Yield every session of one log; problems belong to the main session."""
    log = EventLog(source)
    log.read()
    if not log.is_session:
        yield from log.problems
        yield from no_session(source.path, log.problems)
        return
    workspace = read_workspace(source.path)
    for conversation in log.conversations.values():
        facts = log.facts(conversation, workspace)
        if only not in (None, facts.session_id):
            continue
        yield Head(session_id=facts.session_id)
        yield from facts.problems
        if has_bodies(want):
            cut = want != "all"
            yield from _messages(source.path, log, conversation, facts, cut_texts=cut)
        yield from facts.calls
        yield facts


def _messages(
    path: Path, log: EventLog, conversation: Conversation, facts: Facts, *, cut_texts: bool
) -> Iterator[SessionMessage]:
    """Yield the messages of one conversation, each with the usage of its call."""
    usage = {call.message_id: usage_view(call) for call in facts.calls}
    messages = MessageBuilder(is_subagent=conversation.agent is not None)
    for event in _events(path, until=log.last_line, cut_texts=cut_texts):
        if isinstance(event, Event) and event.agent == conversation.agent:
            message = messages.of_event(event)
            if message is not None:
                yield msgspec.structs.replace(message, token_usage=usage.get(message.id))


def _events(
    path: Path, *, until: int = _NO_LIMIT, cut_texts: bool = False
) -> Iterator[Event | Problem]:
    """Yield the events in the order of lines, an event that is written twice only once."""
    seen: set[int] = set()
    for found in read_records(path, LINES, cut_texts=cut_texts):
        if isinstance(found, Problem):
            yield found
            continue
        number, line, raw = found
        if number > until:
            return
        event = Event(number, line, raw)
        key = key_of(event.name)
        if key not in seen:
            seen.add(key)
            yield event


class Conversation:
    """The conversation of the main agent (`agent` is None) or of a sub-agent."""

    def __init__(self, agent: str | None, *, is_named: bool) -> None:
        is_subagent = agent is not None
        self.agent = agent
        self.is_named = is_named  # has its own id
        self.task: str | None = None
        self.identity = array("q")
        self.fold = Fold()
        self.collector = CallCollector(is_subagent=is_subagent)
        self.messages = MessageBuilder(is_subagent=is_subagent)
        self.title = TitlePrompt()
        self.earliest: datetime | None = None
        self.latest: datetime | None = None
        self.compactions = 0

    def take(self, event: Event, path: str, *, copied: bool) -> None:
        """Add one event."""
        self.collector.take(event, copied=copied)
        at = event.at
        self.fold.moment(at)
        if at is not None:
            self.earliest = at if self.earliest is None else min(self.earliest, at)
            self.latest = at if self.latest is None else max(self.latest, at)
        message = self.messages.of_event(event)
        if message is not None:
            self._add_message(message, event, path)
        elif event.type == "assistant.turn_start":
            self.title.answer()
        elif event.type == "subagent.started":
            data = event.data
            names = (data.agent_description, data.agent_display_name, data.agent_name)
            self.task = next(filter(None, map(text, names)), None)

    def _add_message(self, message: SessionMessage, event: Event, path: str) -> None:
        self.compactions += message.compaction
        self.fold.message(message)
        if message.role == "user" and not message.synthetic:
            self.title.prompt(message.content)
        elif message.role == "assistant" and not message.synthetic:
            self.title.answer()
        if event.id is not None and len(self.identity) < _MAX_COPY_KEYS:
            self.identity.append(key_of(event.id))
        if message.tool_result is not None and self.messages.is_orphan(message.tool_result):
            what = "a tool result belongs to no call"
            self.fold.problem(
                Problem(code="orphan-result", message=what, path=path, line=event.number)
            )


class EventLog:
    """Collects the events of one log."""

    def __init__(self, source: SourceRef) -> None:
        self.source = source
        self.session_id = source.session_id or source.path.stem
        self.conversations: dict[str | None, Conversation] = {}
        self.problems: list[Problem] = []
        self.last_line = 0
        self.is_session = False
        self._context: dict[str, Any] = {}
        self._started: datetime | None = None
        self._written_id: str | None = None
        self._version: str | None = None
        self._models: dict[str, None] = {}
        self._origin: str | None = None
        self._usage = ProcessUsage()
        self._named_directory: str | None = None  # in the system message
        self._unknown = Unknowns()

    def read(self) -> None:
        """Read all lines."""
        main = self.conversations[None] = Conversation(None, is_named=True)
        for found in _events(self.source.path, cut_texts=True):
            if isinstance(found, Problem):
                self.problems.append(found)
                main.fold.problem(found)
                self.last_line = max(self.last_line, found.line or 0)
            else:
                self.last_line = found.number
                self._take(found)
        self._usage.finish()
        for agent, call in self._usage.calls:
            self.conversations[agent].collector.add(call)
        for agent, replies in self._usage.covered.items():
            self.conversations[agent].collector.covered = replies

    def _take(self, event: Event) -> None:
        self.is_session |= event.type in MESSAGE_EVENTS or event.type == "session.start"
        if event.agent is None:
            self._take_session_event(event)
        copied = bool(self._started and event.at and event.at < self._started)
        self._usage.take(event, copied=copied)
        if is_known(event.type):
            known = self.conversations.get(event.agent)
            if known is None:
                known = Conversation(event.agent, is_named=event.names_agent)
                self.conversations[event.agent] = known
            known.take(event, str(self.source.path), copied=copied)
        elif event.type:
            self._unknown.take(event.type, event.raw)

    def _take_session_event(self, event: Event) -> None:
        """Collect the metadata of the session from an event of the main agent."""
        data = event.data
        match event.type:
            case "session.start":
                self._started = moment(data.start_time) or event.at
                self._written_id = text(data.session_id)
                self._version = text(data.copilot_version) or self._version
                self._context = mapping(data.context) or self._context
            case "session.resume":
                self._context = self._context or mapping(data.context)
            case "session.info" if data.info_type == "fork":
                self._read_origin(text(data.message) or "")
            case "system.message" if self._named_directory is None:
                found = _DIRECTORY.search(text(data.content) or "")
                self._named_directory = None if found is None else found[1]
            case "assistant.message" if model := text(data.model) or self._usage.selected.name:
                self._models.setdefault(model)
            case "tool.execution_complete" if model := text(data.model):
                self._models.setdefault(model)
            case _:
                pass

    def _read_origin(self, notice: str) -> None:
        """Read the origin of a fork from a notice, ignoring notices copied from the origin."""
        found = _FORKED.search(notice)
        if found is not None and f"({self.session_id})" in notice:
            self._origin = found[1] if found[1] != self.session_id else None

    # results

    def _parent(self) -> str | None:
        """Return the origin of a fork: named in a notice, or the session that was billed."""
        own = {self.session_id, self._written_id}
        sources = self.conversations[None].collector.sources
        foreign = [source for source in sources if source not in own]
        return self._origin or next(reversed(foreign), None)

    def facts(self, conversation: Conversation, workspace: Workspace) -> Facts:
        """Return the facts of one conversation."""
        parent = self._parent()
        born = self._started if parent is not None else None
        calls = conversation.collector.calls(copied_before=born)
        # The origin has its own record of a process that a fork saw only the beginning of.
        calls = tuple(call for call in calls if not (call.copied and is_reply(call)))
        for call in calls:
            conversation.fold.call(call)
        gaps = conversation.collector.gaps()
        if (
            self._usage.lacks_records
            and conversation.agent is None
            and USAGE_NOT_RECORDED not in gaps
        ):
            gaps = (*gaps, USAGE_NOT_RECORDED)
        known: dict[str, Any] = {
            "cwd": text(self._context.get("cwd")) or workspace.cwd or self._named_directory,
            "first_prompt": conversation.title.text,
            "version": self._version,
            "compactions": conversation.compactions,
            "gaps": gaps,
        }
        if conversation.agent is not None:
            return self._subagent(conversation, born, known)
        started, earliest = self._started, conversation.earliest
        has_older_lines = started is not None and earliest is not None and earliest < started
        return conversation.fold.facts(
            self.session_id,
            **known,
            kind="session" if parent is None else "fork",
            parent=parent,
            aliases=tuple({self._written_id} - {None, self.session_id}),
            name=_given_name(workspace, conversation.title.text, is_fork=parent is not None),
            fallback_title=typed_text(workspace.name or "") or None,
            created_at=self._started,
            models=None if calls else tuple(self._models),
            copy_keys=conversation.identity.tobytes(),
            unnamed_copies=parent is None and has_older_lines,
            children=tuple(agent for agent in self.conversations if agent is not None),
            raw=self._raw(workspace),
        )

    def _subagent(
        self, conversation: Conversation, born: datetime | None, known: dict[str, Any]
    ) -> Facts:
        latest = conversation.latest
        is_copy = born is not None and latest is not None and latest < born
        return conversation.fold.facts(
            conversation.agent or "",
            **known,
            kind="subagent",
            parent=self.session_id,
            name=conversation.task,
            addressable=conversation.is_named and not is_copy,
            copy_keys=conversation.identity.tobytes(),
        )

    def _raw(self, workspace: Workspace) -> dict[str, Any]:
        found: dict[str, Any] = {
            "gitRoot": text(self._context.get("gitRoot")) or workspace.git_root,
            "branch": text(self._context.get("branch")) or workspace.branch,
            "headCommit": text(self._context.get("headCommit")),
            "repository": text(self._context.get("repository")) or workspace.repository,
            **self._unknown.raw(),
        }
        return {name: value for name, value in found.items() if value}


def _given_name(workspace: Workspace, prompt: str, *, is_fork: bool) -> str | None:
    """Return the name of a session, unless the agent made it of the beginning of the prompt."""
    if workspace.name is None or workspace.user_named or is_fork:
        return workspace.name
    name = fold_title(typed_text(workspace.name).removesuffix("..."))
    return None if is_command(name) or prompt.startswith(name) else workspace.name
