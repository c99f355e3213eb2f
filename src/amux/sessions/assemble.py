"""From the facts of many sources to sessions: joined, named, related, every call owned once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from amux.model.facts import TitleNote
from amux.model.problems import Problem
from amux.model.titles import choose_title, fold_name
from amux.model.trace import LineKind, Trace, merged_trace
from amux.sessions.lineage import settle_lineage
from amux.sessions.parts import Joined, Part, join_parts


@dataclass(slots=True)
class Assembly:
    """All sessions of one agent, as far as the given parts tell."""

    agent: str
    sessions: list[Joined]  # top level: sub-agents hang below their parents
    unattributed: list[Joined]  # billed calls of no session
    problems: list[Problem]
    _by_rollout: dict[str, Part] = field(default_factory=dict[str, Part])

    def find(self, session_id: str) -> Joined | None:
        """The session with that id or alias, sub-agents included; of equals the newest."""
        by_id: list[Joined] = []
        by_alias: list[Joined] = []
        for session in self.everyone():
            if session.session_id == session_id:
                by_id.append(session)
            elif any(session_id in part.facts.aliases for part in session.parts):
                by_alias.append(session)
        return max(by_id or by_alias[:1], key=_last_seen, default=None)

    def everyone(self) -> Iterator[Joined]:
        """All sessions, sub-agents too."""
        for session in self.sessions:
            yield from session.with_children()

    def conversation(self, session: Joined) -> list[tuple[Part, int | None]]:
        """The parts to read for the session's messages, in order, each up to a trace key."""
        chain: list[tuple[Part, int | None]] = [(piece, None) for piece in session.pieces]
        for part, until in _prefixes(session.current, self._by_rollout):
            chain.insert(0, (part, until))
        return chain


def assemble(agent: str, parts: Iterable[Part], problems: Iterable[Problem] = ()) -> Assembly:
    """Join sources into sessions and give every call to one of them."""
    everything = join_parts(agent, parts)
    by_rollout = _rollouts(everything)
    for session in everything:
        _read_through_prefix(session, by_rollout)
    settle_lineage(everything)
    _name(everything)
    _place(everything)
    attributed = [session for session in everything if session.attributed]
    return Assembly(
        agent=agent,
        sessions=_nest(attributed),
        unattributed=[session for session in everything if not session.attributed],
        problems=[*problems, *_problems(everything)],
        _by_rollout=by_rollout,
    )


def _last_seen(session: Joined) -> float:
    at = session.facts.updated_at
    return 0.0 if at is None else at.timestamp()


def _rollouts(sessions: Iterable[Joined]) -> dict[str, Part]:
    """Every id by which a prefix may refer to a log."""
    rollouts: dict[str, Part] = {}
    for session in sessions:
        for part in session.parts:
            rollouts[part.facts.rollout or part.facts.session_id] = part
        rollouts.setdefault(session.session_id, session.current)
    return rollouts


def _prefixes(part: Part, by_rollout: dict[str, Part]) -> Iterator[tuple[Part, int]]:
    """The logs a part refers to, nearest first. A later cut never reaches beyond an earlier one."""
    seen = {id(part)}
    prefix = part.facts.prefix
    limit: int | None = None
    while prefix is not None:
        parent = by_rollout.get(prefix.of)
        if parent is None or id(parent) in seen:
            return
        seen.add(id(parent))
        limit = prefix.until if limit is None else min(limit, prefix.until)
        yield parent, limit
        prefix = parent.facts.prefix


def _read_through_prefix(session: Joined, by_rollout: dict[str, Part]) -> None:
    """Trace and first prompt of the whole conversation."""
    session.trace = merged_trace([piece.facts.trace for piece in session.pieces])
    prompts = (piece.facts.first_prompt for piece in session.pieces)
    session.first_prompt = next((prompt for prompt in prompts if prompt), None)
    last = session.current
    for part, until in _prefixes(session.current, by_rollout):
        last = part
        before = part.facts.trace.before(until)
        session.trace = before + session.trace
        if _has_prompt(before):
            session.first_prompt = part.facts.first_prompt or session.first_prompt
    lost = last.facts.prefix
    if lost is not None and lost.of not in by_rollout:
        session.problems.append(
            Problem(
                code="missing-parent",
                message=f"its earlier history lies in `{lost.of}`, which is gone",
                path=last.source.place,
            )
        )


def _has_prompt(trace: Trace) -> bool:
    return LineKind.PROMPT in trace.marks


def _name(sessions: list[Joined]) -> None:
    """A given name, a title noted elsewhere, the first prompt: in this order."""
    by_id: dict[str, str] = {}
    by_entry: dict[int, str] = {}
    for note in _notes(sessions):
        if note.session_id is None and note.entry is not None:
            by_entry[note.entry] = note.text
        elif note.session_id is not None and note.text:
            by_id[note.session_id] = note.text
    for session in sessions:
        noted = by_id.get(session.session_id) or _noted_title(session, by_entry)
        given = session.facts.name or _name_elsewhere(session)
        session.title = (
            fold_name(given or "")
            or fold_name(noted or "")
            or choose_title(session.first_prompt, session.facts.fallback_title)
        )


def _place(sessions: list[Joined]) -> None:
    """Where a session was started, if only another source knows."""
    noted = {note.session_id: note.cwd for note in _notes(sessions) if note.cwd}
    for session in sessions:
        session.noted_cwd = noted.get(session.session_id)


def _notes(sessions: list[Joined]) -> Iterator[TitleNote]:
    for session in sessions:
        for part in session.parts:
            yield from part.facts.notes


def _name_elsewhere(session: Joined) -> str | None:
    """The name another part of the session gives it."""
    return next((part.facts.name for part in session.parts if part.facts.name), None)


def _noted_title(session: Joined, by_entry: dict[int, str]) -> str | None:
    """The title of the last line of this session that one was noted for."""
    if not by_entry:
        return None
    for key in reversed(session.trace.key_list()):
        if key in by_entry:
            return by_entry[key]
    return None


def _nest(sessions: list[Joined]) -> list[Joined]:
    """Hang sub-agents below their parents; one whose parent is gone stays on top."""
    by_id: dict[str, Joined] = {}
    for session in sessions:
        by_id.setdefault(session.session_id, session)
    top: list[Joined] = []
    for session in sessions:
        parent = by_id.get(session.parent or "") if session.kind == "subagent" else None
        if parent is None or _is_below(parent, session):
            top.append(session)
        else:
            parent.children.append(session)
    return top


def _is_below(candidate: Joined, session: Joined) -> bool:
    return any(descendant is candidate for descendant in session.with_children())


def _problems(sessions: Iterable[Joined]) -> Iterator[Problem]:
    for session in sessions:
        for part in session.parts:
            yield from part.facts.problems
        yield from session.problems
