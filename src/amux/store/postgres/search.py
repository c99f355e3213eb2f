"""Searches records in PostgreSQL: indexes propose candidates, the shared matcher decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from psycopg import Connection

from amux.rollout.log import ContextMessage, MessageHit, SearchQuery
from amux.rollout.search_text import (
    CONTEXT_LENGTH,
    SearchAlternative,
    match_text,
    parse_search,
    snippet_of,
)
from amux.store.postgres.texts import ANY_WORD, lexeme_query, parts_of

_MOST_CANDIDATES: Final = 5_000
"""The candidates that a search looks at, the newest or oldest; more would be no search."""
_SAID: Final = f"left(body, least(content_length, {CONTEXT_LENGTH}))"
"""The SQL of the beginning of what a message says, without its tool calls."""


def search(connection: Connection[Any], query: SearchQuery) -> list[MessageHit]:
    """Return the hits of a query."""
    alternatives = parse_search(query.text)
    if not alternatives:
        return []
    matching, values = _candidates(alternatives)
    limits, more = _limits(query)
    order = "r.at, r.seq" if query.sort == "oldest" else "r.at DESC, r.seq DESC"
    rows = connection.execute(
        f"SELECT r.thread_id, r.id, r.seq, x.role, r.at, x.body, t.title, t.source, t.model, "  # noqa: S608 - constants
        "t.created_at FROM texts x JOIN records r USING (thread_id, seq) "
        f"JOIN threads t USING (thread_id) WHERE ({matching}) AND {limits} "
        f"ORDER BY {order} LIMIT %s".encode(),
        (*values, *more, _MOST_CANDIDATES),
    ).fetchall()
    found: list[tuple[int, Sequence[Any], tuple[str, ...]]] = []
    for row in rows:
        terms = match_text(alternatives, row[5])
        if terms is not None:
            count = sum(row[5].casefold().count(term.casefold()) for term in terms)
            found.append((count, row, terms))
    if query.sort == "rank":
        found.sort(key=lambda each: (-each[0], -each[1][4].timestamp(), each[1][1]))
    page = found[query.offset : query.offset + query.limit]
    return [_hit(connection, row, terms, query) for _, row, terms in page]


def _candidates(alternatives: Sequence[SearchAlternative]) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    for alternative in alternatives:
        conditions: list[str] = []
        for term in alternative.required:
            if term.substring or term.suffix:
                conditions.append("(x.parts @> %s OR x.parts @> %s)")
                values += [parts_of(term.text), [ANY_WORD]]
            else:
                conditions.append("x.words @@ %s::tsquery")
                values.append(lexeme_query(term.words, prefix=term.prefix))
        parts.append(" AND ".join(conditions))
    return " OR ".join(f"({part})" for part in parts), values


def _limits(query: SearchQuery) -> tuple[str, list[Any]]:
    parts, values = ["true"], list[Any]()
    if not query.include_inactive:
        parts.append("x.active")
    for condition, wanted in (
        ("t.source = ANY(%s)", list(query.sources)),
        ("t.source <> ALL(%s)", list(query.exclude_sources)),
        ("x.role = ANY(%s)", list(query.roles)),
        ("t.namespace = %s", query.namespace),
        ("r.thread_id = %s", query.thread_id),
    ):
        if wanted not in (None, []):
            parts.append(condition)
            values.append(wanted)
    return " AND ".join(parts), values


def _hit(
    connection: Connection[Any], row: Sequence[Any], terms: tuple[str, ...], query: SearchQuery
) -> MessageHit:
    thread_id, record_id, seq, role, at, body, title, source, model, created = row
    visible = "true" if query.include_inactive else "active"
    neighbours = connection.execute(
        f"(SELECT seq, role, {_SAID} FROM texts WHERE thread_id = %s AND seq <= %s "  # noqa: S608
        f"AND {visible} ORDER BY seq DESC LIMIT 2) UNION ALL "
        f"(SELECT seq, role, {_SAID} FROM texts WHERE thread_id = %s AND seq > %s "
        f"AND {visible} ORDER BY seq LIMIT 1) ORDER BY 1".encode(),
        (thread_id, seq, thread_id, seq),
    ).fetchall()
    return MessageHit(
        thread_id=thread_id,
        record_id=record_id,
        seq=seq,
        role=role,
        at=at,
        snippet=snippet_of(body, terms),
        context=tuple(ContextMessage(each[1], each[2]) for each in neighbours),
        title=title,
        source=source,
        model=model,
        session_started=created,
    )
