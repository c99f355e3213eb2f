"""The closed set of reasons why a cost is incomplete: the values of `gaps` and of `incomplete`.

Most reasons mean that something is missing, so the known sum is a lower bound. One means that more
was recorded than was billed, so the sum is an upper bound. With both kinds it is neither.
"""

from __future__ import annotations

from collections.abc import Iterable

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from typing import Final, Literal

    Bound = Literal["", ">=", "<=", "~"]

USAGE_NOT_RECORDED: Final = "usage-not-recorded"  # an answer without token counts
OUTPUT_NOT_RECORDED: Final = "output-not-recorded"  # only a placeholder from the stream's start
REASONING_NOT_RECORDED: Final = "reasoning-not-recorded"
COMPACTION_NOT_RECORDED: Final = "compaction-call-not-recorded"  # the call that wrote a summary
HELPER_CALL_NOT_RECORDED: Final = "helper-call-not-recorded"
CALL_INTERRUPTED: Final = "call-interrupted"  # the call was billed for more than was recorded
CALLS_ELSEWHERE: Final = "calls-in-another-session"
OUTPUT_OVERSTATED: Final = "output-overstated-on-disk"
USAGE_UNUSABLE: Final = "usage-unusable"  # a count that is negative or not a number
COST_PARTLY_RECORDED: Final = "cost-partly-recorded"  # the agent's total lacks calls: estimated
UNPRICED_MODEL: Final = "unpriced-model"
UNREADABLE_SOURCE: Final = "unreadable-source"

EXACT: Final = ""
AT_LEAST: Final = ">="
AT_MOST: Final = "<="
ABOUT: Final = "~"

_BOUNDS: Final[dict[str, Bound]] = {
    USAGE_NOT_RECORDED: AT_LEAST,
    OUTPUT_NOT_RECORDED: AT_LEAST,
    REASONING_NOT_RECORDED: AT_LEAST,
    COMPACTION_NOT_RECORDED: AT_LEAST,
    HELPER_CALL_NOT_RECORDED: AT_LEAST,
    CALL_INTERRUPTED: AT_LEAST,
    CALLS_ELSEWHERE: AT_LEAST,
    OUTPUT_OVERSTATED: AT_MOST,
    USAGE_UNUSABLE: AT_LEAST,  # the other counts of the call are right
    COST_PARTLY_RECORDED: ABOUT,  # a recorded total and an estimate of the rest
    UNPRICED_MODEL: AT_LEAST,
    UNREADABLE_SOURCE: AT_LEAST,
}

REASONS: Final = tuple(_BOUNDS)

_WORDS: Final[dict[Bound, str]] = {
    EXACT: "exact",
    AT_LEAST: "a lower bound",
    AT_MOST: "an upper bound",
    ABOUT: "neither a lower nor an upper bound",
}


def bound_of(incomplete: Iterable[str]) -> Bound:
    """Return the sign before an amount that is incomplete for these reasons.

    It is "" for an exact amount, `>=` for a lower bound, `<=` for an upper bound, and `~` for an
    amount that may be too high and too low, or whose reason is not in the set.
    """
    bounds: set[Bound] = {_BOUNDS.get(reason, ABOUT) for reason in incomplete}
    if not bounds:
        return EXACT
    return bounds.pop() if len(bounds) == 1 else ABOUT


def bound_words(incomplete: Iterable[str]) -> str:
    """Return what an amount is, in words: `a lower bound`, `an upper bound`, or neither."""
    return _WORDS[bound_of(incomplete)]


def round_within(amount: int, step: int, bound: str) -> int:
    """Return an amount as a multiple of `step`, rounded so that a bound remains one."""
    if bound == AT_LEAST:
        return amount // step * step
    if bound == AT_MOST:
        return -(-amount // step) * step
    return (amount + step // 2) // step * step
