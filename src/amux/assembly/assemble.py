"""From the facts of many sources to sessions: joined, named, related, every call owned once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from amux.assembly.lineage import resolve_lineage
from amux.assembly.session import (
    AssembledSession,
    MessageSources,
    SourceSession,
    SourceSlice,
    join_sources,
)
from amux.model.facts import TitleNote
from amux.model.problems import Problem
from amux.model.titles import choose_title, fold_name
from amux.model.trace import LineKind, merged_trace

SOURCE_FAILURES: Final = frozenset({"unreadable", "unknown-format", "decoder-missing"})


@dataclass(slots=True)
class Assembly:
    """All sessions of one agent, as far as the given parts tell."""

    agent: str
    sessions: list[AssembledSession]  # top level: sub-agents hang below their parents
    unattributed: list[AssembledSession]  # billed calls of no session
    problems: list[Problem]
    _by_rollout: dict[str, SourceSession] = field(default_factory=dict[str, SourceSession])

    def find(self, session_id: str) -> AssembledSession | None:
        """The session with that id or alias, sub-agents included; of equals the newest."""
        by_id: list[AssembledSession] = []
        by_alias: list[AssembledSession] = []
        for session in self.all_sessions():
            if session.session_id == session_id:
                by_id.append(session)
            elif any(session_id in part.facts.aliases for part in session.sources):
                by_alias.append(session)
        return max(by_id or by_alias[:1], key=_updated, default=None)

    def all_sessions(self) -> Iterator[AssembledSession]:
        """All sessions, sub-agents too."""
        for session in self.sessions:
            yield from session.with_children()

    def source_path(self, session: AssembledSession) -> list[tuple[SourceSession, int | None]]:
        """The parts to read for the session's messages, in order, each up to a trace key."""
        prefixes = [*_prefixes(session.primary, self._by_rollout)]
        return [*reversed(prefixes), *((fragment, None) for fragment in session.fragments)]


def assemble(
    agent: str, parts: Iterable[SourceSession], problems: Iterable[Problem] = ()
) -> Assembly:
    """Join sources into sessions and give every call to one of them."""
    sessions = join_sources(agent, parts)
    by_rollout = _rollouts(sessions)
    for session in sessions:
        _read_through_prefix(session, by_rollout)
    resolve_lineage(sessions)
    _assign_titles(sessions)
    _inherit_directories(sessions)
    return Assembly(
        agent=agent,
        sessions=_nest_children([session for session in sessions if session.attributed]),
        unattributed=[session for session in sessions if not session.attributed],
        problems=[*problems, *_problems(sessions)],
        _by_rollout=by_rollout,
    )


def message_sources(assembly: Assembly, session: AssembledSession) -> MessageSources:
    """Where the session's messages lie."""
    return MessageSources(
        session.session_id,
        tuple(
            SourceSlice(part.source, part.facts.session_id, until)
            for part, until in assembly.source_path(session)
        ),
        len(session.fragments) > 1,
    )


def _updated(session: AssembledSession) -> float:
    at = session.facts.updated_at
    return 0.0 if at is None else at.timestamp()


def _rollouts(sessions: Iterable[AssembledSession]) -> dict[str, SourceSession]:
    """Every id by which a prefix may refer to a log."""
    rollouts: dict[str, SourceSession] = {}
    for session in sessions:
        for part in session.sources:
            rollouts[part.facts.rollout or part.facts.session_id] = part
        rollouts.setdefault(session.session_id, session.primary)
    return rollouts


def _prefixes(
    part: SourceSession, by_rollout: dict[str, SourceSession]
) -> Iterator[tuple[SourceSession, int]]:
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


def _read_through_prefix(session: AssembledSession, by_rollout: dict[str, SourceSession]) -> None:
    """Trace and first prompt of the whole conversation."""
    session.trace = merged_trace([fragment.facts.trace for fragment in session.fragments])
    prompts = (fragment.facts.first_prompt for fragment in session.fragments)
    session.first_prompt = next((prompt for prompt in prompts if prompt), None)
    last = session.primary
    for part, until in _prefixes(session.primary, by_rollout):
        last = part
        before = part.facts.trace.before(until)
        session.trace = before + session.trace
        if LineKind.PROMPT in before.kinds:
            session.first_prompt = part.facts.first_prompt or session.first_prompt
    missing = last.facts.prefix
    if missing is not None and missing.of not in by_rollout:
        session.problems.append(
            Problem(
                code="missing-parent",
                message=f"its earlier history lies in `{missing.of}`, which is gone",
                path=last.source.location,
            )
        )


def _assign_titles(sessions: list[AssembledSession]) -> None:
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
        names = (session.facts.name, *(part.facts.name for part in session.sources))
        session.title = (
            fold_name(next(filter(None, names), ""))
            or fold_name(noted or "")
            or choose_title(session.first_prompt, session.facts.fallback_title)
        )


def _inherit_directories(sessions: list[AssembledSession]) -> None:
    """Where a session was started, if only another source knows."""
    noted = {note.session_id: note.cwd for note in _notes(sessions) if note.cwd}
    for session in sessions:
        session.inherited_cwd = noted.get(session.session_id)


def _notes(sessions: list[AssembledSession]) -> Iterator[TitleNote]:
    for session in sessions:
        for part in session.sources:
            yield from part.facts.notes


def _noted_title(session: AssembledSession, by_entry: dict[int, str]) -> str | None:
    """The title of the last line of this session that one was noted for."""
    keys = reversed(session.trace.key_list()) if by_entry else ()
    return next((by_entry[key] for key in keys if key in by_entry), None)


def _nest_children(sessions: list[AssembledSession]) -> list[AssembledSession]:
    """Hang sub-agents below their parents; one whose parent is gone stays on top."""
    by_id: dict[str, AssembledSession] = {}
    for session in sessions:
        by_id.setdefault(session.session_id, session)
    top: list[AssembledSession] = []
    for session in sessions:
        parent = by_id.get(session.parent or "") if session.kind == "subagent" else None
        if parent is None or any(below is parent for below in session.with_children()):
            top.append(session)
        else:
            parent.children.append(session)
    return top


def _problems(sessions: Iterable[AssembledSession]) -> Iterator[Problem]:
    for session in sessions:
        for part in session.sources:
            yield from part.facts.problems
        yield from session.problems
