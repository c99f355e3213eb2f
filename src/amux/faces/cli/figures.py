"""Formats amounts of money, counts, sizes, ids and times. Unknown is `?`, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from typing import Protocol

    class Priced(Protocol):
        """Interface of a cost record, a breakdown and a summary."""

        @property
        def total_usd(self) -> float:
            """The sum of all known amounts."""
            ...

        @property
        def incomplete(self) -> tuple[str, ...]:
            """The reasons why the sum is not exact; empty if it is."""
            ...

    class Costed(Protocol):
        """Interface of a session and its summary."""

        @property
        def cost(self) -> Priced | None:
            """The cost; None if it is not recorded."""
            ...

        @property
        def unrecorded(self) -> tuple[str, ...]:
            """Why the cost is not recorded although a model was called."""
            ...

        @property
        def model(self) -> str | None:
            """The most used model; None if no record names one."""
            ...


UNKNOWN = "?"
NO_CALLS = "no calls"
SHORTEST_ID = 8
TIMES_HELP = "7d, 24h, 30m, 1w, today, yesterday, 2026-11-01 or 2026-11-01T09:30Z"

_MICRO = 1_000_000
_CENT, _HUNDREDTH_CENT = 10_000, 100
_TWO_DIGITS = 10
_MINUTE, _HOUR = 60, 3600
_KILO, _UNITS = 1024, ("B", "KB", "MB", "GB", "TB")


def money(cost: Priced | None) -> str:
    """Format a cost; None is `?`."""
    if cost is None:
        return UNKNOWN
    return amount(cost.total_usd, cost.incomplete)


def session_money(session: Costed) -> str:
    """Format the cost of a session: `no calls` if it called no model, `?` if it is unknown."""
    cost = session.cost
    if cost is None:
        return UNKNOWN if session.unrecorded else NO_CALLS
    # An agent may record that a session without calls cost nothing.
    if session.model is None and cost.total_usd == 0 and not cost.incomplete:
        return NO_CALLS
    return money(cost)


def amount(total: float | None, incomplete: Sequence[str] = ()) -> str:
    """Format an amount as `$1.23`, or as `>= $1.23`, `<= $1.23` or `~ $1.23` if incomplete.

    An unknown amount is `?`; so is one of which hardly anything is known.
    """
    if total is None:
        return UNKNOWN
    if not incomplete:
        return usd(total)
    from amux.model.incomplete import AT_MOST, bound_of, round_within

    bound, micro = bound_of(incomplete), round(total * _MICRO)
    step = _step(micro)
    if micro < step and bound != AT_MOST:
        return UNKNOWN
    if micro == 0:
        return usd(total)
    return f"{bound} {usd(round_within(micro, step, bound) / _MICRO)}"


def usd(amount: float) -> str:
    """Format an amount in cents, or in hundredths of a cent if it is small."""
    micro = round(amount * _MICRO)
    if 0 < micro < _HUNDREDTH_CENT:
        return "< $0.0001"
    decimals = 2 if _step(micro) == _CENT or micro == 0 else 4
    return f"${amount:,.{decimals}f}"


def _step(micro: int) -> int:
    return _CENT if micro >= 10 * _CENT else _HUNDREDTH_CENT


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: `1 session`, `1,234 sessions`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(number: int) -> str:
    """Format a number of bytes in the largest unit of which it holds at least one."""
    amount, unit = float(number), _UNITS[0]
    for unit in _UNITS:
        if amount < _KILO or unit == _UNITS[-1]:
            break
        amount /= _KILO
    decimals = 0 if unit == _UNITS[0] or amount >= _TWO_DIGITS else 1
    return f"{amount:.{decimals}f} {unit}"


def short_ids(ids: Iterable[str]) -> Mapping[str, str]:
    """Map each id to its shortest unique prefix, of at least eight characters."""
    ordered = sorted(set(ids))
    return {
        each: each[: max(SHORTEST_ID, 1 + _longest_common(each, ordered, position))]
        for position, each in enumerate(ordered)
    }


def _longest_common(each: str, ordered: Sequence[str], position: int) -> int:
    """Return the length of the prefix an id shares with its neighbours, thus with any id."""
    neighbours = (*ordered[max(0, position - 1) : position], *ordered[position + 1 : position + 2])
    return max((_common(each, other) for other in neighbours), default=0)


def _common(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


def ago(moment: datetime, *, now: datetime) -> str:
    """Format a time for the terminal: relative up to yesterday, else as a local date."""
    local, here = moment.astimezone(), now.astimezone()
    seconds = (here - local).total_seconds()
    days = (here.date() - local.date()).days
    if seconds < 0 or days > 1:  # a time in the future is shown as a date
        return local.strftime("%Y-%m-%d")
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min ago"
    return f"{int(seconds // _HOUR)} h ago" if days == 0 else "yesterday"


def rfc3339(moment: datetime) -> str:
    """Format a time in UTC, with a final `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
