"""Assembles the sessions of one agent from the facts of its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from amux.assembly.lineage import resolve_lineage
from amux.assembly.session import (
    AssembledSession,
    MessageSources,
    SessionNames,
    SourceSession,
    SourceSlice,
    join_sources,
    unique_aliases,
)
from amux.model.facts import TitleNote
from amux.model.problems import Problem
from amux.model.titles import choose_title, fold_name
from amux.model.trace import LineKind, merged_trace

SOURCE_FAILURES: Final = frozenset({"unreadable", "unknown-format", "decoder-missing"})
"""Codes of problems that make a whole source unreadable."""


@dataclass(slots=True)
class Assembly:
    """All sessions of one agent that the given sources contain."""

    agent: str
    sessions: list[AssembledSession]  # top level; sub-agents are children of their parents
    unattributed: list[AssembledSession]  # billed calls that belong to no session
    problems: list[Problem]
    _by_rollout: dict[str, SourceSession] = field(default_factory=dict[str, SourceSession])

    def find(self, session_id: str) -> AssembledSession | None:
        """Return the newest session or sub-agent with that id, else the first with that alias."""
        named = [session for session in self.all_sessions() if session_id in session.names()]
        by_id = [session for session in named if session.session_id == session_id]
        return max(by_id or named[:1], key=_updated, default=None)

    def unique_name(self, session: AssembledSession) -> str:
        """Return the id of a session, or an alias if other sessions have the id as well."""
        return unique_aliases(self.all_sessions()).get(session, session.session_id)

    def all_sessions(self) -> Iterator[AssembledSession]:
        """Yield all sessions, each followed by its sub-agents."""
        for session in self.sessions:
            yield from session.with_children()

    def source_path(self, session: AssembledSession) -> list[tuple[SourceSession, int | None]]:
        """Return the sources of the session's messages in order, each with the key it ends at."""
        prefixes = [*_prefixes(session.primary, self._by_rollout)]
        return [*reversed(prefixes), *((fragment, None) for fragment in session.fragments)]


def assemble(
    agent: str, parts: Iterable[SourceSession], problems: Iterable[Problem] = ()
) -> Assembly:
    """Join sources into sessions and assign every call to exactly one of them."""
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
        problems=[
            *problems,
            *(problem for session in sessions for problem in session.all_problems()),
        ],
        _by_rollout=by_rollout,
    )


def message_sources(assembly: Assembly, session: AssembledSession) -> MessageSources:
    """Return the sources of the session's messages, in order."""
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
    """Map every id by which a prefix may refer to a log to that log."""
    rollouts: dict[str, SourceSession] = {}
    for session in sessions:
        for part in session.sources:
            rollouts[part.facts.rollout or part.facts.session_id] = part
        rollouts.setdefault(session.session_id, session.primary)
    return rollouts


def _prefixes(
    part: SourceSession, by_rollout: dict[str, SourceSession]
) -> Iterator[tuple[SourceSession, int]]:
    """Yield the logs a source refers to, nearest first, each with the trace key it is cut at."""
    seen = {id(part)}
    prefix = part.facts.prefix
    limit: int | None = None
    while prefix is not None:
        parent = by_rollout.get(prefix.of)
        if parent is None or id(parent) in seen:
            return
        seen.add(id(parent))
        # A log further back is never read beyond the cut of a nearer one.
        limit = prefix.until if limit is None else min(limit, prefix.until)
        yield parent, limit
        prefix = parent.facts.prefix


def _read_through_prefix(session: AssembledSession, by_rollout: dict[str, SourceSession]) -> None:
    """Set the trace and the first prompt of the whole conversation, referenced logs included."""
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
    """Set each title: the given name, else a title noted in any source, else the first prompt."""
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
    """Set the directories that other sources note for a session."""
    noted = {note.session_id: note.cwd for note in _notes(sessions) if note.cwd}
    for session in sessions:
        session.inherited_cwd = noted.get(session.session_id)


def _notes(sessions: list[AssembledSession]) -> Iterator[TitleNote]:
    for session in sessions:
        for part in session.sources:
            yield from part.facts.notes


def _noted_title(session: AssembledSession, by_entry: dict[int, str]) -> str | None:
    """Return the title noted for the last line that has one; None if no line has one."""
    keys = reversed(session.trace.key_list()) if by_entry else ()
    return next((by_entry[key] for key in keys if key in by_entry), None)


def _nest_children(sessions: list[AssembledSession]) -> list[AssembledSession]:
    """Move sub-agents below their parents; those without one stay at the top level."""
    names = SessionNames(sessions)
    top: list[AssembledSession] = []
    for session in sessions:
        parent = names.find(session.parent, session) if session.kind == "subagent" else None
        if parent is None or any(below is parent for below in session.with_children()):
            top.append(session)
        else:
            parent.children.append(session)
    return top
