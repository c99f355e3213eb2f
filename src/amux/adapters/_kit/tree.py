"""A conversation that is stored as a tree: entries name their parent, and one branch is current.

Entries are identified by their position, the order in which they were written. An inconsistent tree
(an unknown parent, because its line was lost; a cycle) is repaired and never an error: an entry
without a usable parent follows the entry written before it.
"""

from __future__ import annotations

from array import array
from typing import Final

NOTHING: Final = -1


class EntryTree:
    """Collects entries and then determines branches and leaves."""

    __slots__ = ("_by_id", "_parents", "_promised", "_times")

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._parents = array("q")
        self._promised: dict[int, str] = {}  # ids of parents that were not written yet
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._parents)

    def add(
        self, entry_id: str | None, parent_id: str | None, *, at_ms: int, is_root: bool = False
    ) -> int:
        """Append an entry and return its position. A duplicate id refers to the first entry."""
        position = len(self)
        parent = NOTHING if is_root else position - 1
        if parent_id is not None and not is_root:
            known = self._by_id.get(parent_id)
            if known is None:
                self._promised[position] = parent_id
            else:
                parent = known
        if entry_id is not None:
            self._by_id.setdefault(entry_id, position)
        self._parents.append(parent)
        self._times.append(at_ms)
        return position

    def find(self, entry_id: str) -> int | None:
        """Return the position of an entry; None if the id is unknown."""
        return self._by_id.get(entry_id)

    def parent(self, position: int) -> int:
        """Return the position of an entry's parent; NOTHING for a root."""
        known = self._parents[position]
        if position not in self._promised:
            return known
        found = self._by_id.get(self._promised[position], known)
        return known if found == position else found

    def branch(self, leaf: int) -> list[int]:
        """Return the path from a root to an entry."""
        way: list[int] = []
        seen: set[int] = set()
        position = leaf
        while position != NOTHING and position not in seen:
            seen.add(position)
            way.append(position)
            position = self.parent(position)
        return way[::-1]

    def leaves(self) -> list[int]:
        """Return the entries without children."""
        parents = {self.parent(position) for position in range(len(self))}
        return [position for position in range(len(self)) if position not in parents]

    def newest_leaf(self) -> int:
        """Return the leaf of the branch with the latest time; of equals, the one written last."""
        children: dict[int, list[int]] = {}
        for position in range(len(self)):
            children.setdefault(self.parent(position), []).append(position)
        leaf = max(range(len(self)), key=self._age, default=NOTHING)
        seen: set[int] = set()
        while leaf in children and leaf not in seen:
            seen.add(leaf)
            leaf = max(children[leaf], key=self._age)
        return leaf

    def _age(self, position: int) -> tuple[int, int]:
        return self._times[position], position
