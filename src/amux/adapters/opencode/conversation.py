"""Converts the stored messages of one session to items; one pass yields facts and bodies."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from amux.adapters._base import Head, Item
from amux.adapters._kit.fold import Fold, Unknowns, add_messages
from amux.adapters._kit.usage import cost_view, usage_view
from amux.adapters._kit.values import decode, items, mapping, moment, plain_text, text
from amux.adapters.opencode.calls import Step, calls_of, identity_of, session_rules, steps_of
from amux.adapters.opencode.records import (
    STATE,
    PartRecord,
    SessionRecord,
    StoredMessage,
    ToolState,
    text_of,
    value_of,
)
from amux.model.facts import Facts, Kind
from amux.model.message import SessionMessage, SessionToolCall, ToolResult
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.usage import Call

_FINISHED = ("completed", "error")
_TASK = "task"


class Conversation:
    """Builds the items of one session; `read()` may be called once."""

    def __init__(
        self, session: SessionRecord, found: Iterable[StoredMessage | Problem], *, bodies: bool
    ) -> None:
        self._session = session
        self._bodies = bodies
        self._fold = Fold()
        self._messages: list[StoredMessage] = []
        self._problems: list[Problem] = []
        self._calls: list[Call] = []
        self._seen: set[str] = set()
        self._children: dict[str, None] = {}
        self._unknown = Unknowns()
        self._first_prompt: str | None = None
        self._compactions = 0
        for one in found:
            if isinstance(one, Problem):
                self._problems.append(one)
            else:
                self._messages.append(one)
        self.has_unnamed_children = False  # final after `read()`
        self._is_copy = any(stored.is_copy for stored in self._messages)

    def read(self) -> tuple[list[Item], Facts]:
        """Return all items but the last, and the last: the facts."""
        return list(self._open_items()), self._facts()

    def _open_items(self) -> Iterator[Item]:
        yield Head(session_id=self._session.id)
        for problem in self._problems:
            self._fold.problem(problem)
            yield problem
        yield from add_messages(self._fold, self._all_messages(), bodies=self._bodies)
        for call in self._calls:
            self._fold.call(call)
            yield call

    def _all_messages(self) -> Iterator[SessionMessage]:
        rules = session_rules(self._messages)
        for stored in self._messages:
            for kind, source in stored.unknown:
                self._unknown.take(kind, source.encode() if isinstance(source, str) else source)
            if stored.record.role == "user":
                yield from self._prompt(stored)
            elif stored.record.role == "assistant":
                self._compactions += stored.record.is_summary
                steps = steps_of(stored)
                calls = calls_of(stored, steps, rules, in_child=self._kind == "subagent")
                for step, call in zip(steps, calls, strict=True):
                    yield from self._answer(stored, step, call)
            self._seen.add(stored.id)

    @property
    def _kind(self) -> Kind:
        """The kind: with a parent, a fork if messages are copies or the title says so."""
        if self._session.parent is None:
            return "session"
        return "fork" if self._is_copy or self._session.has_fork_title else "subagent"

    # prompts

    def _prompt(self, stored: StoredMessage) -> Iterator[SessionMessage]:
        texts = [
            (part, text(text_of(part.prompt if part.type == "subtask" else part.text)))
            for part in stored.parts
        ]
        typed = [said for part, said in texts if said and _is_typed(part)]
        injected = [(part, said) for part, said in texts if said and not _is_typed(part)]
        aside = "\n".join(said for _, said in injected)
        images = tuple(
            url
            for part in stored.parts
            if (text(part.mime) or "").startswith("image/")
            and (url := text_of(part.url)).startswith("data:")
        )
        prompt = SessionMessage(
            role="user",
            content="\n".join(typed).strip(),
            timestamp=stored.record.created,
            id=stored.id,
            images=images,
        )
        if not typed and not images:
            yield replace(prompt, content=aside, synthetic=True)
            return
        if self._first_prompt is None:
            self._first_prompt = fold_title(_unquoted(prompt.content)) or None
        yield prompt
        if injected:
            id = text(injected[0][0].id)
            yield replace(
                prompt, content=aside, id=id, parent_id=stored.id, images=(), synthetic=True
            )

    # answers

    def _answer(
        self, stored: StoredMessage, step: Step, call: Call | None
    ) -> Iterator[SessionMessage]:
        said, thought = step.texts("text"), step.texts("reasoning")
        states = [(part, decode(bytes(part.state), STATE) or ToolState()) for part in step.tools]
        was_asked = step.is_started or step.finish is not None or call is not None
        is_answer = bool(said or thought or (states and was_asked))
        parent = text(stored.record.parent) if step.id == stored.id else stored.id
        if call is not None:
            self._calls.append(call)
        yield SessionMessage(
            role="assistant",
            content=said or ("" if is_answer else _error_text(stored.record.error)),
            timestamp=stored.record.created,
            tool_calls=tuple(self._tool_call(part, state) for part, state in states),
            token_usage=usage_view(call),
            cost=cost_view(call),
            thinking=thought or None,
            model=text(stored.record.model),
            id=step.id,
            parent_id=parent if parent in self._seen or parent == stored.id != step.id else None,
            synthetic=not is_answer,
            compaction=stored.record.is_summary,
        )
        for part, state in states:
            yield from self._tool_result(step, part, state)

    def _tool_call(self, part: PartRecord, state: ToolState) -> SessionToolCall:
        times = mapping(state.time)
        began, ended = moment(times.get("start")), moment(times.get("end"))
        took = None if began is None or ended is None else (ended - began).total_seconds() * 1000
        return SessionToolCall(
            tool_call_id=_call_id(part),
            tool_name=text(part.tool) or "",
            input=value_of(state.input) if self._bodies else None,
            duration_ms=None if took is None or took < 0 else round(took),
        )

    def _tool_result(
        self, step: Step, part: PartRecord, state: ToolState
    ) -> Iterator[SessionMessage]:
        if part.tool == _TASK:
            children = _children(state)
            self.has_unnamed_children |= not children
            self._children.update(dict.fromkeys(children))
        if state.status not in _FINISHED:
            return
        output: Any = None
        failed: bool | None = None
        if self._bodies:
            code = mapping(value_of(state.metadata)).get("exit")
            failed = state.status == "error" or (isinstance(code, int) and code != 0)
            output = value_of(state.error if state.status == "error" else state.output)
        yield SessionMessage(
            role="tool",
            content=plain_text(output),
            timestamp=moment(mapping(state.time).get("end")),
            tool_result=ToolResult(
                tool_call_id=_call_id(part),
                tool_name=text(part.tool) or "",
                output=output,
                is_error=failed,
            ),
            id=text(part.id),
            parent_id=step.id,
        )

    # facts

    def _facts(self) -> Facts:
        session = self._session
        self._fold.moment(session.updated)
        # Old sessions do not record a working directory, but their answers do.
        recorded = (text(mapping(stored.record.path).get("cwd")) for stored in self._messages)
        return self._fold.facts(
            session.id,
            kind=self._kind,
            parent=session.parent,
            cwd=session.directory or next(filter(None, recorded), None),
            name=session.name,
            first_prompt=self._first_prompt,
            created_at=session.created,
            version=session.version,
            archived=session.archived,
            copy_keys=array("q", identity_of(self._calls)).tobytes(),
            unnamed_copies=self._is_copy and session.parent is None,
            children=tuple(self._children),
            compactions=self._compactions,
            # A session without a single model call certainly cost nothing.
            native_nusd=None if self._messages or self._problems else 0,
            raw=session.raw | self._unknown.raw(),
        )


def _call_id(part: PartRecord) -> str:
    return text(part.call) or text(part.id) or ""


def _is_typed(part: PartRecord) -> bool:
    return part.type == "text" and not part.synthetic and not part.ignored


def _unquoted(prompt: str) -> str:
    """Remove the shell's quotes that `opencode run "a b"` records."""
    inner = prompt[1:-1]
    return inner if prompt == f'"{inner}"' and '"' not in inner else prompt


def _error_text(error: Any) -> str:
    """Return the error message of a failed answer."""
    record = mapping(error)
    return text(mapping(record.get("data")).get("message")) or text(record.get("name")) or ""


def _children(state: ToolState) -> list[str]:
    """Return the sessions that a task ran in; before 1.0 only the tools it used name them."""
    metadata = mapping(value_of(state.metadata))
    used = items(metadata.get("summary"))
    named = [metadata.get("sessionId"), *(mapping(tool).get("sessionID") for tool in used)]
    return [name for name in map(text, named) if name is not None]
