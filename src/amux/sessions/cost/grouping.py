"""The groups of a cost report: the keys under which a ledger entry counts.

Several groupings make a key of several parts. In a single string the parts are joined by ` | `; a
`|` or a backslash inside a part is escaped by a backslash, so that different keys stay different.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from itertools import product

from amux.assembly.ledger import LedgerEntry
from amux.model.options import GroupBy
from amux.sessions.cost.projects import Projects

UNTAGGED = "untagged"
UNATTRIBUTED = "unattributed"
SEPARATOR = " | "

Keys = tuple[str, ...]
_Part = Callable[[LedgerEntry, Sequence[str]], Sequence[str]]


class Grouping:
    """Computes the keys of entries, with one part per grouping."""

    def __init__(self, names: Sequence[GroupBy]) -> None:
        projects = Projects()
        parts: dict[GroupBy, _Part] = {
            "agent": lambda entry, _: (entry.agent,),
            "model": lambda entry, _: (entry.model,),
            "day": lambda entry, _: (entry.day,),
            "week": lambda entry, _: (iso_week(entry.day),),
            "month": lambda entry, _: (entry.day[: len("2026-11")],),
            "project": lambda entry, _: (projects.of(entry.cwd),),
            "session": lambda entry, _: (entry.address or UNATTRIBUTED,),
            "tag": lambda _, tags: tags or (UNTAGGED,),
        }
        self._parts = [parts[name] for name in names]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def keys(self, entry: LedgerEntry, tags: Sequence[str]) -> Sequence[Keys]:
        """Return the keys of all groups of an entry: several if its session has several tags."""
        if not self._parts:
            return ()
        return tuple(product(*(part(entry, tags) for part in self._parts)))


def joined_key(keys: Keys) -> str:
    """Return the parts as one string; a single part is returned unchanged."""
    if len(keys) == 1:
        return keys[0]
    return SEPARATOR.join(part.replace("\\", "\\\\").replace("|", "\\|") for part in keys)


@lru_cache(maxsize=4096)
def iso_week(day: str) -> str:
    """Return the ISO 8601 week, such as `2026-W46`: weeks begin on Monday."""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year:04}-W{week:02}"
