"""Reads the usage and cost that a message records, and converts calls to the specification's types.

The specification sketches some formats without naming their fields, so a count is looked up under
every name that agents use for it. `prompt_tokens` include the cached tokens; so do `input_tokens`
if the cached tokens are given as a detail of them. Otherwise the two are separate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from amux.adapters._kit.values import count, damage_in, first, is_mapping, mapping, nano_usd
from amux.model.cost import CostRecord
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.message import TokenUsage
from amux.model.usage import NANO, Call, Tokens

_USAGES: Final = ("usage", "tokenUsage", "token_usage", "tokens")
_INPUT: Final = ("input", "inputTokens", "input_tokens", "tokens_in")
_WHOLE: Final = ("promptTokens", "prompt_tokens")
_OUTPUT: Final = (
    "output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens",
    "tokens_out",
)  # fmt: skip
_READ: Final = (
    "cacheRead", "cacheReadTokens", "cachedTokens", "cached_tokens", "cache_read_tokens",
    "cache_read_input_tokens", "cache_read",
)  # fmt: skip
_READ_INSIDE: Final = ("cached_input_tokens",)
_WRITTEN: Final = (
    "cacheWrite", "cacheWriteTokens", "cache_write_tokens", "cache_creation_input_tokens",
    "cache_write",
)  # fmt: skip
_THINKING: Final = (
    "reasoning", "reasoningTokens", "reasoning_tokens", "reasoning_output_tokens",
    "thinkingTokens", "thinking_tokens",
)  # fmt: skip
_FIGURES: Final = (*_INPUT, *_WHOLE, *_OUTPUT, *_READ, *_READ_INSIDE, *_WRITTEN)
_INPUT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details")
_COSTS: Final = ("cost", "costUsd", "costUSD", "cost_usd", "total_cost")
_MONEY: Final = ("total", "totalUsd", "total_usd", "usd")


class RecordedUsage(NamedTuple):
    """Tokens in disjoint buckets, the cost if there is one, and reasons for incomplete counts."""

    tokens: Tokens
    nusd: int | None
    gaps: tuple[str, ...]


def usage_in_message(record: Mapping[str, Any]) -> RecordedUsage | None:
    """Return the usage that a message records; None if it records none or only zeros."""
    usage = next(filter(is_mapping, map(record.get, _USAGES)), dict[str, Any]())
    tokens, gaps = tokens_in(usage), gaps_in(usage)
    nusd = money_in(usage) or money_in(record) or None  # 0: no price was known
    if tokens.total or gaps:
        return RecordedUsage(tokens, nusd, gaps)
    return None if nusd is None else RecordedUsage(tokens, nusd, (USAGE_NOT_RECORDED,))


def gaps_in(usage: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a gap if a count is invalid; reasoning is ignored, as output includes it."""
    return damage_in(usage, *_FIGURES)


def tokens_in(usage: Mapping[str, Any]) -> Tokens:
    """Return the counts in disjoint buckets; the output includes the reasoning."""
    details = mapping(first(usage, *_INPUT_DETAILS))
    inside = count(first(details, "cached_tokens") or first(usage, *_READ_INSIDE)) or 0
    whole = count(first(usage, *_WHOLE))
    read = count(first(usage, *_READ)) or inside
    given = count(first(usage, *_INPUT)) or 0
    if whole is not None:
        given = max(0, whole - read)
    elif details or first(usage, *_READ_INSIDE) is not None:
        given = max(0, given - inside)
    output = count(first(usage, *_OUTPUT)) or 0
    thinking = count(first(usage, *_THINKING))
    if thinking is None:
        thinking = count(mapping(first(usage, *_OUTPUT_DETAILS)).get("reasoning_tokens"))
    return Tokens(
        input=given,
        cache_read=read,
        cache_write=count(first(usage, *_WRITTEN)) or 0,
        output=output,
        thinking=None if thinking is None else min(thinking, output),
    )


def money_in(record: Mapping[str, Any]) -> int | None:
    """Return the cost in nano-USD, recorded as a number or in an object; None if there is none."""
    cost = first(record, *_COSTS)
    found = nano_usd(cost)
    return nano_usd(first(mapping(cost), *_MONEY)) if found is None else found


def usage_view(call: Call | None) -> TokenUsage | None:
    """Return the usage of an exact call; None for a lower bound, which no message shows."""
    return None if call is None or call.gaps else tokens_view(call.tokens)


def tokens_view(tokens: Tokens) -> TokenUsage:
    """Return tokens as the usage of a message."""
    return TokenUsage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )


def cost_view(call: Call | None) -> CostRecord | None:
    """Return the cost that the agent recorded for an exact call; None if there is none."""
    if call is None or call.gaps or call.native_nusd is None:
        return None
    tokens = call.tokens
    return CostRecord(
        total_usd=call.native_nusd / NANO,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        source="native",
    )
