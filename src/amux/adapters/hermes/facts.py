"""Builds the facts of a session from its rows, and its calls from the recorded totals.

Hermes records totals, not single calls, so a session has one call per model: from
`session_model_usage` if it exists, else from the totals in the session row. Rows of a task (such as
a generated title) are not included in the session's totals. The other rows add up to them; a
remainder is attributed to the model of the session row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

import msgspec

from amux.adapters._kit.commands import TitlePrompt
from amux.adapters._kit.fold import MAX_PROBLEMS, Unknowns
from amux.adapters._kit.values import moment, text, to_millis
from amux.adapters.hermes.compaction import Replays
from amux.adapters.hermes.lineage import lineage_of
from amux.adapters.hermes.profiles import Profile
from amux.adapters.hermes.rows import SessionRow, UsageRow
from amux.adapters.hermes.texts import (
    Piece,
    call_id,
    decoded,
    flat_text,
    kind_of_piece,
    role_of,
    split_text,
    tool_entries,
)
from amux.model.facts import Facts, Kind
from amux.model.incomplete import (
    COMPACTION_NOT_RECORDED,
    REASONING_NOT_RECORDED,
    USAGE_NOT_RECORDED,
)
from amux.model.message import Role
from amux.model.problems import Problem, ProblemCode
from amux.model.trace import LineKind, TraceBuilder, key_of
from amux.model.usage import Call, Purpose, Tokens

_COMPRESSED: Final = "compression"
BOOKKEEPING: Final = frozenset({"session_meta"})


def calls_of(
    row: SessionRow,
    usage: Sequence[UsageRow],
    *,
    namespace: str,
    at: datetime | None,
    purpose: Purpose,
    reasoning_unknown: bool,
) -> tuple[Call, ...]:
    """Return the calls of a session, the most used model first.

    `namespace` separates sessions of other profiles with the same id.
    """
    owner = f"{row.id}@{namespace}"
    main = sorted((one for one in usage if not one.task), key=lambda one: -one.calls)
    merged = _merged(main, purpose, owner)
    calls = [call for call in merged if call.tokens.total or call.native_nusd or call.gaps]
    total, spent = row.tokens, sum((call.tokens for call in calls), Tokens())
    thinking = total.thinking
    rest = Tokens(
        input=max(0, total.input - spent.input),
        cache_read=max(0, total.cache_read - spent.cache_read),
        cache_write=max(0, total.cache_write - spent.cache_write),
        output=max(0, total.output - spent.output),
        thinking=None if thinking is None else max(0, thinking - (spent.thinking or 0)),
    )
    if rest.total or row.gaps:
        key = f"{owner}:{row.model or ''}"
        more = Call(key=key, model=row.model, purpose=purpose, tokens=rest, gaps=row.gaps)
        calls = _add(calls, more)
    if row.native_nusd is not None and calls:
        calls = _share(calls, row.native_nusd)
    calls = [_finished(call, at, reasoning_unknown=reasoning_unknown) for call in calls]
    return (*calls, *_merged((one for one in usage if one.task), "auxiliary", owner))


def _merged(usage: Iterable[UsageRow], purpose: Purpose, owner: str) -> list[Call]:
    """Return one call per model and task; they may have several rows, one per route."""
    calls: list[Call] = []
    for one in usage:
        key = f"{owner}:{one.model}"
        call = Call(
            key=f"{key}:{one.task}" if one.task else key,
            model=one.model,
            at=one.last_seen or one.first_seen,
            tokens=one.tokens,
            native_nusd=one.native_nusd,
            purpose=purpose,
            gaps=one.gaps,
        )
        calls = _add(calls, call)
    return calls


def _add(calls: list[Call], more: Call) -> list[Call]:
    """Return the calls with one more, merged into the call with the same key if there is one."""
    for index, call in enumerate(calls):
        if call.key == more.key:
            amounts = (call.native_nusd, more.native_nusd)
            known = [amount for amount in amounts if amount is not None]
            merged = msgspec.structs.replace(
                call,
                tokens=call.tokens + more.tokens,
                at=max((at for at in (call.at, more.at) if at), default=None),
                native_nusd=sum(known) if len(known) == len(amounts) else None,
                gaps=call.gaps or more.gaps,
            )
            return [*calls[:index], merged, *calls[index + 1 :]]
    return [*calls, more]


def _share(calls: Sequence[Call], recorded: int) -> list[Call]:
    """Distribute the session's recorded cost among its models, so that the sum is exact."""
    known = [call.native_nusd for call in calls if call.native_nusd is not None]
    is_complete = len(known) == len(calls) and any(known)
    weights = known if is_complete else [call.tokens.total for call in calls]
    whole = sum(weights) or 1
    shares: list[Call] = []
    passed = given = 0
    for call, weight in zip(calls, weights, strict=True):
        passed += weight
        share = recorded * passed // whole - given
        given += share
        shares.append(msgspec.structs.replace(call, native_nusd=share))
    return shares


