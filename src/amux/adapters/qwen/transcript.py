"""Reads one transcript: its conversation, its calls, and the metadata of its session.

A transcript also records the calls of its sub-agents. If a sub-agent has its own file, these calls
are yielded as another part of the sub-agent's session, so that a call missing in the file counts.

All counts are equal with and without bodies. An answer stays open until the next message begins,
because a sub-agent's answer has its usage in one line and its tool calls in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.commands import can_name_session
from amux.adapters._kit.fold import Unknowns
from amux.adapters._kit.injected import InjectedTexts
from amux.adapters._kit.jsonl import read_records
from amux.adapters._kit.usage import tokens_view
from amux.adapters._kit.values import document, items, mapping, text, to_millis
from amux.adapters.gemini.chat import FileProblems
from amux.adapters.gemini.content import (
    CallPart,
    UserTexts,
    has_failed,
    response_text,
    split_parts,
    split_user_texts,
    tool_call,
)
from amux.adapters.gemini.directories import read_json
from amux.adapters.gemini.records import Counts
from amux.adapters.qwen import AGENT_PREFIX, metadata_path, subagents_folder
from amux.adapters.qwen.calls import CallBook, FigureKeys, billed, usage_of
from amux.adapters.qwen.injected import INJECTED_TEXTS
from amux.adapters.qwen.records import IGNORED_SUBTYPES, LINES, MESSAGE_TYPES, Entry
from amux.model.facts import Facts
from amux.model.incomplete import CALL_INTERRUPTED, USAGE_NOT_RECORDED
from amux.model.message import SessionMessage, ToolResult
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, Trace, TraceBuilder, key_of
from amux.model.usage import Call

_INJECTED: Final = InjectedTexts(INJECTED_TEXTS)
_RESPONSE: Final = "api_response"
_ERROR: Final = "api_error"

_CANCELLED = frozenset({"cancelled", "canceled"})

Bill = Callable[[Entry, Counts, str], None]
"""Records the usage of an answer: takes its line, its token counts and the id of its message."""


class TranscriptReader:
    """Reads one file in one pass."""

    def __init__(self, source: SourceRef, *, want: Want, only: str | None) -> None:
        self._source = source
        self._cut_texts = want != "all"
        self._only = only
        self._id = source.session_id or source.path.stem
        self._is_agent = source.role == "subagent"
        self._info = _SessionInfo()
        self._calls = CallBook(self._has_file)
        self._agent_calls: list[Call] = []
        self._figure_keys = FigureKeys()
        # Only the metadata file of a sub-agent names its model.
        metadata = mapping(read_json(metadata_path(source.path))) if self._is_agent else {}
        flags = mapping(metadata.get("persistedCliFlags"))
        self._agent_model = text(metadata.get("model")) or text(flags.get("model"))
        self._problems = FileProblems(source.path)
        self._records = 0
        self._conversation = Conversation(
            bodies=has_bodies(want) and only in (None, self._id),
            delegated=self._is_agent,
            bill=self._bill_agent if self._is_agent else self._calls.answer,
            on_problem=self._problems.add,
        )

    def items(self) -> Iterator[Item]:
        """Yield the session of the file, then the calls of its sub-agents."""
        began = False
        for item in self._messages():
            if not began and not isinstance(item, Problem):
                yield Head(session_id=self._id)
                began = True
            yield item
        self._conversation.close()
        if self._only in (None, self._id):
            yield from self._finish(began=began)
        for agent, calls in self._calls.delegated.items():
            name = f"{AGENT_PREFIX}{agent}"
            if self._only in (None, name):
                yield Head(session_id=name)
                yield from calls
                yield Facts(session_id=name, kind="subagent", parent=self._id, calls=tuple(calls))

    def _messages(self) -> Iterator[SessionMessage | Problem]:
        for found in read_records(self._source.path, LINES, cut_texts=self._cut_texts):
            if isinstance(found, Problem):
                self._problems.add(found)
            else:
                entry = Entry(*found, log=self._id)
                if entry.type in MESSAGE_TYPES or entry.type == "system":
                    self._records += 1
                self._info.take(entry)
                if entry.type == "system" and entry.subtype == "ui_telemetry":
                    self._take_event(entry)
                yield from self._conversation.take(entry)
            yield from self._problems.drain()
        yield from self._conversation.flush()
        yield from self._problems.drain()

    def _take_event(self, entry: Entry) -> None:
        event = mapping(entry.payload.get("uiEvent"))
        name = (text(event.get("event.name")) or "").rpartition(".")[2]
        if name == _RESPONSE:
            self._calls.event(entry, event)
        if name in {_RESPONSE, _ERROR} and event.get("subagent_name") is None:
            self._conversation.is_waiting = False

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

    def _has_file(self, agent: str) -> bool:
        """Return whether a sub-agent of this session has its own file."""
        if self._is_agent or "/" in agent or "\\" in agent or "\0" in agent:
            return False
        try:
            return (subagents_folder(self._source.path) / f"{AGENT_PREFIX}{agent}.jsonl").is_file()
        except OSError:  # the id is too long for a file name
            return False

    def _finish(self, *, began: bool) -> Iterator[Item]:
        if not self._records:
            message = "no line of the file is a record of Qwen Code"
            yield from self._problems.unknown_format(message)
        if not self._conversation.has_messages:
            yield self._stub()
            return
        if not began:
            yield Head(session_id=self._id)
        facts = self._facts()
        yield from facts.calls
        yield facts

    def _stub(self) -> Facts:
        """Return facts that define no session, for a file without messages."""
        return Facts(
            session_id=self._id,
            addressable=False,
            attributed=False,
            trace=self._conversation.trace(),
            updated_at=self._info.updated_at,
            problems=tuple(self._problems.first),
            problem_count=self._problems.count,
        )

    def _facts(self) -> Facts:
        info, conversation = self._info, self._conversation
        origin = None if self._is_agent or info.origin == self._id else info.origin
        return Facts(
            session_id=self._id,
            aliases=(self._id.removeprefix(AGENT_PREFIX),) if self._is_agent else (),
            kind="subagent" if self._is_agent else "fork" if origin else "session",
            parent=(self._source.parent or info.session_id) if self._is_agent else origin,
            cwd=info.cwd,
            name=info.title,
            first_prompt=conversation.first_prompt,
            fallback_title=conversation.first_command or info.command,
            created_at=info.created_at,
            updated_at=info.updated_at,
            version=info.version,
            archived=self._source.archived,
            trace=conversation.trace(),
            calls=tuple(self._agent_calls) if self._is_agent else self._calls.own_calls(),
            models=tuple(conversation.models),
            compactions=conversation.compactions,
            gaps=tuple(conversation.gaps),
            children=tuple(f"{AGENT_PREFIX}{agent}" for agent in self._calls.delegated),
            problems=tuple(self._problems.first),
            problem_count=self._problems.count,
            raw=info.raw(),
        )


class _SessionInfo:
    """Metadata of the session; the last recorded value counts unless noted otherwise."""

    def __init__(self) -> None:
        self.cwd: str | None = None  # the first: a session may be resumed from another directory
        self.session_id: str | None = None
        self.version: str | None = None
        self.title: str | None = None
        self.origin: str | None = None
        self.command: str | None = None  # the first slash command, unless it was not sent
        self.updated_at: datetime | None = None
        self._created: datetime | None = None
        self._earliest_copy: datetime | None = None
        self._branch: str | None = None
        self._raw: dict[str, Any] = {}
        self._unknown = Unknowns()

    @property
    def created_at(self) -> datetime | None:
        """The time of the first line that is not copied; copied history is older."""
        return self._created or self._earliest_copy

    def take(self, entry: Entry) -> None:
        """Add the metadata of one line."""
        line = entry.line
        self.cwd = self.cwd or text(line.cwd)
        self.session_id = self.session_id or text(line.session_id)
        self.version = text(line.version) or self.version
        self._branch = text(line.git_branch) or self._branch
        if entry.copied:
            self.origin = entry.origin or self.origin
            self._earliest_copy = self._earliest_copy or entry.at
        else:
            self._created = self._created or entry.at
        if entry.at is not None and (self.updated_at is None or entry.at > self.updated_at):
            self.updated_at = entry.at
        if entry.type == "system":
            self._take_system(entry)
        elif entry.type not in MESSAGE_TYPES:
            self._unknown.take(entry.type, entry.raw)

    def raw(self) -> dict[str, Any]:
        """Return the recorded values that have no field in the facts."""
        branch = {"gitBranch": self._branch} if self._branch else {}
        return branch | self._raw | self._unknown.raw()

    def _take_system(self, entry: Entry) -> None:
        match entry.subtype:
            case "custom_title":
                self.title = text(entry.payload.get("customTitle")) or self.title
            case "parent_session":
                if parent := text(entry.payload.get("parentSessionId")):
                    self._raw["parentSession"] = parent
            case "slash_command":
                command = text(entry.payload.get("rawCommand"))
                sent = entry.payload.get("sentToModel") is not False  # older versions do not tell
                if sent and command is not None and can_name_session(command):
                    self.command = self.command or command
            case "rewind":
                self._raw["rewinds"] = self._raw.get("rewinds", 0) + 1
            case "ui_telemetry" | "chat_compression":
                pass
            case other if other not in IGNORED_SUBTYPES:
                self._unknown.take(f"system:{other}", entry.raw)
            case _:
                pass


class _Answer:
    """An answer that may have more lines."""

    def __init__(self, entry: Entry, parent_id: str | None) -> None:
        self.entry = entry
        self.counts = usage_of(entry)
        self.entries = [entry]
        self._parent_id = parent_id

    def calls(self) -> list[tuple[CallPart, str]]:
        """Return the tool calls with their ids."""
        parts = [call for entry in self.entries for call in entry.parts.calls]
        return [(part, part.id or f"{self.entry.id}/{n}") for n, part in enumerate(parts)]

    def message(self) -> SessionMessage:
        """Return the message of the whole answer."""
        parts = [entry.parts for entry in self.entries]
        counts = self.counts
        usage = None if counts is None or counts.gaps else tokens_view(billed(counts))
        return SessionMessage(
            role="assistant",
            content="".join(part.text for part in parts),
            timestamp=self.entry.at,
            tool_calls=tuple(tool_call(part, call_id) for part, call_id in self.calls()),
            token_usage=usage,
            thinking="\n\n".join(thought for part in parts for thought in part.thoughts) or None,
            model=text(self.entry.line.model),
            id=self.entry.id,
            parent_id=self._parent_id,
        )


class Conversation:
    """Collects one conversation; `take` yields the messages that are complete."""

    def __init__(
        self, *, bodies: bool, delegated: bool, bill: Bill, on_problem: Callable[[Problem], None]
    ) -> None:
        self.first_prompt: str | None = None
        self.first_command: str | None = None  # that was sent to the model
        self.compactions = 0
        self.has_messages = False
        self.is_waiting = False  # for an answer of the model
        self.models: dict[str, None] = {}
        self.gaps: dict[str, None] = {}
        self._bodies = bodies
        self._delegated = delegated
        self._bill = bill
        self._on_problem = on_problem
        self._trace = TraceBuilder()
        self._open: _Answer | None = None
        self._pending: dict[str, str] = {}  # tool calls without a result: id -> name
        self._command: str | None = None  # sent to the model; its text is the next user line
        self._message_of: dict[str, str] = {}  # line id -> message it belongs to or follows

    def take(self, entry: Entry) -> Iterator[SessionMessage]:
        """Add one line."""
        match entry.type:
            case "user":
                yield from self.flush()
                yield from self._user(entry)
            case "assistant":
                yield from self._assistant(entry)
            case "tool_result":
                yield from self.flush()
                yield from self._results(entry)
            case "system" if entry.subtype == "chat_compression":
                yield from self.flush()
                yield from self._compression(entry)
            case _:
                if entry.subtype == "slash_command" and entry.payload.get("sentToModel") is True:
                    self._command = text(entry.payload.get("rawCommand"))
                self._add_to_trace(entry, entry.id, LineKind.LINE)

    def flush(self) -> Iterator[SessionMessage]:
        """Complete and yield the open answer."""
        answer, self._open = self._open, None
        if answer is None:
            return
        self._pending.update({call_id: part.name for part, call_id in answer.calls()})
        if self._bodies:
            yield answer.message()

    def close(self) -> None:
        """Record a missing answer before a prompt or at the end of the file."""
        if self.is_waiting:
            self.gaps[CALL_INTERRUPTED] = None

    def trace(self) -> Trace:
        """Return the trace: one entry per line, more for a line with several messages."""
        return self._trace.build()

    def _user(self, entry: Entry) -> Iterator[SessionMessage]:
        parent_id = self._parent(entry)
        command = self._command if entry.is_typed else None
        user_texts = self._user_texts(entry, command)
        has_images = bool(entry.parts.images)
        number = 0
        if user_texts.injected:
            self._add_to_trace(entry, entry.id, LineKind.INJECTED)
            number = 1
            if self._bodies:
                yield _user_message(
                    entry, entry.id, "\n".join(user_texts.injected), parent_id, synthetic=True
                )
        if user_texts.typed or (has_images and not user_texts.injected):
            message_id = f"{entry.id}#1" if number else entry.id
            prompt = "".join(user_texts.typed)
            self.close()  # the answer to an earlier prompt is missing
            self.is_waiting = not entry.copied
            self._add_to_trace(entry, message_id, LineKind.PROMPT)
            self._command = None
            title = fold_title(prompt) or None
            if command is None:
                self.first_prompt = self.first_prompt or title
            else:
                self.first_command = self.first_command or title
            if self._bodies:
                yield _user_message(entry, message_id, prompt, parent_id)
        elif not number:
            self._add_to_trace(entry, entry.id, LineKind.LINE)

    def _user_texts(self, entry: Entry, command: str | None) -> UserTexts:
        texts = entry.parts.texts
        if not entry.is_typed:
            return UserTexts(injected=texts)
        if command is not None:
            return UserTexts((command,), texts)
        user_texts = split_user_texts(texts, _INJECTED, delegated=self._delegated)
        shown = text(entry.payload.get("displayText"))  # the typed text, if a hook added to it
        return (
            UserTexts((shown,), user_texts.injected) if shown and user_texts.typed else user_texts
        )

    def _assistant(self, entry: Entry) -> Iterator[SessionMessage]:
        counts = usage_of(entry)
        answer = self._open
        if answer is not None and answer.counts is not None and counts is None:
            answer.entries.append(entry)
            self._add_to_trace(entry, answer.entry.id, LineKind.LINE)
            return
        yield from self.flush()
        self.is_waiting = False
        self._command = None
        self._open = _Answer(entry, self._parent(entry))
        self._add_to_trace(entry, entry.id, LineKind.REPLY)
        if counts is not None:
            self._bill(entry, counts, entry.id)
            return
        self.gaps[USAGE_NOT_RECORDED] = None
        if model := text(entry.line.model):
            self.models.setdefault(model)

    def _results(self, entry: Entry) -> Iterator[SessionMessage]:
        details = mapping(document(bytes(entry.line.tool_call_result)))
        parent_id = self._parent(entry)
        status = text(details.get("status"))
        self.is_waiting = not entry.copied and (status or "").lower() not in _CANCELLED
        for number, result in enumerate(entry.parts.results):
            message_id = f"{entry.id}#{number}" if number else entry.id
            call_id = result.id or text(details.get("callId")) or ""
            name = self._pending.pop(call_id, None)
            if name is None:
                message = "a tool result belongs to no call"
                self._on_problem(Problem(code="orphan-result", message=message, line=entry.number))
            self._add_to_trace(entry, message_id, LineKind.TOOL)
            if self._bodies:
                tool = ToolResult(
                    tool_call_id=call_id,
                    tool_name=result.name or name or "",
                    output=result.response,
                    is_error=has_failed(result.name or name or "", status, [result.response]),
                )
                yield SessionMessage(
                    role="tool",
                    content=response_text(result.response),
                    timestamp=entry.at,
                    id=message_id,
                    parent_id=parent_id,
                    tool_result=tool,
                )
        if not entry.parts.results:
            self._add_to_trace(entry, entry.id, LineKind.LINE)

    def _compression(self, entry: Entry) -> Iterator[SessionMessage]:
        self.compactions += 1
        history = items(entry.payload.get("compressedHistory"))
        summary = split_parts(history[0]).text if history else ""
        if not summary.strip():
            self._add_to_trace(entry, entry.id, LineKind.LINE)
            return
        parent_id = self._parent(entry)
        self._add_to_trace(entry, entry.id, LineKind.INJECTED)
        if self._bodies:
            yield SessionMessage(
                role="user",
                content=summary,
                timestamp=entry.at,
                id=entry.id,
                parent_id=parent_id,
                synthetic=True,
                compaction=True,
            )

    def _add_to_trace(self, entry: Entry, message_id: str, kind: LineKind) -> None:
        self._trace.add(key_of(message_id), to_millis(entry.at), kind)
        self.has_messages |= kind in {LineKind.PROMPT, LineKind.REPLY, LineKind.TOOL}
        if self._bodies:
            owner = self._parent(entry) if kind is LineKind.LINE else message_id
            if owner is not None:
                self._message_of[entry.id] = owner

    def _parent(self, entry: Entry) -> str | None:
        """Return the message that a line follows; parent chains include lines without a message."""
        parent = text(entry.line.parent_uuid)
        found = None if parent is None else self._message_of.get(parent)
        return None if found == entry.id else found


def _user_message(
    entry: Entry, message_id: str, content: str, parent_id: str | None, *, synthetic: bool = False
) -> SessionMessage:
    return SessionMessage(
        role="user",
        content=content,
        timestamp=entry.at,
        id=message_id,
        parent_id=parent_id,
        synthetic=synthetic,
        images=() if synthetic and entry.is_typed else entry.parts.images,
    )
