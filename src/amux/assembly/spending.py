"""Spending as a report takes it: cells, and what stands in the way of knowing all of them.

A source of which nothing could be read may hold calls of any model on any day, so a sum over its
agent is a lower bound. A single bad line is no reason: reading for usage alone passes over most
lines and would not notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Final

import msgspec

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CostCalculator
from amux.assembly.ledger import LedgerEntry, ledger_entries
from amux.assembly.session import SourceSession
from amux.model.problems import Problem

_OF_WHOLE_SOURCES: Final = frozenset({"unreadable", "unknown-format", "decoder-missing"})


class Spending(msgspec.Struct, frozen=True, array_like=True):
    """What the sessions of one agent, or some of them, spent."""

    entries: list[LedgerEntry]
    session_ids: tuple[str, ...] = ()  # of sub-agents too: runs of other sessions are lost
    problems: tuple[Problem, ...] = ()  # of sources that tell nothing of what they hold


def spending_of(assembly: Assembly, coster: CostCalculator, zone: tzinfo) -> Spending:
    """All that is known."""
    return Spending(
        list(ledger_entries(assembly, coster, zone)),
        tuple(dict.fromkeys(session.session_id for session in assembly.all_sessions())),
        unread_sources(assembly),
    )


def unread_sources(assembly: Assembly) -> tuple[Problem, ...]:
    """The problems because of which sources tell nothing of what they hold.

    A source that tells of calls does tell something. How much it says besides depends on what it
    was read for.
    """
    told = {
        problem for part in _parts(assembly) if part.facts.calls for problem in part.facts.problems
    }
    return tuple(
        problem
        for problem in assembly.problems
        if problem.code in _OF_WHOLE_SOURCES and problem not in told
    )


def _parts(assembly: Assembly) -> Iterator[SourceSession]:
    for session in (*assembly.all_sessions(), *assembly.unattributed):
        yield from session.sources
