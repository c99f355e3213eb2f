"""The closed set of reasons why a cost is incomplete: the values of `gaps` and of `incomplete`."""

from __future__ import annotations

from typing import Final

USAGE_NOT_RECORDED: Final = "usage-not-recorded"  # an answer without token counts
OUTPUT_NOT_RECORDED: Final = "output-not-recorded"  # only a placeholder from the stream's start
REASONING_NOT_RECORDED: Final = "reasoning-not-recorded"
COMPACTION_NOT_RECORDED: Final = "compaction-call-not-recorded"  # the call that wrote a summary
HELPER_CALL_NOT_RECORDED: Final = "helper-call-not-recorded"
CALL_INTERRUPTED: Final = "call-interrupted"  # the call was billed for more than was recorded
CALLS_ELSEWHERE: Final = "calls-in-another-session"
OUTPUT_OVERSTATED: Final = "output-overstated-on-disk"
USAGE_UNUSABLE: Final = "usage-unusable"  # a count that is negative or not a number
UNPRICED_MODEL: Final = "unpriced-model"
UNREADABLE_SOURCE: Final = "unreadable-source"

REASONS: Final = (
    USAGE_NOT_RECORDED,
    OUTPUT_NOT_RECORDED,
    REASONING_NOT_RECORDED,
    COMPACTION_NOT_RECORDED,
    HELPER_CALL_NOT_RECORDED,
    CALL_INTERRUPTED,
    CALLS_ELSEWHERE,
    OUTPUT_OVERSTATED,
    USAGE_UNUSABLE,
    UNPRICED_MODEL,
    UNREADABLE_SOURCE,
)
