"""One conversation, record by record: its messages, its calls, and what is counted of both.

The same message is written again when its tools have answered: the last version counts, in the
place of the first, so the newest messages stay open for a while. Usage is billed once per message
id, however often the message was written and whether or not it was rewound or compressed away.
Everything that is counted is the same with and without bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from amux.adapters._kit.times import to_millis
from amux.adapters.gemini.bodies import Reply, UserTurn, note_message
from amux.adapters.gemini.prompts import (
    ACKNOWLEDGED,
    AFTER_SNAPSHOT,
    is_command,
    is_injected,
)
from amux.adapters.gemini.records import Kind, Said
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, Trace, TraceBuilder, key_of
from amux.model.usage import Call

OPEN_MESSAGES: Final = 64
"""How many messages may follow before one is taken for complete."""

SAFETY_KEPT: Final = 200
_COMPARED: Final = 4096  # of a text: enough to recognise it, and the same when long texts are cut


class _Open:
    """A message that may be written once more."""

    __slots__ = ("message_id", "said")

    def __init__(self, said: Said, message_id: str) -> None:
        self.said = said
        self.message_id = message_id


class Conversation:
    """Collects one conversation; `take` gives back the messages that are complete."""

    def __init__(
        self, *, bodies: bool, delegated: bool, on_problem: Callable[[Problem], None]
    ) -> None:
        self.first_prompt: str | None = None
        self.first_command: str | None = None
        self.compactions = 0
        self.empty_notes = 0
        self.earliest: datetime | None = None
        self.latest: datetime | None = None
        self.models: dict[str, None] = {}
        self.gaps: dict[str, None] = {}
        self.safety: list[dict[str, object]] = []
        self.is_conversation = False  # more than texts the agent wrote itself
        self._bodies = bodies
        self._delegated = delegated
        self._on_problem = on_problem
        self._trace = TraceBuilder()
        self._calls: dict[str, Call] = {}
        self._open: dict[tuple[str, Kind], _Open] = {}
        self._known: dict[tuple[str, Kind], str] = {}  # every message so far, and its id
        self._ids: set[str] = set()
        self._texts: set[int] = set()
        self._asked: dict[str, str] = {}  # tool calls without a result: id -> name
        self._made_up: dict[str, None] = {}  # of these, those whose record has no id
        self._tools: set[str] = set()  # every tool call so far

    def take(self, said: Said) -> Iterator[SessionMessage]:
        """Enter a message, or a further version of one."""
        place = (said.id, said.kind)
        message_id = self._known.get(place)
        if message_id is None:
            message_id = self._known[place] = self._unused_id(said)
            self._open[place] = _Open(said, message_id)
        elif place in self._open:
            self._open[place].said = said
        self._bill(said, message_id)
        if said.safety and len(self.safety) < SAFETY_KEPT:
            self.safety.append({"id": message_id, **said.safety})
        if len(self._open) > OPEN_MESSAGES:
            yield from self._settle(next(iter(self._open)))

    def restore(self, messages: Sequence[Said]) -> Iterator[SessionMessage]:
        """Enter a checkpoint: what the model sees from now on, mostly repetitions.

        Only what no record of this file has said comes in: a summary, or a history from elsewhere.
        """
        yield from self.flush()
        snapshot = _snapshot(messages)
        for index, said in enumerate(messages):
            if (said.id, said.kind) in self._known:
                continue
            if index == snapshot:
                yield from self._compaction(said)
            elif self._is_news(said):
                said.restored = True
                yield from self.take(said)
        yield from self.flush()

    def flush(self) -> Iterator[SessionMessage]:
        """All messages that are still open, now complete."""
        while self._open:
            yield from self._settle(next(iter(self._open)))

    def calls(self) -> tuple[Call, ...]:
        """The calls, in order of their first record."""
        return tuple(self._calls.values())

    def trace(self) -> Trace:
        """One record per message, more where one brings tool results."""
        return self._trace.build()

    def moment(self, at: datetime | None) -> None:
        """Widen the time span."""
        if at is None:
            return
        self.earliest = at if self.earliest is None else min(at, self.earliest)
        self.latest = at if self.latest is None else max(at, self.latest)

    def _unused_id(self, said: Said) -> str:
        """An answer and the result that follows it may share one id."""
        name = said.id
        while name in self._ids:
            name = f"{name}:{said.kind}"
        self._ids.add(name)
        return name

    def _bill(self, said: Said, message_id: str) -> None:
        stated = said.stated
        if said.kind != "gemini" or stated is None:
            return
        before = self._calls.get(said.id)
        self._calls[said.id] = Call(
            key=said.id,
            model=said.model,
            at=said.at if before is None else before.at,
            tokens=stated.tokens,
            native_nusd=stated.nusd,
            message_id=message_id,
            purpose="subagent" if self._delegated else "main",
            repeats=0 if before is None else before.repeats + 1,
            gaps=stated.gaps,
        )

    def _is_news(self, said: Said) -> bool:
        if said.kind == "gemini":
            reply = Reply(said, "")
            asked = reply.call_ids()
            if not self._tools.isdisjoint(asked):
                return False
            if not reply.text:
                return bool(asked)
            return self._fingerprint(said.kind, reply.text) not in self._texts
        turn = UserTurn(said, delegated=self._delegated)
        if turn.parts.results:
            return any(result.id in self._asked for result in turn.parts.results)
        return self._fingerprint(said.kind, turn.text) not in self._texts

    def _compaction(self, said: Said) -> Iterator[SessionMessage]:
        self.compactions += 1
        message_id = self._known[said.id, said.kind] = self._unused_id(said)
        self._mark(message_id, said.at, LineKind.INJECTED)
        if self._bodies:
            yield SessionMessage(
                role="user",
                content=UserTurn(said, delegated=self._delegated).text,
                timestamp=said.at,
                id=message_id,
                synthetic=True,
                compaction=True,
            )

    def _settle(self, place: tuple[str, Kind]) -> Iterator[SessionMessage]:
        entry = self._open.pop(place)
        match entry.said.kind:
            case "user":
                return self._settle_user(entry)
            case "gemini":
                return self._settle_reply(entry)
            case "note":
                return self._settle_note(entry)

    def _settle_user(self, entry: _Open) -> Iterator[SessionMessage]:
        said = entry.said
        turn = UserTurn(said, delegated=self._delegated)
        self._texts.add(self._fingerprint("user", turn.text))
        ids = _numbered(entry.message_id)
        for result in turn.parts.results:
            call_id = self._call_of(result.id, result.name, line=said.line)
            if call_id is None:
                continue
            message_id = next(ids)
            self._mark(message_id, said.at, LineKind.TOOL)
            if self._bodies:
                yield turn.result_message(result, call_id, message_id)
        if turn.speech.injected:
            message_id = next(ids)
            self._mark(message_id, said.at, LineKind.INJECTED)
            if self._bodies:
                yield turn.injected_message(message_id)
        if turn.is_prompt:
            message_id = next(ids)
            self._mark(message_id, said.at, LineKind.PROMPT)
            self._learn_title(turn.prompt)
            if self._bodies:
                yield turn.prompt_message(message_id)

    def _settle_reply(self, entry: _Open) -> Iterator[SessionMessage]:
        said = entry.said
        reply = Reply(said, entry.message_id)
        synthetic = reply.text.strip() in ACKNOWLEDGED and said.stated is None
        self._texts.add(self._fingerprint("gemini", reply.text))
        self._mark(entry.message_id, said.at, LineKind.NOTICE if synthetic else LineKind.REPLY)
        if said.id not in self._calls and not synthetic:
            self._miss_usage(said)
        if self._bodies:
            yield reply.message(self._calls.get(said.id), synthetic=synthetic)
        ids = _numbered(entry.message_id, first=1)
        for call in reply.calls():
            self._tools.add(call.id)
            if not call.has_result:
                self._asked[call.id] = call.name
                if call.made_up:
                    self._made_up[call.id] = None
                continue
            message_id = next(ids)
            self._mark(message_id, call.at or said.at, LineKind.TOOL)
            if self._bodies:
                yield reply.result_message(call, message_id)

    def _miss_usage(self, said: Said) -> None:
        if said.model is not None:
            self.models.setdefault(said.model)
        if not said.restored:  # what came with a checkpoint was billed where it was said
            self.gaps[USAGE_NOT_RECORDED] = None

    def _settle_note(self, entry: _Open) -> Iterator[SessionMessage]:
        message = note_message(entry.said, entry.message_id)
        if not message.content.strip():
            self.empty_notes += 1
            self._mark(entry.message_id, entry.said.at, LineKind.LINE)
            return
        self._mark(entry.message_id, entry.said.at, LineKind.INJECTED)
        if self._bodies:
            yield message

    def _call_of(self, call_id: str | None, name: str, *, line: int) -> str | None:
        """The call a result answers; None when it has its result already."""
        if call_id is None or call_id not in self._tools:
            # Old versions keep no ids of calls: it is the oldest open one of that tool.
            made_up = (one for one in self._made_up if self._asked.get(one) == name)
            call_id = next(made_up, call_id)
        if call_id is not None and self._asked.pop(call_id, None) is not None:
            return call_id
        if call_id is None or call_id not in self._tools:
            message = "a tool result belongs to no call"
            self._on_problem(Problem(code="orphan-result", message=message, line=line))
            return call_id or ""
        return None

    def _learn_title(self, prompt: str) -> None:
        title = fold_title(prompt) or None
        if is_command(prompt):
            self.first_command = self.first_command or title
        else:
            self.first_prompt = self.first_prompt or title

    def _mark(self, message_id: str, at: datetime | None, mark: LineKind) -> None:
        self._trace.add(key_of(message_id), to_millis(at), mark)
        self.moment(at)
        if mark in {LineKind.PROMPT, LineKind.REPLY, LineKind.TOOL}:
            self.is_conversation = True

    @staticmethod
    def _fingerprint(kind: Kind, text: str) -> int:
        return key_of(f"{kind}\n{text.strip()[:_COMPARED]}")


def _numbered(message_id: str, *, first: int = 0) -> Iterator[str]:
    """Ids for the messages of one record: its own, then numbered ones."""
    number = first
    while True:
        yield message_id if number == 0 else f"{message_id}#{number}"
        number += 1


def _snapshot(messages: Iterable[Said]) -> int | None:
    """Where a checkpoint holds the summary of a compression: before the answer made up for it."""
    before: Said | None = None
    for index, said in enumerate(messages):
        if said.kind == "gemini" and before is not None and before.kind == "user":
            is_answer = Reply(said, "").text.strip() == AFTER_SNAPSHOT
            text = UserTurn(before, delegated=False).text
            if is_answer and not (is_injected(text) and "<state_snapshot>" not in text):
                return index - 1
        before = said
    return None
