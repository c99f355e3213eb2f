"""What a message itself says it took: tokens and money under any of the usual names.

Formats that only the specification draws name no fields, so a figure goes by any name that agents
give it. `prompt_tokens` include what came from the cache; so do `input_tokens` where the cached
ones are given as a detail of them. Elsewhere the two are apart.

A message's usage and cost: views of its call in the specification's types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from amux.adapters._kit.values import count, damage_in, first, is_mapping, mapping, nano_usd
from amux.model.cost import CostRecord
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


class Stated(NamedTuple):
    """Tokens in disjoint buckets, the amount if there is one, why they may be too few."""

    tokens: Tokens
    nusd: int | None
    gaps: tuple[str, ...]


def stated_by(record: Mapping[str, Any]) -> Stated | None:
    """What a message says; None when it says nothing, or nothing but zeros."""
    usage = usage_in(record)
    tokens, gaps = tokens_in(usage), gaps_in(usage)
    nusd = money_in(usage) or money_in(record) or None  # 0: no price was known
    if tokens.total or gaps:
        return Stated(tokens, nusd, gaps)
    return None if nusd is None else Stated(tokens, nusd, (USAGE_NOT_RECORDED,))


def usage_in(record: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a message, under whatever name."""
    for name in _USAGES:
        value = record.get(name)
        if is_mapping(value):
            return value
    return {}


def gaps_in(usage: Mapping[str, Any]) -> tuple[str, ...]:
    """Whether any of the figures cannot be one; reasoning alone is part of the output."""
    return damage_in(usage, *_FIGURES)


def tokens_in(usage: Mapping[str, Any]) -> Tokens:
    """The figures in disjoint buckets; reasoning is part of the output."""
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
    """An amount in nano-USD, as a number or in an object of its own."""
    cost = first(record, *_COSTS)
    found = nano_usd(cost)
    return nano_usd(first(mapping(cost), *_MONEY)) if found is None else found


def usage_view(call: Call | None) -> TokenUsage | None:
    """The tokens of an exact call; a lower bound is no usage to show on a message."""
    return None if call is None or call.gaps else tokens_view(call.tokens)


def tokens_view(tokens: Tokens) -> TokenUsage:
    """The same of tokens that are known to be all."""
    return TokenUsage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )


def cost_view(call: Call | None) -> CostRecord | None:
    """What the agent itself recorded for an exact call."""
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
