"""Reads one log in one pass over its lines, then builds the facts.

The first line is rewritten when the title changes and has no time, so a session begins with its
first message. Usage is not recorded in the log, see `settings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.fold import Fold, Unknowns, add_messages
from amux.adapters._kit.jsonl import Buffer, no_session, read_records
from amux.adapters._kit.values import items, mapping, moment, text
from amux.adapters.droid.messages import KNOWN_TYPES, LINES, Line, Message, MessageBuilder
from amux.adapters.droid.settings import Settings, read_settings, subtract
from amux.model.facts import Facts, Kind
from amux.model.incomplete import CALLS_ELSEWHERE, COMPACTION_NOT_RECORDED, USAGE_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem, ProblemCode
from amux.model.titles import ELLIPSIS, fold_name
from amux.model.usage import Call, Tokens

_UNTITLED: Final = "New Session"
_FORK_TITLE: Final = "[Fork] "
_TASK: Final = "Task"
_CHILD: Final = re.compile(r"^session_id: ([0-9a-fA-F-]{36})$", re.MULTILINE)
_CHILD_WITHIN: Final = 1000
_SHOWN_SETTINGS: Final = ("reasoningEffort", "autonomyMode", "interactionMode", "tags")


class SessionLog:
    """Reads one log in one pass and yields its messages as they are read."""

    def __init__(self, source: SourceRef) -> None:
        self._source = source
        self._session_id = source.session_id or source.path.stem
        self._fold = Fold()
        self._messages = MessageBuilder()
        self._start = Line()
        self._is_session = False
        self._problems: list[Problem] = []
        self._models: dict[str, None] = {}  # models of replies that are not copied
        self._replies = 0
        self._thoughts = False
        self._last_reply: datetime | None = None
        self._own_start: datetime | None = None
        self._in_copy = False  # the lines that a fork copied from its origin
        self._tasks = 0
        self._children: dict[str, None] = {}
        self._compactions = 0
        self._summaries = 0
        self._unknown = Unknowns()

    def items(self, want: Want) -> Iterator[Item]:
        """Yield head, messages, calls and facts, and problems as they occur."""
        is_open = False
        for message in self._read(cut_texts=want != "all"):
            if not is_open and self._is_session:
                is_open = True
                yield Head(session_id=self._session_id)
            yield from self._drain()
            if has_bodies(want) and message is not None:
                yield message
        if is_open:
            facts = self._facts()
            yield from self._drain()
            yield from facts.calls
            yield facts
        else:
            yield from self._drain()
            yield from no_session(self._source.path, self._fold.problems)

    # reading

    def _read(self, *, cut_texts: bool) -> Iterator[SessionMessage | None]:
        """Yield the messages of all lines, and None after each line."""
        for found in read_records(self._source.path, LINES, cut_texts=cut_texts):
            if isinstance(found, Problem):
                self._add_problem(found)
            else:
                number, line, raw = found
                yield from add_messages(self._fold, self._take(line, number, raw), bodies=True)
            yield None

    def _take(self, line: Line, number: int, raw: Buffer) -> Iterator[SessionMessage]:
        match line.type:
            case "session_start":
                # A second one is the first line of the origin, copied into a fork.
                if not self._is_session or not text(self._start.id):
                    self._is_session = True
                    self._start = line
                    self._in_copy = text(line.forked_at_message_id) is not None
            case "message":
                yield from self._take_message(line, number)
            case "compaction_state":
                self._is_session = True
                self._compactions += 1
                self._summaries += text(line.summary_kind) in {None, "llm_summary"}
                yield self._messages.summary(line, number=number)
            case str() as other if other not in KNOWN_TYPES:
                self._unknown.take(other, raw)
            case _:
                pass

    def _take_message(self, line: Line, number: int) -> Iterator[SessionMessage]:
        message = line.message
        if not isinstance(message, Message) or text(message.role) is None:
            self._add_problem_at("bad-record", "a message has no role", number)
            return
        self._is_session = True
        if message.role == "assistant":
            self._replies += 1
            self._last_reply = moment(line.timestamp) or self._last_reply
            self._thoughts |= any(block.kind == "thinking" for block in message.blocks)
            if model := text(message.model_id):
                self._models.setdefault(model)
        elif not self._in_copy and self._own_start is None:
            self._own_start = moment(line.timestamp)
        for built in self._messages.of_line(line, message, number=number):
            self._delegate(built)
            if built.tool_result is not None and self._messages.is_orphan(built.tool_result):
                self._add_problem_at("orphan-result", "a tool result belongs to no call", number)
            yield built
        if self._in_copy and line.id == self._start.forked_at_message_id:
            self._in_copy = False
            self._models.clear()
            self._replies, self._thoughts = 0, False

    def _delegate(self, built: SessionMessage) -> None:
        """Count sub-agents, which have their own logs, and collect the ids that results name."""
        self._tasks += sum(call.tool_name == _TASK for call in built.tool_calls)
        if built.tool_result is not None and built.tool_result.tool_name == _TASK:
            named = _CHILD.search(built.content, 0, _CHILD_WITHIN)
            if named is not None:
                self._children.setdefault(named[1])

    def _add_problem_at(self, code: ProblemCode, message: str, number: int) -> None:
        self._add_problem(
            Problem(code=code, message=message, path=str(self._source.path), line=number)
        )

    def _add_problem(self, problem: Problem) -> None:
        self._problems.append(problem)
        self._fold.problem(problem)

    def _drain(self) -> Iterator[Problem]:
        yield from self._problems
        self._problems.clear()

    # results

    def _facts(self) -> Facts:
        settings = read_settings(self._source.path, self._session_id)
        if settings.problem is not None:
            self._add_problem(settings.problem)
        kind, parent = self._kind_and_parent(settings)
        calls, gaps = self._usage(settings, kind, parent)
        for call in calls:
            self._fold.call(call)
        folded = self._fold.facts(self._session_id)
        children = tuple(dict.fromkeys((*settings.children, *self._children)))
        written = text(self._start.id)
        return self._fold.facts(
            self._session_id,
            aliases=(written,) if written not in {None, self._session_id} else (),
            kind=kind,
            parent=parent,
            cwd=text(self._start.cwd),
            name=self._given_name(folded.first_prompt),
            fallback_title=text(self._start.title),
            created_at=self._own_start if kind == "fork" else None,
            models=tuple(self._models) or None,
            children=children,
            unnamed_copies=self._tasks > len(children),  # some sub-agents are not named
            compactions=self._compactions,
            gaps=gaps,
            raw=self._raw(settings),
        )

    def _kind_and_parent(self, settings: Settings) -> tuple[Kind, str | None]:
        tags = map(mapping, items(settings.values.get("tags")))
        tag = next((tag for tag in tags if tag.get("name") == "subagent"), dict[str, Any]())
        tagged = text(mapping(tag.get("metadata")).get("callingSessionId"))
        caller = text(self._start.calling_session_id) or tagged
        if caller is not None:
            return "subagent", caller
        parent = text(self._start.parent)
        if parent is None or parent == self._session_id:
            return "session", None
        is_fork = text(self._start.forked_at_message_id) or self._title().startswith(_FORK_TITLE)
        return ("continuation" if self._compactions and not is_fork else "fork"), parent

    def _title(self) -> str:
        return text(self._start.session_title) or text(self._start.title) or ""

    def _given_name(self, first_prompt: str | None) -> str | None:
        """Return the title; None if it is only the beginning of the first prompt."""
        title = fold_name(self._title())
        if not title or title == _UNTITLED:
            return None
        if self._start.is_session_title_manually_set is True or first_prompt is None:
            return title
        beginning = title.removesuffix(ELLIPSIS).removesuffix("...")
        prompt = first_prompt.removesuffix(ELLIPSIS)  # if it was cut, the title may be longer
        is_prompt = prompt.startswith(beginning) or (
            prompt != first_prompt and beginning.startswith(prompt)
        )
        return None if is_prompt else title

    def _usage(
        self, settings: Settings, kind: Kind, parent: str | None
    ) -> tuple[list[Call], tuple[str, ...]]:
        """Return the recorded total as one call, and the reasons why it may be incomplete."""
        gaps = [*settings.gaps]
        if kind == "continuation" and self._summaries and self._replies and not self._models:
            gaps.append(COMPACTION_NOT_RECORDED)  # only versions that do not name the model
        if settings.tokens is None:
            return [], (*gaps, USAGE_NOT_RECORDED) if self._replies else tuple(gaps)
        tokens, exact = settings.tokens, True
        if kind == "continuation" and parent is not None:
            before = read_settings(self._source.path, parent).tokens or Tokens()
            tokens, exact = subtract(tokens, before)
        if not exact:
            gaps.append(CALLS_ELSEWHERE)
        if not tokens.total:
            return [], tuple(gaps)
        return [self._call(settings, kind, tokens)], tuple(gaps)

    def _call(self, settings: Settings, kind: Kind, tokens: Tokens) -> Call:
        models = list(self._models)
        # The total is not split by model: with several models it belongs to none.
        model = settings.model if not models else models[0] if len(models) == 1 else None
        if not tokens.thinking and self._thoughts:  # recorded as 0 if the provider reports none
            tokens = msgspec.structs.replace(tokens, thinking=None)
        return Call(
            key=f"{self._session_id}:{model or '*'}",
            model=model,
            at=self._last_reply,
            tokens=tokens,
            purpose="subagent" if kind == "subagent" else "main",
        )

    def _raw(self, settings: Settings) -> dict[str, Any]:
        usage = mapping(settings.values.get("tokenUsage"))
        found: dict[str, Any] = {
            "forkedAtMessageId": text(self._start.forked_at_message_id),
            "callingToolUseId": text(self._start.calling_tool_use_id),
            "factoryCredits": usage.get("factoryCredits"),
            **self._unknown.raw(),
            **{name: settings.values.get(name) for name in _SHOWN_SETTINGS},
        }
        return {name: value for name, value in found.items() if value}
