"""A message's usage and cost: views of its call in the specification's types."""

from __future__ import annotations

from amux.model.cost import CostRecord
from amux.model.message import TokenUsage
from amux.model.usage import NANO, Call, Tokens


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
