"""The groups of a cost report: under which keys a cell counts.

Several groupings at once make a key of several parts. As one text they are joined by ` | `; a `|`
or a backslash inside a part is then preceded by a backslash, so that no two keys look alike.
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
    """Keys of cells, one part per grouping."""

    def __init__(self, names: Sequence[GroupBy]) -> None:
        projects = Projects()
        parts: dict[GroupBy, _Part] = {
            "agent": lambda cell, _: (cell.agent,),
            "model": lambda cell, _: (cell.model,),
            "day": lambda cell, _: (cell.day,),
            "week": lambda cell, _: (iso_week(cell.day),),
            "month": lambda cell, _: (cell.day[: len("2026-11")],),
            "project": lambda cell, _: (projects.of(cell.cwd),),
            "session": lambda cell, _: (cell.address or UNATTRIBUTED,),
            "tag": lambda _, tags: tags or (UNTAGGED,),
        }
        self._parts = [parts[name] for name in names]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def keys(self, cell: LedgerEntry, tags: Sequence[str]) -> Sequence[Keys]:
        """Every group the cell counts in: several only where its session has several tags."""
        if not self._parts:
            return ()
        return tuple(product(*(part(cell, tags) for part in self._parts)))


def joined_key(keys: Keys) -> str:
    """The parts as one text; a single part stays as it is."""
    if len(keys) == 1:
        return keys[0]
    return SEPARATOR.join(part.replace("\\", "\\\\").replace("|", "\\|") for part in keys)


@lru_cache(maxsize=4096)
def iso_week(day: str) -> str:
    """`2026-W46`: weeks begin on Monday; the first one has the year's first Thursday."""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year:04}-W{week:02}"
