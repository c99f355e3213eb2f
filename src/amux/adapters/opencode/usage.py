"""What OpenCode recorded about model calls, in disjoint buckets.

Versions differ in two ways, and only the figures themselves tell which:

- reasoning is part of `output` (to 1.2) or beside it (later): `total` adds up in one way only;
- input contains the cached tokens (OpenAI-like providers before `total` was recorded) or not. A
  provider that shows a cache write, or less input than it read from the cache, keeps them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from amux.adapters._kit.values import count, damage_in, is_mapping, mapping
from amux.model.usage import Tokens

_APART: Final = ("anthropic", "amazon-bedrock")
"""Providers whose own protocol counts cached tokens apart."""


class Figures(NamedTuple):
    """The counts of one call as they stand on disk."""

    input: int
    output: int
    reasoning: int | None
    cache_read: int
    cache_write: int
    total: int | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not (self.input or self.output or self.cache_read or self.cache_write)

    @property
    def shows_cache_apart(self) -> bool:
        """Whether these figures can only be if input excludes the cache."""
        return self.cache_write > 0 or self.input < self.cache_read


def figures_of(tokens: Any) -> Figures | None:
    """The counts in a `tokens` object; None when it has none."""
    if not is_mapping(tokens) or not any(name in tokens for name in ("input", "output")):
        return None
    cache = mapping(tokens.get("cache"))
    return Figures(
        input=count(tokens.get("input")) or 0,
        output=count(tokens.get("output")) or 0,
        reasoning=count(tokens.get("reasoning")),
        cache_read=count(cache.get("read")) or 0,
        cache_write=count(cache.get("write")) or 0,
        total=count(tokens.get("total")),
    )


def gaps_of(tokens: Any) -> tuple[str, ...]:
    """Whether a count in a `tokens` object is none."""
    own = damage_in(mapping(tokens), "input", "output", "reasoning")
    return own or damage_in(mapping(mapping(tokens).get("cache")), "read", "write")


class UsageRules:
    """How to read the figures of one session."""

    def __init__(self, seen: Iterable[tuple[str | None, Figures]]) -> None:
        self._apart = {provider for provider, figures in seen if figures.shows_cache_apart}
        self._apart.update(_APART)

    def tokens(self, provider: str | None, figures: Figures) -> Tokens:
        """Disjoint buckets."""
        uncached = figures.input
        if figures.total is None and provider not in self._apart:
            uncached = max(0, figures.input - figures.cache_read)
        reasoning = figures.reasoning or 0
        beside = reasoning if _reasoning_is_beside(figures, reasoning) else 0
        return Tokens(
            input=uncached,
            cache_read=figures.cache_read,
            cache_write=figures.cache_write,
            output=figures.output + beside,
            thinking=figures.reasoning,
        )


def _reasoning_is_beside(figures: Figures, reasoning: int) -> bool:
    if figures.total is None:
        return reasoning > figures.output
    counted = figures.input + figures.output + figures.cache_read + figures.cache_write
    return figures.total != counted
