"""Plans a compaction: which records a summary replaces and which are kept.

The cut is always at a prompt, so that a tool result is never kept without its call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from amux.rollout.messages import message_of
from amux.rollout.records import Record

PROTECTED_TURNS: Final = 20
RESERVED_TOKENS: Final = 16_384
KEPT_TOKENS: Final = 20_000
"""A good value of `keep_tokens` for a compaction that is due because the window is full."""

_CHARACTERS_PER_TOKEN: Final = 4


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The records to summarise, oldest first, and the first record to keep (None: none)."""

    summarized: tuple[Record, ...]
    first_kept: Record | None
    tokens_before: int


def estimate_tokens(records: Sequence[Record]) -> int:
    """Return a rough count of the tokens of some records."""
    return sum(len(record.text) for record in records) // _CHARACTERS_PER_TOKEN


def is_due(tokens: int, window: int, *, reserved: int = RESERVED_TOKENS) -> bool:
    """Return whether a conversation fills the window of its model, less a reserve."""
    return tokens > window - reserved


def plan_compaction(
    conversation: Sequence[Record],
    payload_format: str,
    *,
    keep_turns: int = PROTECTED_TURNS,
    keep_tokens: int | None = None,
) -> CompactionPlan:
    """Return a plan that keeps the last turns, or the last turns within `keep_tokens`."""
    prompts = [
        index for index, record in enumerate(conversation) if _is_prompt(record, payload_format)
    ]
    cut = prompts[-keep_turns] if 0 < keep_turns <= len(prompts) else 0
    if keep_turns <= 0:
        cut = len(conversation)
    if keep_tokens is not None:
        cut = next(
            (each for each in prompts if estimate_tokens(conversation[each:]) <= keep_tokens),
            prompts[-1] if prompts else len(conversation),
        )
    return CompactionPlan(
        summarized=tuple(conversation[:cut]),
        first_kept=conversation[cut] if cut < len(conversation) else None,
        tokens_before=estimate_tokens(conversation),
    )


def _is_prompt(record: Record, payload_format: str) -> bool:
    message = message_of(record, payload_format)
    return message is not None and message.role == "user" and not message.synthetic
