"""Google's token counts in disjoint buckets.

`promptTokenCount` includes what came from the cache. Whether `candidatesTokenCount` includes the
thoughts depends on who filled it in: Gemini counts them beside, bridges to other protocols inside.
The total tells which; where there is none, the caller knows the habit of its agent. Tokens of tool
prompts stand beside the prompt and are billed as input.
"""

from __future__ import annotations

import msgspec

from amux.adapters._kit.values import count, damage_in
from amux.model.usage import Tokens


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one model call as they were recorded."""

    prompt: int = 0
    candidates: int = 0
    cached: int = 0
    thoughts: int | None = None
    tool: int = 0
    total: int | None = None
    gaps: tuple[str, ...] = ()  # a figure that is none

    def tokens(self, *, thoughts_beside: bool) -> Tokens:
        """The billed tokens; `thoughts_beside` is the habit where the total does not tell."""
        thoughts = self.thoughts or 0
        prompt = self.prompt + self.tool
        if self.total is not None and thoughts:
            inside, beside = prompt + self.candidates, prompt + self.candidates + thoughts
            if self.total in (inside, beside):
                thoughts_beside = self.total == beside
        cached = min(self.cached, prompt)
        return Tokens(
            input=prompt - cached,
            cache_read=cached,
            output=self.candidates + (thoughts if thoughts_beside else 0),
            thinking=self.thoughts,
        )


def counts_of(record: dict[str, object], names: Names) -> Counts | None:
    """The figures in a record; None when it holds none at all."""
    gaps = damage_in(record, *msgspec.structs.astuple(names))
    prompt, candidates = count(record.get(names.prompt)), count(record.get(names.candidates))
    total = count(record.get(names.total))
    if prompt is None and candidates is None and total is None and not gaps:
        return None
    return Counts(
        prompt=prompt or 0,
        candidates=candidates or 0,
        cached=count(record.get(names.cached)) or 0,
        thoughts=count(record.get(names.thoughts)),
        tool=count(record.get(names.tool)) or 0,
        total=total,
        gaps=gaps,
    )


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What a format calls the figures."""

    prompt: str
    candidates: str
    cached: str
    thoughts: str
    tool: str
    total: str


CHAT: Names = Names(
    prompt="input",
    candidates="output",
    cached="cached",
    thoughts="thoughts",
    tool="tool",
    total="total",
)
"""As the messages of a chat file have them."""

API: Names = Names(
    prompt="promptTokenCount",
    candidates="candidatesTokenCount",
    cached="cachedContentTokenCount",
    thoughts="thoughtsTokenCount",
    tool="toolUsePromptTokenCount",
    total="totalTokenCount",
)
"""As Google's API has them."""

TELEMETRY: Names = Names(
    prompt="input_token_count",
    candidates="output_token_count",
    cached="cached_content_token_count",
    thoughts="thoughts_token_count",
    tool="tool_token_count",
    total="total_token_count",
)
"""As telemetry events have them."""
