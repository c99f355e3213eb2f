"""Finds the terms of a query in the texts of a message.

Texts are folded one window at a time, because a text can be 50 MB long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from amux.model.message import SessionMessage
from amux.model.texts import strings_in
from amux.model.words import fold, fold_in_place
from amux.sessions.search.query.grammar import Query
from amux.sessions.search.query.terms import WHOLE, Cut, Term
from amux.sessions.search.snippets import SNIPPET_LENGTH, Excerpt, cut_excerpt


class Passage(NamedTuple):
    """One text of a message."""

    text: str
    is_thinking: bool = False
    is_spoken: bool = True  # written by a person or a model; else input or output of a tool


def passages(message: SessionMessage, *, said_only: bool = False) -> Iterator[Passage]:
    """Yield every text of a message, or with `said_only` those that are not tool text."""
    if message.content and not (said_only and message.role == "tool"):
        yield Passage(message.content, is_spoken=message.role != "tool")
    if message.thinking:
        yield Passage(message.thinking, is_thinking=True)
    if said_only:
        return
    for call in message.tool_calls:
        yield Passage(call.tool_name, is_spoken=False)
        for text in strings_in(call.input):
            yield Passage(text, is_spoken=False)
    if message.tool_result is not None and message.tool_result.output != message.content:
        for text in strings_in(message.tool_result.output):
            yield Passage(text, is_spoken=False)


def spoken_texts(message: SessionMessage) -> list[str]:
    """Return the content and the thinking of a message, without tool text."""
    return [passage.text for passage in passages(message, said_only=True)]


WINDOW: Final = 1 << 20
"""The number of characters of a text that are folded at once."""

_OVERLAP: Final = 1 << 10
"""The length up to which a term is found across two windows."""


class Window(NamedTuple):
    """A piece of a text, and whether it was cut at its beginning and its end."""

    text: str
    cut: Cut = WHOLE


class MatchState:
    """The terms of a query that a text, or a message with all its texts, contains.

    `present` are all of these terms, `spoken` those that occur outside tool text.
    """

    __slots__ = (
        "_folds_in_place",
        "_keeps_opening",
        "_opening",
        "_query",
        "_shown",
        "_shown_folded",
        "present",
        "spoken",
    )

    def __init__(self, query: Query) -> None:
        self._query = query
        self._shown: str | None = None  # the first window that contains a wanted term
        self._shown_folded: str | None = None
        self._opening = ""
        self._folds_in_place = query.has_ascii_words  # `fold_in_place` is faster and finds these
        self._keeps_opening = any(not each.wanted for each in query.alternatives)
        self.present: set[Term] = set()
        self.spoken: set[Term] = set()

    def add(self, text: str, *, is_spoken: bool = True, cut: Cut = WHOLE) -> None:
        """Search a further text, or a window of one."""
        if self._keeps_opening and len(self._opening) < 2 * SNIPPET_LENGTH:
            self._opening = f"{self._opening} {text[: 2 * SNIPPET_LENGTH]}".lstrip()
        if self._query.all_terms:
            for window in windows(text, cut=cut):
                self._add_window(window, self.spoken if is_spoken else self.present)

    @property
    def is_match(self) -> bool:
        """Whether the texts match the query."""
        return self._query.matches(self.present)

    @property
    def is_spoken(self) -> bool:
        """Whether the texts match the query without the input and output of tools."""
        return self._query.matches(self.spoken)

    @property
    def found(self) -> tuple[Term, ...]:
        """The wanted terms that are present."""
        return tuple(term for term in self._query.terms if term in self.present)

    def excerpt(self) -> Excerpt:
        """Return the text around the wanted terms, or the beginning if none is wanted."""
        text = self._opening if self._shown is None else self._shown
        return cut_excerpt(text, self.found, self._shown_folded)

    def _add_window(self, window: Window, present: set[Term]) -> None:
        in_place = fold_in_place(window.text) if self._folds_in_place else None
        folded = fold(window.text) if in_place is None else in_place
        for term in self._query.all_terms:
            if not term.count(window.text, folded, cut=window.cut):
                continue
            self.present.add(term)
            present.add(term)
            if self._shown is None and term in self._query.terms:
                self._shown, self._shown_folded = window.text, folded


def windows(text: str, *, cut: Cut = WHOLE) -> Iterator[Window]:
    """Yield a text in windows that overlap."""
    start, end = 0, WINDOW
    while end < len(text):
        yield Window(text[start:end], (cut[0] or start > 0, True))
        start, end = start + WINDOW - _OVERLAP, end + WINDOW - _OVERLAP
    yield Window(text[start:] if start else text, (cut[0] or start > 0, cut[1]))
