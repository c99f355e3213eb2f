"""Terms joined by AND, OR, NOT and parentheses, as alternatives without parentheses.

`(a OR b) c` is `a c` or `b c`. Such a list can grow beyond measure, so it is bounded; whoever reads
a query then has to do without its parentheses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from amux.sessions.search.query.terms import Term

MOST_ALTERNATIVES: Final = 64


@dataclass(frozen=True)
class Alternative:
    """All of `wanted` and none of `unwanted`, in one text."""

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()

    def plus(self, other: Alternative) -> Alternative:
        """What both want."""
        return Alternative(self.wanted + other.wanted, self.unwanted + other.unwanted)

    def opposites(self) -> list[Alternative]:
        """The ways not to fit."""
        missing = [Alternative(unwanted=(term,)) for term in self.wanted]
        return missing + [Alternative(wanted=(term,)) for term in self.unwanted]


class TooManyAlternativesError(Exception):
    """Parentheses that multiply to more than can be kept."""


@dataclass
class _Group:
    """What stands between two parentheses: alternatives, and what was joined since the last OR."""

    is_negated: bool = False
    closed: list[Alternative] = field(default_factory=list[Alternative])
    wanted: list[Term] = field(default_factory=list[Term])
    unwanted: list[Term] = field(default_factory=list[Term])
    groups: list[Sequence[Alternative]] = field(default_factory=list[Sequence[Alternative]])

    def join(self, found: Sequence[Alternative]) -> None:
        """One of these must fit, too."""
        if len(found) == 1:
            self.wanted += found[0].wanted
            self.unwanted += found[0].unwanted
        elif found:
            self.groups.append(found)

    def close(self) -> None:
        """Another alternative begins, or the group ends."""
        plain = Alternative(tuple(self.wanted), tuple(self.unwanted))
        if self.groups or plain != Alternative():
            self.closed += _product([[plain], *self.groups])
        self.wanted, self.unwanted, self.groups = [], [], []


class Groups:
    """Takes the pieces of a query in order. Parentheses that do not match do no harm."""

    def __init__(self) -> None:
        self._open = [_Group()]

    def take(self, term: Term, *, is_negated: bool) -> None:
        """One term."""
        group = self._open[-1]
        (group.unwanted if is_negated else group.wanted).append(term)

    def take_or(self) -> None:
        """What follows is another alternative."""
        self._open[-1].close()

    def begin(self, *, is_negated: bool) -> None:
        """An opening parenthesis."""
        self._open.append(_Group(is_negated))

    def end(self) -> None:
        """A closing parenthesis."""
        if len(self._open) == 1:
            return
        group = self._open.pop()
        group.close()
        found: Sequence[Alternative] = group.closed
        if group.is_negated:
            found = _product(each.opposites() for each in found)
        self._open[-1].join(found)

    def alternatives(self) -> list[Alternative]:
        """All that was taken."""
        while len(self._open) > 1:
            self.end()
        self._open[0].close()
        return self._open[0].closed


def _product(factors: Iterable[Sequence[Alternative]]) -> list[Alternative]:
    """One of each, in every combination."""
    product: list[Alternative] = []
    for factor in factors:
        if len(product) * len(factor) > MOST_ALTERNATIVES:
            raise TooManyAlternativesError
        product = [one.plus(other) for one in product or [Alternative()] for other in factor]
    return product
