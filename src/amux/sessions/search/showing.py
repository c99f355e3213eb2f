"""Hits that are known before they are read: what is shown of them.

That they fit is known, so it is enough to find the first place that does.
"""

from __future__ import annotations

from amux.model.message import SessionMessage
from amux.sessions.search.match import WINDOW, MatchState
from amux.sessions.search.passages import passages, said_in
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.snippets import Excerpt, find_excerpt


def excerpt_of(message: SessionMessage, query: Query) -> Excerpt | None:
    """The words around what was wanted; None: the message does not fit after all."""
    texts = said_in(message) if query.said_only else [each.text for each in passages(message)]
    has_choice = len(query.alternatives) > 1 or not query.terms
    if has_choice or sum(map(len, texts)) > WINDOW:
        return _weighed(texts, query)
    for text in texts:
        excerpt = find_excerpt(text, query.terms)
        if excerpt is not None:
            return excerpt  # it holds all of the terms
    return None


def _weighed(texts: list[str], query: Query) -> Excerpt | None:
    tally = MatchState(query)
    for text in texts:
        tally.add(text)
    return tally.excerpt() if tally.is_match else None