def _finished(call: Call, at: datetime | None, *, reasoning_unknown: bool) -> Call:
    """Return the call with a time, and with unknown reasoning if it was not counted."""
    if reasoning_unknown and not call.tokens.thinking:
        call = msgspec.structs.replace(
            call,
            tokens=msgspec.structs.replace(call.tokens, thinking=None),
            gaps=(*call.gaps, REASONING_NOT_RECORDED),
        )
    return call if call.at else msgspec.structs.replace(call, at=at)


@dataclass(slots=True)  # not frozen: there is one per message, and that costs time
class MessageHead:
    """One row of `messages` without its body."""

    id: int
    session_id: str
    role: object
    head: object
    tool_calls: object
    tool_call_id: str | None
    at: datetime | None
    finished: bool  # has a finish reason, which copies in a branch do not have
    observed: bool
    reasoned: bool

    @classmethod
    def of(cls, cells: Sequence[Any]) -> Self | None:
        """Parse the cells of a row; None if it names no session."""
        id, session_id, role, head, calls, result_of, at, finish_reason, observed, reasoned = cells
        named = text(session_id)
        if named is None or not isinstance(id, int):
            return None
        return cls(
            id=id,
            session_id=named,
            role=role,
            head=head,
            tool_calls=calls,
            tool_call_id=text(result_of),
            at=moment(at),
            finished=text(finish_reason) is not None,
            observed=bool(observed),
            reasoned=bool(reasoned),
        )


