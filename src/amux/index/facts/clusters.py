"""Finds which sources affect each other.

Two sources belong to one cluster if they share the name of a session (its id, an alias, a parent),
content that only a copy can share, or if one has a title for a line of the other. Sessions can be
assembled cluster by cluster: no other source affects them. A cluster may be larger than necessary,
never smaller.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import msgspec

from amux.model.facts import Facts
from amux.model.trace import key_of


class SourceKeys(msgspec.Struct, frozen=True):
    """The keys by which a source is linked to others; each field is an array of 64-bit numbers."""

    own: bytes  # every name of the sessions it holds
    named: bytes  # other sessions that it refers to
    content: bytes  # messages and calls that only a copy can share
    titled: bytes  # lines of other sources that it has a title for


def source_keys(facts: Iterable[Facts]) -> SourceKeys:
    """Return the keys of a source."""
    own: dict[int, None] = {}
    named: dict[int, None] = {}
    content: dict[int, None] = {}
    titled: dict[int, None] = {}
    for each in facts:
        for name in (each.session_id, *each.aliases, each.rollout):
            if name:
                own[key_of(name)] = None
        prefix = each.prefix.of if each.prefix is not None else None
        for name in (each.parent, prefix, *(note.session_id for note in each.notes)):
            if name:
                named[key_of(name)] = None
        content.update(dict.fromkeys(array("q", each.copy_keys)))
        titled.update({note.entry: None for note in each.notes if note.entry is not None})
    return SourceKeys(*(array("q", keys).tobytes() for keys in (own, named, content, titled)))


class Clusters:
    """A union-find over sources, which are identified by number."""

    def __init__(self) -> None:
        self._leader: dict[int, int] = {}
        self._first: dict[int, int] = {}  # source with a name, content or line
        self._owner: dict[int, int] = {}

    def add(self, source: int, keys: SourceKeys) -> None:
        """Add a source."""
        self._leader[source] = source
        for key in array("q", keys.own):
            self._owner.setdefault(key, source)
            self._join_by_key(key, source)
        for key in array("q", keys.named):
            self._join_by_key(key, source)
        content = array("q", keys.content)
        if self._first.keys().isdisjoint(content):  # as nearly all are
            self._first.update(dict.fromkeys(content, source))
            return
        for key in content:
            self._join_by_key(key, source)

    def add_notes(self, source: int, titled: bytes) -> None:
        """Add the lines that a source has titles for; several sources may title the same line."""
        for key in array("q", titled):
            self._join_by_key(key, source)

    def add_lines(self, source: int, lines: bytes) -> None:
        """Join a source with the sources that have titles for its lines."""
        for key in self._first.keys() & set(array("q", lines)):
            self._join_by_key(key, source)

    def _join_by_key(self, key: int, source: int) -> None:
        """Join a source with the first that has the key."""
        first = self._first.setdefault(key, source)
        if first != source:
            one, other = self.find(first), self.find(source)
            self._leader[max(one, other)] = min(one, other)

    def find(self, source: int) -> int:
        """Return the number of a source's cluster."""
        leader = self._leader
        while leader[source] != source:
            leader[source] = leader[leader[source]]
            source = leader[source]
        return source

    def holding(self, name: str) -> int | None:
        """Return the cluster of the session with this name; None if no source holds it."""
        source = self._owner.get(key_of(name))
        return None if source is None else self.find(source)

    def members(self) -> dict[int, list[int]]:
        """Return the sources of every cluster, in order."""
        found: dict[int, list[int]] = {}
        for source in self._leader:
            found.setdefault(self.find(source), []).append(source)
        return found
