"""One session of many: which others bear on it, found without reading all of them.

A store says of each of its sessions what it may have in common with others: the name of a parent,
the moment of an answer that a fork repeats. Sessions that share such a mark, directly or through
others, bear on each other: on who pays for a call, on titles, on what is nested below what. They
are read together; whatever they name is reached in turn. The rest of the store is left alone.

`ANY` marks what does not tell: it is read whichever session is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from amux.adapters._base import Chosen, Item, SourceRef
from amux.adapters._kit.tables import can_choose
from amux.errors import ParseError
from amux.model.facts import Facts

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
Mark = str | int
Marked = Mapping[str, Collection[Mark]]
"""The sessions of a source, each with its marks; its id is one of them without being said."""

ANY: Final = ""


class Named(NamedTuple):
    """What a session goes by."""

    session_id: str
    aliases: tuple[str, ...] = ()


class Kin(Protocol):
    """What has to be read for an exact answer about one session, found out step by step."""

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        """What bears on that which was just read, at first on nothing; none: all is read."""
        ...


@runtime_checkable
class Direct(Protocol):
    """An adapter that finds one session without reading the others (optional)."""

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """The sessions of a source whose name promises none; None: only reading it tells."""
        ...

    def kin(self, sources: Sequence[SourceRef], session_id: str) -> Kin | None:
        """What bears on a session among all sources of the agent; None: that is not told."""
        ...

    def read_chosen(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """What `read` tells of some sessions of a source when facts are wanted."""
        ...


class MarkedKin:
    """Kin by the marks that sessions share."""

    def __init__(self, marked: Mapping[SourceRef, Marked], session_id: str) -> None:
        self._marked = marked
        self._marks: dict[Mark, list[Mark]] = {}  # of a session: its marks, and the reverse
        self._reached: set[Mark] = set()
        self._chosen: set[tuple[str, str]] = set()
        self._start = (session_id, ANY)
        for sessions in marked.values():
            for id, marks in sessions.items():
                for mark in marks:
                    self._marks.setdefault(id, []).append(mark)
                    self._marks.setdefault(mark, []).append(id)

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> Chosen:
        """The sessions that what was read leads to."""
        self._reach([*self._start, *(name for _, facts in read for name in names_of(facts))])
        found = {source: self._fresh(source, sessions) for source, sessions in self._marked.items()}
        return {source: ids for source, ids in found.items() if ids}

    def _reach(self, marks: Iterable[Mark]) -> None:
        waiting = [mark for mark in marks if mark not in self._reached]
        while waiting:
            mark = waiting.pop()
            if mark not in self._reached:
                self._reached.add(mark)
                waiting += self._marks.get(mark, ())

    def _fresh(self, source: SourceRef, sessions: Marked) -> list[str]:
        ids = [id for id in sessions if id in self._reached]
        fresh = [id for id in ids if (source.place, id) not in self._chosen]
        self._chosen.update((source.place, id) for id in fresh)
        return fresh


def mark_all(
    sources: Sequence[SourceRef], mark: Callable[[SourceRef], Marked | None]
) -> dict[SourceRef, Marked] | None:
    """The marks of all sources; None when one of them does not tell."""
    found: dict[SourceRef, Marked] = {}
    for source in sources:
        marked = mark(source)
        if marked is None:
            return None
        found[source] = marked
    return found


def ask_database(source: SourceRef, question: Callable[[sqlite3.Connection], T | None]) -> T | None:
    """The answer of a database; None for one that cannot be read: reading it tells why."""
    from amux.adapters._kit.sqlite import read_foreign

    try:
        return read_foreign(source.path, question)
    except (ParseError, OSError):
        return None


def askable(ids: Iterable[object]) -> list[str] | None:
    """Ids by which a statement finds sessions; None when one of them does not, or comes twice."""
    found: list[str] = []
    for id in ids:
        if not isinstance(id, str) or not id.strip() or not can_choose(id):
            return None
        found.append(id)
    return found if len(found) == len(set(found)) else None


def by_name(source: SourceRef) -> Marked:
    """A source as far as its name tells; one that promises no session has to be read."""
    if source.session_id is None or source.role == "names":
        return {source.place: (ANY,)}
    return {source.session_id: () if source.parent is None else (source.parent,)}


def names_of(facts: Facts) -> Iterator[str]:
    """Every session that some facts speak of."""
    prefix = None if facts.prefix is None else facts.prefix.of
    named = (facts.session_id, *facts.aliases, facts.rollout, facts.parent, prefix, *facts.children)
    yield from filter(None, named)
