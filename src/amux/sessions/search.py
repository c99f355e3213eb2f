"""`search`: one grammar and one matcher for all agents, over titles and whole conversations.

A hit is one text (a message with its thinking and tool traffic, or a title) that satisfies the
query. Sessions are ranked by how much of it they hold (BM25 over sessions), normalised to 0..1 with
the best at 1; of equals the newer comes first. Hits inside sub-agents count for the session they
belong to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from amux.model.message import SessionMessage
from amux.model.options import SessionQuery
from amux.model.problems import Problem
from amux.model.session import SessionSummary
from amux.sessions.assemble import Assembly
from amux.sessions.costing import Coster
from amux.sessions.filters import has_any_tag, in_span, used_model
from amux.sessions.library import Library
from amux.sessions.listing import sort_sessions
from amux.sessions.parts import Joined
from amux.sessions.query import Query, Term, fold, parse_query
from amux.sessions.snippets import cut_snippet
from amux.sessions.views import summarize

_WINDOW = 1 << 20  # characters folded at a time: a pasted log may be 50 MB
_OVERLAP = 1 << 10  # what a term may be long and still be found across two windows
_SATURATION = 1.5
_WEIGHTS = {"title": 5.0, "user": 3.0, "assistant": 2.0, "system": 0.5, "tool": 0.5}


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first, and what could not be read on the way."""

    sessions: tuple[SessionSummary, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _Hit:
    """What a session holds of the query."""

    summary: SessionSummary
    weights: dict[Term, float] = field(default_factory=dict[Term, float])
    matched: bool = False
    snippet: str | None = None


def search_sessions(
    library: Library, assemblies: Sequence[Assembly], query: SessionQuery, coster: Coster
) -> SearchReport:
    """Scan the sessions that pass the filters and rank those with a hit."""
    parsed = parse_query(query.text)
    scanned: list[_Hit] = []
    if parsed.alternatives:
        for assembly in assemblies:
            proposed = _proposed(library, assembly.agent, parsed)
            for session, summary in _candidates(assembly, query, coster):
                hit = _Hit(summary=summary)
                _look(hit, parsed, [summary.title], weight=_WEIGHTS["title"])
                if _is_proposed(session, proposed):
                    _scan(library, assembly, session, hit, parsed)
                scanned.append(hit)
    shown = _ranked(scanned, query)
    limit = len(shown) if query.limit is None else query.limit
    problems = [problem for assembly in assemblies for problem in assembly.problems]
    return SearchReport(sessions=tuple(shown[:limit]), problems=(*problems, *coster.problems))


def _candidates(
    assembly: Assembly, query: SessionQuery, coster: Coster
) -> Iterator[tuple[Joined, SessionSummary]]:
    for session in assembly.sessions:
        if not session.listed:
            continue
        summary = summarize(
            session,
            coster.cost_of(session),
            coster.tags_of(session),
            starred=coster.is_starred(session),
        )
        if (
            in_span(summary.created_at, query.since, query.until)
            and used_model(summary, query.model)
            and has_any_tag(summary.tags, query.tags)
        ):
            yield session, summary


def _proposed(library: Library, agent: str, query: Query) -> set[str] | None:
    """Sessions worth a look, by the agent's own index; None: look at all."""
    found: set[str] = set()
    for alternative in query.alternatives:
        words = [term.text for term in alternative.wanted if term.kind != "regex"]
        if len(words) < len(alternative.wanted):
            return None
        sessions = library.native_search(agent, words)
        if sessions is None:
            return None
        found |= sessions
    return found


def _is_proposed(session: Joined, proposed: set[str] | None) -> bool:
    """An index speaks only for what lies in the database, not for files beside it."""
    if proposed is None:
        return True
    return any(
        member.session_id in proposed or part.source.session_id is not None
        for member in session.with_children()
        for part in member.parts
    )


def _scan(library: Library, assembly: Assembly, session: Joined, hit: _Hit, query: Query) -> None:
    for member in session.with_children():
        for message in library.searchable(assembly, member):
            _look(hit, query, message_texts(message), weight=_WEIGHTS[message.role])
        for text in library.long_texts(assembly, member):
            _look(hit, query, text, weight=_WEIGHTS["tool"])


def _look(hit: _Hit, query: Query, texts: Iterable[str], *, weight: float) -> None:
    """Add one text, given in pieces, to what the session holds."""
    present, first = _count_terms(query, texts)
    if first is None:
        return
    held = {term: count for term, count in present.items() if term in query.terms}
    for term, count in held.items():
        hit.weights[term] = hit.weights.get(term, 0.0) + weight * count
    if query.matches(set(present)):
        hit.matched = True
        if hit.snippet is None:
            hit.snippet = cut_snippet(first, tuple(held))


def _count_terms(query: Query, texts: Iterable[str]) -> tuple[dict[Term, int], str | None]:
    """How often each term occurs, and the first piece of text that holds a wanted one."""
    wanted = query.terms
    terms = tuple(dict.fromkeys((*wanted, *query.unwanted)))
    counts: dict[Term, int] = {}
    first: str | None = None
    for window in (window for text in texts for window in _windows(text)):
        folded = fold(window)
        for term in terms:
            found = term.count(window, folded)
            if found:
                counts[term] = counts.get(term, 0) + found
                first = window if first is None and term in wanted else first
    return counts, first


def _windows(text: str) -> Iterator[str]:
    if len(text) <= _WINDOW:
        yield text
        return
    for start in range(0, len(text), _WINDOW - _OVERLAP):
        yield text[start : start + _WINDOW]


def message_texts(message: SessionMessage) -> Iterator[str]:
    """Everything a message says: words, thinking, tool input and output."""
    yield message.content
    if message.thinking:
        yield message.thinking
    for call in message.tool_calls:
        yield call.tool_name
        yield from _strings(call.input)
    if message.tool_result is not None and message.tool_result.output != message.content:
        yield from _strings(message.tool_result.output)


def _strings(value: Any) -> Iterator[str]:
    """All texts inside a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():  # pyright: ignore[reportUnknownVariableType] - foreign JSON
                yield from _strings(inner)
        case list() | tuple():
            for inner in value:  # pyright: ignore[reportUnknownVariableType] - foreign JSON
                yield from _strings(inner)
        case _:
            return


def _ranked(scanned: list[_Hit], query: SessionQuery) -> list[SessionSummary]:
    hits = [hit for hit in scanned if hit.matched]
    rarity = _rarity(scanned)
    scores = [
        sum(rarity[term] * held / (held + _SATURATION) for term, held in hit.weights.items())
        for hit in hits
    ]
    best = max(scores, default=0.0) or 1.0
    found = [
        msgspec.structs.replace(
            hit.summary, relevance_score=round(score / best, 6), snippet=hit.snippet
        )
        for hit, score in zip(hits, scores, strict=True)
    ]
    if query.sort != "relevance":
        return sort_sessions(found, query.sort, descending=True)
    newest_first = sort_sessions(found, "date", descending=True)
    return sorted(newest_first, key=lambda summary: -(summary.relevance_score or 0.0))


def _rarity(scanned: Sequence[_Hit]) -> dict[Term, float]:
    """Inverse document frequency of each term over the scanned sessions."""
    holders: dict[Term, int] = {}
    for hit in scanned:
        for term in hit.weights:
            holders[term] = holders.get(term, 0) + 1
    return {
        term: math.log(1 + (len(scanned) - count + 0.5) / (count + 0.5))
        for term, count in holders.items()
    }
