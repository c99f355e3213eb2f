"""Hours: what one session spent on one model within one hour of the clock (UTC).

Windows of whole hours are sums over them, so they need none of the calls. What was recorded for a
session without a call counts when the session began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from amux.index.encoding import pack, unpack
from amux.model.ids import unified_id
from amux.sessions.assemble import Assembly
from amux.sessions.cells import UNKNOWN_MODEL, Figures, Tally, has_extra, reasons_of
from amux.sessions.costing import Coster, gaps_of
from amux.sessions.parts import Joined, sole_names
from amux.sessions.spans import time_span
from amux.sessions.views import primary_model


class Hour(Figures, frozen=True, kw_only=True, array_like=True, gc=False):
    """The spending of one session, sub-agents included; `session` None: of calls of none."""

    session: str | None  # a unified id that means no other session
    model: str
    first_at: datetime  # within the hour
    last_at: datetime
    reasons: tuple[str, ...] = ()  # why it is a lower bound, beyond a missing price

    @property
    def begin(self) -> datetime:
        """The full hour."""
        return full_hour(self.first_at)


_HOURS: Final = msgspec.msgpack.Decoder(list[Hour])


def encode_hours(hours: Iterable[Hour]) -> bytes:
    """Hours as bytes, to be kept."""
    return pack(list(hours))


def decode_hours(data: bytes) -> list[Hour]:
    """The hours again."""
    return unpack(data, _HOURS)


def full_hour(moment: datetime) -> datetime:
    """When the hour of a moment began."""
    return moment.replace(minute=0, second=0, microsecond=0)


def assembly_hours(assembly: Assembly, coster: Coster) -> Iterator[Hour]:
    """The hours of all sessions of one agent, and those of its calls without a session."""
    aliases = sole_names(assembly.sessions)
    for session in assembly.sessions:
        name = unified_id(session.agent, aliases.get(session, session.session_id))
        yield from _session_hours(session, name, coster)
    for loose in assembly.unattributed:
        created, _ = time_span(loose)
        sums = _Sums()
        for call in loose.calls:
            tally = sums.at(call.model, call.at or created)
            tally.add_calls([call], [coster.price(loose, call)])
        yield from sums.hours(None, gaps_of([loose]))


def _session_hours(session: Joined, name: str, coster: Coster) -> Iterator[Hour]:
    cost = coster.cost_of(session)
    if cost is None:
        return
    created, _ = time_span(session)
    sums = _Sums()
    for call, share in zip(cost.calls, cost.shares, strict=True):
        sums.at(call.model, call.at or created).add_calls([call], [share])
    if has_extra(cost):
        tally = sums.at(primary_model(session), created)
        tally.add_amount(cost.extra_tokens, cost.extra_nusd)
    yield from sums.hours(name, reasons_of(session, cost))


@dataclass(slots=True)
class _Sum:
    first_at: datetime
    last_at: datetime
    tally: Tally = field(default_factory=Tally)


class _Sums:
    """Sums by hour and model."""

    def __init__(self) -> None:
        self._sums: dict[tuple[datetime, str], _Sum] = {}

    def at(self, model: str | None, at: datetime) -> Tally:
        """Where to add what was spent at a time."""
        moment = at if at.tzinfo is UTC else at.astimezone(UTC)
        key = (full_hour(moment), model or UNKNOWN_MODEL)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum(moment, moment)
        found.first_at = min(found.first_at, moment)
        found.last_at = max(found.last_at, moment)
        return found.tally

    def hours(self, session: str | None, reasons: tuple[str, ...]) -> Iterator[Hour]:
        for (_, model), one in self._sums.items():
            yield Hour(
                session=session,
                model=model,
                first_at=one.first_at,
                last_at=one.last_at,
                reasons=reasons,
                **one.tally.bounded(),
            )
