"""What one text holds of a query. Texts are folded a window at a time: one may be 50 MB."""

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
    """A piece of a message."""

    text: str
    is_thinking: bool = False
    is_said: bool = True  # by people and models; else it went into a tool or came out of one


def passages(message: SessionMessage, *, said_only: bool = False) -> Iterator[Passage]:
    """Everything a message says, in pieces; or only what was said and thought."""
    found = _passages(message)
    return (each for each in found if each.is_said) if said_only else found


def said_in(message: SessionMessage) -> list[str]:
    """The texts of what was said and thought, without tool text."""
    said = [message.content] if message.content and message.role != "tool" else []
    if message.thinking:
        said.append(message.thinking)
    return said


def _passages(message: SessionMessage) -> Iterator[Passage]:
    if message.content:
        yield Passage(message.content, is_said=message.role != "tool")
    if message.thinking:
        yield Passage(message.thinking, is_thinking=True)
    for call in message.tool_calls:
        yield Passage(call.tool_name, is_said=False)
        for text in strings_in(call.input):
            yield Passage(text, is_said=False)
    if message.tool_result is not None and message.tool_result.output != message.content:
        for text in strings_in(message.tool_result.output):
            yield Passage(text, is_said=False)


WINDOW: Final = 1 << 20
"""Characters of a text that are folded at once."""

_OVERLAP: Final = 1 << 10
"""What a term may be long and still be found across two windows."""


class Window(NamedTuple):
    """A piece of a text, and whether it was cut in front and behind."""

    text: str
    cut: Cut = WHOLE


class MatchState:
    """What a text, or a message with all its texts, holds of a query.

    `present` are the terms it has, `said` those that people and models said.
    """

    __slots__ = (
        "_is_in_place",
        "_keeps_opening",
        "_opening",
        "_query",
        "_shown",
        "_shown_folded",
        "present",
        "said",
    )

    def __init__(self, query: Query) -> None:
        self._query = query
        self._shown: str | None = None  # the first window that holds a wanted term
        self._shown_folded: str | None = None
        self._opening = ""
        self._is_in_place = query.has_ascii_words  # these are found sooner
        self._keeps_opening = any(not each.wanted for each in query.alternatives)
        self.present: set[Term] = set()
        self.said: set[Term] = set()

    def add(self, text: str, *, is_said: bool = True, cut: Cut = WHOLE) -> None:
        """Look through one more text, or a window of one."""
        if self._keeps_opening and len(self._opening) < 2 * SNIPPET_LENGTH:
            self._opening = f"{self._opening} {text[: 2 * SNIPPET_LENGTH]}".lstrip()
        if self._query.all_terms:
            for window in windows(text, cut=cut):
                self._look(window, self.said if is_said else self.present)

    @property
    def is_match(self) -> bool:
        """Whether the text fits the query."""
        return self._query.matches(self.present)

    @property
    def is_said(self) -> bool:
        """Whether it would fit without what tools were given and gave back."""
        return self._query.matches(self.said)

    @property
    def found(self) -> tuple[Term, ...]:
        """What was wanted and is there."""
        return tuple(term for term in self._query.terms if term in self.present)

    def excerpt(self) -> Excerpt:
        """The words around what was wanted; the beginning where nothing was."""
        text = self._opening if self._shown is None else self._shown
        return cut_excerpt(text, self.found, self._shown_folded)

    def _look(self, window: Window, present: set[Term]) -> None:
        in_place = fold_in_place(window.text) if self._is_in_place else None
        folded = fold(window.text) if in_place is None else in_place
        for term in self._query.all_terms:
            if not term.count(window.text, folded, cut=window.cut):
                continue
            self.present.add(term)
            present.add(term)
            if self._shown is None and term in self._query.terms:
                self._shown, self._shown_folded = window.text, folded


def windows(text: str, *, cut: Cut = WHOLE) -> Iterator[Window]:
    """A text in windows that overlap."""
    start, end = 0, WINDOW
    while end < len(text):
        yield Window(text[start:end], (cut[0] or start > 0, True))
        start, end = start + WINDOW - _OVERLAP, end + WINDOW - _OVERLAP
    yield Window(text[start:] if start else text, (cut[0] or start > 0, cut[1]))