class SessionBuilder:
    """Collects the rows of one session; `facts()` returns the result."""

    def __init__(self, row: SessionRow, path: str, profile: Profile) -> None:
        self.usage: list[UsageRow] = []
        self._row = row
        self._path = path
        self._profile = profile
        self._trace = TraceBuilder()
        self._title = TitlePrompt()
        self._earliest: datetime | None = None
        self._latest: datetime | None = None
        self._calls: set[str] = set()
        self._summaries = 0
        self._reasoned = self._reasoned_here = False
        self._replied = self._replied_here = False
        self._unknown = Unknowns()
        self._problems: list[Problem] = []
        self._problem_count = 0

    def add(self, head: MessageHead, replays: Replays) -> None:
        """Add a message, unless it repeats an earlier one."""
        if head.id in replays.repeated:
            return
        role = role_of(head.role)
        if role is None:
            if head.role not in BOOKKEEPING:
                row = {"id": head.id, "role": head.role, "content": head.head}
                self._unknown.take(str(head.role), row)
            return
        for piece in split_text(role, flat_text(decoded(head.head)), observed=head.observed):
            if head.id not in replays.only_summary or piece.compaction:
                self._count(role, piece, head)
        if head.tool_calls is not None or role == "tool":
            self._note_tools(role, head)
        self._replied |= role == "assistant"
        self._replied_here |= role == "assistant" and head.finished
        self._reasoned |= head.reasoned
        self._reasoned_here |= head.reasoned and head.finished

    def _count(self, role: Role, piece: Piece, head: MessageHead) -> None:
        kind = kind_of_piece(role, piece)
        key = key_of(f"{head.id}{piece.suffix}") if piece.suffix else head.id
        self._trace.add(key, to_millis(head.at), kind)
        self._summaries += piece.compaction
        if kind is LineKind.PROMPT:
            self._title.prompt(piece.text)
        elif kind is LineKind.REPLY:
            self._title.answer()
        if head.at is not None:
            if self._earliest is None or head.at < self._earliest:
                self._earliest = head.at
            if self._latest is None or head.at > self._latest:
                self._latest = head.at

    def _note_tools(self, role: Role, head: MessageHead) -> None:
        entries = tool_entries(head.tool_calls)
        if entries is None:
            self._problem("bad-record", f"the tool calls of message {head.id} cannot be read")
        self._calls.update(map(call_id, entries or ()))
        if role == "tool" and (head.tool_call_id or "") not in self._calls:
            self._problem("orphan-result", f"message {head.id} is a result without a tool call")

    def _problem(self, code: ProblemCode, message: str) -> None:
        self._problem_count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(code=code, message=message, path=self._path))

    def facts(self, rows: Mapping[str, SessionRow], replays: Replays, *, has_flags: bool) -> Facts:
        """Return the facts. `rows` must include the ancestors.

        `has_flags` says whether compacted rows are flagged; if not, summaries are counted.
        """
        row = self._row
        lineage = lineage_of(row, rows)
        known = [at for at in (row.started_at, self._latest) if at]
        last = max(known, default=None)
        namespace = self._profile.namespace(row.started_at)
        calls = calls_of(
            row,
            self.usage,
            namespace=namespace,
            at=last,
            purpose="subagent" if lineage.kind == "subagent" else "main",
            reasoning_unknown=self._hides_reasoning(lineage.kind),
        )
        gaps = (USAGE_NOT_RECORDED,) if self._lacks_usage(lineage.kind, calls) else ()
        is_compressed = row.end_reason == _COMPRESSED
        compactions = replays.compactions.get(row.id, 0) if has_flags else self._summaries
        has_compactions = is_compressed or row.id in replays.compactions
        raw = {"source": row.source, "endReason": row.end_reason}
        return Facts(
            session_id=row.id,
            aliases=(self._profile.alias(row.id),),
            namespace=namespace,
            kind=lineage.kind,
            parent=lineage.parent,
            cwd=lineage.cwd,
            name=row.title,
            first_prompt=self._title.text or None,
            created_at=row.started_at or self._earliest,
            updated_at=last,
            archived=row.archived,
            trace=self._trace.build(),
            calls=calls,
            models=() if calls or row.model is None else (row.model,),
            compactions=compactions + is_compressed,
            gaps=(*gaps, COMPACTION_NOT_RECORDED) if has_compactions else gaps,
            problems=tuple(self._problems),
            problem_count=self._problem_count,
            raw={name: value for name, value in raw.items() if value}
            | self._profile.raw
            | self._unknown.raw(),
        )

    def _lacks_usage(self, kind: Kind, calls: Sequence[Call]) -> bool:
        """Return whether the session has answers of its own, but no usage for them.

        A branch or a continuation has copies of answers that were billed elsewhere.
        """
        has_own = self._replied_here if kind in ("fork", "continuation") else self._replied
        return has_own and all(call.purpose == "auxiliary" for call in calls)

    def _hides_reasoning(self, kind: Kind) -> bool:
        """Return whether reasoning was recorded as text but not counted, as before 0.19.

        Copied history contains reasoning that was billed elsewhere. So if usage is recorded by
        model, the count is trusted, and in a branch only texts that are not copies are evidence.
        """
        if self._row.tokens.thinking:
            return False
        if kind in ("fork", "continuation") and self.usage:
            return False
        return self._reasoned_here if kind == "fork" else self._reasoned
