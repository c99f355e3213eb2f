"""Splits answers into steps, and returns the model call of each step.

A step is one model call and becomes one message. Since 1.0 an assistant message has one step;
before, it contained all steps of a turn.

Token counts differ between versions in two ways, which only the figures themselves reveal:

- `output` includes the reasoning (up to 1.2) or not (later): `total` is the sum in one way only;
- `input` includes the cached tokens (OpenAI-like providers before `total` was recorded) or not. A
  provider with a cache write, or with less input than it read from the cache, counts them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from amux.adapters._kit.values import count, damage_in, is_mapping, mapping, nano_usd, text
from amux.adapters.opencode.records import PartRecord, StoredMessage, text_of
from amux.model.incomplete import CALL_INTERRUPTED
from amux.model.trace import key_of
from amux.model.usage import Call, Purpose, Tokens

_APART: Final = ("anthropic", "amazon-bedrock")
"""Providers whose own protocol counts cached tokens separately."""

_ABORTED = "MessageAbortedError"


class TokenCounts(NamedTuple):
    """The counts of one call as recorded."""

    input: int
    output: int
    reasoning: int | None
    cache_read: int
    cache_write: int
    total: int | None

    @property
    def is_empty(self) -> bool:
        """Whether all counts are zero."""
        return not (self.input or self.output or self.cache_read or self.cache_write)

    @property
    def shows_cache_apart(self) -> bool:
        """Whether these figures are possible only if input excludes the cached tokens."""
        return self.cache_write > 0 or self.input < self.cache_read


def figures_of(tokens: Any) -> TokenCounts | None:
    """Return the counts in a `tokens` object; None if it has none."""
    if not is_mapping(tokens) or not any(name in tokens for name in ("input", "output")):
        return None
    cache = mapping(tokens.get("cache"))
    return TokenCounts(
        input=count(tokens.get("input")) or 0,
        output=count(tokens.get("output")) or 0,
        reasoning=count(tokens.get("reasoning")),
        cache_read=count(cache.get("read")) or 0,
        cache_write=count(cache.get("write")) or 0,
        total=count(tokens.get("total")),
    )


def gaps_of(tokens: Any) -> tuple[str, ...]:
    """Return a gap if a count in a `tokens` object is invalid."""
    own = damage_in(mapping(tokens), "input", "output", "reasoning")
    return own or damage_in(mapping(mapping(tokens).get("cache")), "read", "write")


class UsageRules:
    """Converts the figures of one session, by the rule that all of them together imply."""

    def __init__(self, recorded: Iterable[tuple[str | None, TokenCounts]]) -> None:
        self._apart = {provider for provider, figures in recorded if figures.shows_cache_apart}
        self._apart.update(_APART)

    def tokens(self, provider: str | None, figures: TokenCounts) -> Tokens:
        """Return the figures in disjoint buckets."""
        uncached = figures.input
        if figures.total is None and provider not in self._apart:
            uncached = max(0, figures.input - figures.cache_read)
        reasoning = figures.reasoning or 0
        if figures.total is None:
            is_separate = reasoning > figures.output
        else:
            counted = figures.input + figures.output + figures.cache_read + figures.cache_write
            is_separate = figures.total != counted
        return Tokens(
            input=uncached,
            cache_read=figures.cache_read,
            cache_write=figures.cache_write,
            output=figures.output + (reasoning if is_separate else 0),
            thinking=figures.reasoning,
        )


@dataclass(slots=True)
class Step:
    """The parts of one model call, or of a message that no model was called for."""

    id: str  # the id of the message, or of the part where a later step begins
    parts: list[PartRecord] = field(default_factory=list[PartRecord])
    is_started: bool = False
    finish: PartRecord | None = None

    def texts(self, kind: str) -> str:
        """Return the joined texts of the parts of a type, `text` or `reasoning`."""
        found = (text_of(part.text) for part in self.parts if part.type == kind)
        return "\n".join(said for said in found if said.strip())

    @property
    def tools(self) -> list[PartRecord]:
        """The tool calls of the step."""
        return [part for part in self.parts if part.type == "tool"]


def steps_of(stored: StoredMessage) -> list[Step]:
    """Split an assistant message at the beginnings of its steps; return at least one step."""
    steps = [Step(id=stored.id)]
    for part in stored.parts:
        if part.type == "step-start":
            if steps[-1].is_started:
                steps.append(Step(id=text(part.id) or f"{stored.id}#{len(steps)}"))
            steps[-1].is_started = True
        elif part.type == "step-finish":
            steps[-1].finish = part
        else:
            steps[-1].parts.append(part)
    return steps


def session_rules(messages: list[StoredMessage]) -> UsageRules:
    """Return the usage rules that all figures of the session imply."""
    return UsageRules(
        (text(stored.record.provider), figures)
        for stored in messages
        for tokens in (stored.record.tokens, *(part.tokens for part in stored.parts))
        if (figures := figures_of(tokens)) is not None
    )


def calls_of(
    stored: StoredMessage, steps: list[Step], rules: UsageRules, *, in_child: bool
) -> list[Call | None]:
    """Return the call of each step; None if no model was called or it was refused.

    The figures of the steps count: the message repeats them (since 1.0) or has only the last.
    """
    purpose: Purpose = "subagent" if in_child else "main"
    if stored.record.is_summary:
        purpose = "compaction"
    calls: list[Call | None] = []
    has_ends = any(step.finish is not None for step in steps)
    for number, step in enumerate(steps):
        # The record with the figures of the step: its end; the message if no step has an end.
        source = step.finish if has_ends or number else stored.record
        figures = None if source is None else figures_of(source.tokens)
        gaps = () if source is None else gaps_of(source.tokens)
        if source is not None and figures is not None and (gaps or not figures.is_empty):
            call = _call(stored, step, number, purpose=purpose, figures=figures)
            tokens = rules.tokens(text(stored.record.provider), figures)
            # A cost of 0 for counted tokens means that OpenCode knew no price.
            nusd = nano_usd(source.cost) or None
            calls.append(replace(call, tokens=tokens, native_nusd=nusd, gaps=gaps))
        elif step.finish is None and _was_interrupted(stored, step):
            call = _call(stored, step, number, purpose=purpose, figures=None)
            calls.append(replace(call, native_nusd=0, gaps=(CALL_INTERRUPTED,)))
        else:
            calls.append(None)
    return calls


def _call(
    stored: StoredMessage, step: Step, number: int, *, purpose: Purpose, figures: TokenCounts | None
) -> Call:
    # Copies have new ids but the same content, so the key is equal in every copy.
    counted = "" if figures is None else ".".join(str(figure) for figure in figures)
    created = stored.record.created
    began = stored.id if created is None else created.isoformat()
    return Call(
        key=f"{began}/{number}/{text(stored.record.model) or ''}/{counted}",
        model=text(stored.record.model),
        at=created,
        purpose=purpose,
        message_id=step.id,
        copied=stored.is_copy,
    )


def _was_interrupted(stored: StoredMessage, step: Step) -> bool:
    """Return whether a call was in progress for which no figures were recorded."""
    error = mapping(stored.record.error)
    if error and error.get("name") != _ABORTED:
        return step.is_started
    return step.is_started or bool(error) or not stored.record.is_completed


def identity_of(calls: list[Call]) -> list[int]:
    """Return the keys of calls with tokens, which only copies of a session share."""
    return [key_of(call.key) for call in calls if call.tokens.total]
