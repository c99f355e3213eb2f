"""Finds the sessions that affect one session, without reading all of them.

An adapter determines for each session the keys that related sessions may share: the id of a parent,
or the time of an answer that a fork repeats. Sessions that share a key, directly or through others,
can affect each other: which of them owns a call, its title, its children. They are read together,
and so are the sessions they name. All other sessions are not read.

`ANY` is the key of sessions that cannot be judged: they are always read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from amux.adapters._base import Item, SelectedSessions, SourceRef
from amux.adapters._kit.tables import can_choose
from amux.errors import ParseError
from amux.model.facts import Facts

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
LinkKey = str | int
LinkKeys = Mapping[str, Collection[LinkKey]]
"""The keys of each session of a source, by session id; the id itself is always a key as well."""

ANY: Final = ""


class Named(NamedTuple):
    """The id of a session and its other names."""

    session_id: str
    aliases: tuple[str, ...] = ()


class RelatedSessions(Protocol):
    """Selects, in rounds, the sessions that have to be read for one session."""

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        """Return the sessions related to those just read (at first none); empty when done."""
        ...


@runtime_checkable
class FindsRelated(Protocol):
    """Optional: an adapter that can find one session without reading the others."""

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the sessions of a source without an id in its name; None if it must be read."""
        ...

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Return the selection for a session among all sources; None if all must be read."""
        ...

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Yield the items of some sessions, equal to those of `read` with `want="facts"`."""
        ...


class SharedKeys:
    """Selects sessions by the keys they share."""

    def __init__(self, link_keys: Mapping[SourceRef, LinkKeys], session_id: str) -> None:
        self._link_keys = link_keys
        self._links: dict[LinkKey, list[LinkKey]] = {}  # from a session to its keys, and back
        self._reached: set[LinkKey] = set()
        self._chosen: set[tuple[str, str]] = set()
        self._start = (session_id, ANY)
        for sessions in link_keys.values():
            for id, keys in sessions.items():
                for key in keys:
                    self._links.setdefault(id, []).append(key)
                    self._links.setdefault(key, []).append(id)

    def more(self, read: Sequence[tuple[SourceRef, Facts]]) -> SelectedSessions:
        """Return the sessions not selected before that the facts just read lead to."""
        waiting: list[LinkKey] = [*self._start]
        waiting += (name for _, facts in read for name in names_of(facts))
        while waiting:
            key = waiting.pop()
            if key not in self._reached:
                self._reached.add(key)
                waiting += self._links.get(key, ())
        found: dict[SourceRef, list[str]] = {}
        for source, sessions in self._link_keys.items():
            pairs = {(source.location, id) for id in sessions if id in self._reached}
            if fresh := pairs - self._chosen:
                found[source] = [id for id in sessions if (source.location, id) in fresh]
                self._chosen |= fresh
        return found


def all_link_keys(
    sources: Sequence[SourceRef], keys_of: Callable[[SourceRef], LinkKeys | None]
) -> dict[SourceRef, LinkKeys] | None:
    """Return the keys of the sessions of all sources; None if one source has to be read."""
    found: dict[SourceRef, LinkKeys] = {}
    for source in sources:
        keys = keys_of(source)
        if keys is None:
            return None
        found[source] = keys
    return found


def query_database(source: SourceRef, query: Callable[[sqlite3.Connection], T | None]) -> T | None:
    """Return the result of a query; None if the database is unreadable, which `read` reports."""
    from amux.adapters._kit.sqlite import read_foreign

    try:
        return read_foreign(source.path, query)
    except (ParseError, OSError):
        return None


def queryable_ids(ids: Iterable[object]) -> list[str] | None:
    """Return the ids; None if one is a duplicate or cannot be looked up with a statement."""
    found: list[str] = []
    for id in ids:
        if not isinstance(id, str) or not id.strip() or not can_choose(id):
            return None
        found.append(id)
    return found if len(found) == len(set(found)) else None


def by_name(source: SourceRef) -> LinkKeys:
    """Return the keys of a source judged by its name; `ANY` if the name contains no id."""
    if source.session_id is None or source.role == "names":
        return {source.location: (ANY,)}
    return {source.session_id: () if source.parent is None else (source.parent,)}


def names_of(facts: Facts) -> Iterator[str]:
    """Yield the names of every session that the facts mention."""
    prefix = None if facts.prefix is None else facts.prefix.of
    named = (facts.session_id, *facts.aliases, facts.rollout, facts.parent, prefix, *facts.children)
    yield from filter(None, named)
