"""Which sources bear on each other, as numbers.

Two sources belong together when they share a name of a session (its id, an alias, a parent),
content that only a copy can share, or a title for a line of the other. Sessions can be put together
cluster by cluster: what is in none of a cluster's sources has no influence on its sessions. A
cluster may be larger than needed, never smaller.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import msgspec

from amux.model.facts import Facts
from amux.model.trace import key_of


class SourceKeys(msgspec.Struct, frozen=True):
    """The numbers of one source. Each is an array of 64-bit keys."""

    own: bytes  # the sessions it holds, by every name
    named: bytes  # other sessions that it refers to
    content: bytes  # messages and calls that only a copy can share
    noted: bytes  # lines of other sources that it has a title for


def source_keys(facts: Iterable[Facts]) -> SourceKeys:
    """What a source has in common with others."""
    own: dict[int, None] = {}
    named: dict[int, None] = {}
    content: dict[int, None] = {}
    noted: dict[int, None] = {}
    for each in facts:
        for name in (each.session_id, *each.aliases, each.rollout):
            if name:
                own[key_of(name)] = None
        prefix = each.prefix.of if each.prefix is not None else None
        for name in (each.parent, prefix, *(note.session_id for note in each.notes)):
            if name:
                named[key_of(name)] = None
        content.update(dict.fromkeys(array("q", each.copy_keys)))
        noted.update({note.entry: None for note in each.notes if note.entry is not None})
    return SourceKeys(*(array("q", keys).tobytes() for keys in (own, named, content, noted)))


class Clusters:
    """Puts sources into clusters; an entangled one has a session or a message in two sources."""

    def __init__(self) -> None:
        self._leader: dict[int, int] = {}
        self._holder: dict[int, int] = {}  # of a name or of content: the first source with it
        self._owner: dict[int, int] = {}
        self._entangled: set[int] = set()

    def add(self, source: int, links: SourceKeys) -> None:
        """Enter one source."""
        self._leader[source] = source
        for key in array("q", links.own):
            if self._owner.setdefault(key, source) != source:
                self._entangled.add(source)
            self._meet(key, source)
        for key in array("q", links.named):
            self._meet(key, source)
        content = array("q", links.content)
        if self._holder.keys().isdisjoint(content):  # as nearly all are
            self._holder.update(dict.fromkeys(content, source))
            return
        met = [self._meet(key, source) for key in content]
        if any(met):
            self._entangled.add(source)

    def add_notes(self, source: int, noted: bytes) -> None:
        """Enter the lines that a source has titles for; several may have one for the same line."""
        for key in array("q", noted):
            self._meet(key, source)

    def add_lines(self, source: int, lines: bytes) -> None:
        """Bring a source together with those that have titles for its lines."""
        for key in self._holder.keys() & set(array("q", lines)):
            self._meet(key, source)

    def _meet(self, key: int, source: int) -> bool:
        """Join a source with the first that has the key; whether there was one."""
        first = self._holder.setdefault(key, source)
        if first == source:
            return False
        self._join(first, source)
        return True

    def find(self, source: int) -> int:
        """The number of a source's cluster."""
        leader = self._leader
        while leader[source] != source:
            leader[source] = leader[leader[source]]
            source = leader[source]
        return source

    def holding(self, name: str) -> int | None:
        """The cluster of the session that goes by this name; None: no source holds it."""
        source = self._owner.get(key_of(name))
        return None if source is None else self.find(source)

    def members(self) -> dict[int, list[int]]:
        """All clusters, each with its sources in order."""
        found: dict[int, list[int]] = {}
        for source in self._leader:
            found.setdefault(self.find(source), []).append(source)
        return found

    def with_shared_calls(self) -> set[int]:
        """Clusters in which it may take more than usage to say whose a call is."""
        return {self.find(source) for source in self._entangled}

    def _join(self, one: int, other: int) -> None:
        first, second = self.find(one), self.find(other)
        if first != second:
            self._leader[max(first, second)] = min(first, second)
