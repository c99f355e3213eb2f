"""Who descends from whom. Hermes links every child to its parent and says why only sometimes.

A child made after its parent had ended continues it (compression) or branches off from it; any
other child is a sub-agent. Newer versions mark branches and sub-agents in the child itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amux.adapters.hermes.rows import SessionRow
from amux.model.facts import Kind


@dataclass(slots=True, frozen=True)
class Lineage:
    """What a session is to its parent."""

    kind: Kind
    parent: str | None
    cwd: str | None


def lineage_of(row: SessionRow, rows: Mapping[str, SessionRow]) -> Lineage:
    """Kind and parent of a session, and the directory it inherits."""
    ancestors = _ancestors(row, rows)
    kind = _kind(row, rows)
    if kind == "continuation" and _continues_subagent(ancestors, rows):
        kind = "subagent"  # its parent is one that was compressed: nested, as the first half is
    parent = row.parent or row.delegate_from or row.branched_from
    cwd = next((one.cwd for one in (row, *ancestors) if one.cwd), None)
    return Lineage(kind=kind, parent=parent, cwd=cwd)


def _kind(row: SessionRow, rows: Mapping[str, SessionRow]) -> Kind:
    if row.delegate_from or (row.source == "subagent" and row.parent):
        return "subagent"
    if row.branched_from:
        return "fork"
    parent = rows.get(row.parent or "")
    if parent is None or parent is row:
        return "session"
    if _began_after(row, parent):
        if parent.end_reason == "compression":
            return "continuation"
        if parent.end_reason == "branched":
            return "fork"
    return "subagent"


def _began_after(row: SessionRow, parent: SessionRow) -> bool:
    if row.started_at is None or parent.ended_at is None:
        return False
    return row.started_at >= parent.ended_at


def _continues_subagent(ancestors: list[SessionRow], rows: Mapping[str, SessionRow]) -> bool:
    for ancestor in ancestors:
        kind = _kind(ancestor, rows)
        if kind != "continuation":
            return kind == "subagent"
    return False


def _ancestors(row: SessionRow, rows: Mapping[str, SessionRow]) -> list[SessionRow]:
    """The parent, its parent and so on; a circle ends where it closes."""
    seen = {row.id}
    found: list[SessionRow] = []
    current = rows.get(row.parent or "")
    while current is not None and current.id not in seen:
        seen.add(current.id)
        found.append(current)
        current = rows.get(current.parent or "")
    return found
