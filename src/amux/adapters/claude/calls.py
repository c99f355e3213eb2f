"""Builds model calls from assistant lines: one call per API message.

Every line of a message repeats its usage. A line is written when a content block ends, which may be
before the final figures are available: the line with the most output tokens counts. If no line of a
message has a stop reason and all have the same output figure, that figure is the placeholder from
the start of the stream: a lower bound.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeGuard

import msgspec

from amux.adapters._kit.jsonl import Buffer
from amux.adapters.claude.records import (
    CacheCreation,
    Entry,
    Message,
    OutputDetails,
    Usage,
    decode_more,
    object_of,
)
from amux.model.incomplete import CALL_INTERRUPTED, OUTPUT_NOT_RECORDED, USAGE_UNUSABLE
from amux.model.usage import NANO, Call, Purpose, Tokens

_OBJECTS: Final = msgspec.json.Decoder(dict[str, Any])
MOST_TOKENS: Final = 1 << 53
_MOST_USD: Final = 1e9

_COST_FIELDS: Final = (
    "costUSD",
    "costUsd",
    "cost_usd",
    "totalUsd",
    "total_usd",
    "totalCostUSD",
    "total_cost_usd",
    "usd",
    "cost",
)
_INPUT_FIELDS: Final = ("inputTokens", "input_tokens")
_OUTPUT_FIELDS: Final = ("outputTokens", "output_tokens")
_CACHED_FIELDS: Final = ("cachedTokens", "cacheReadTokens", "cache_read_input_tokens")
_WRITTEN_FIELDS: Final = ("cacheWriteTokens", "cache_creation_input_tokens")
_STATE_FIELDS: Final = (
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "cacheCreationEphemeral1hInputTokens",
)
_FIGURES: Final = (*_INPUT_FIELDS, *_OUTPUT_FIELDS, *_CACHED_FIELDS, *_WRITTEN_FIELDS)


def count_of(value: object) -> int:
    """Return a token count; 0 if the value is not a count (see `is_unusable`)."""
    if type(value) is int:
        return value if 0 <= value <= MOST_TOKENS else 0
    return 0 if isinstance(value, bool) or not _is_in_range(value) else int(value)


def _is_in_range(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and 0 <= value <= MOST_TOKENS


def is_unusable(value: object) -> bool:
    """Return whether the value is present but not a valid token count."""
    if value is None or (type(value) is int and 0 <= value <= MOST_TOKENS):
        return False
    return isinstance(value, bool) or not _is_in_range(value)


def is_damaged(usage: Usage) -> bool:
    """Return whether a billed figure is unusable; reasoning is part of the output."""
    creation = usage.cache_creation
    for figure in (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        creation.ephemeral_1h_input_tokens if type(creation) is CacheCreation else None,
    ):
        # A figure that is usable needs no function call: there are five in most lines.
        if (type(figure) is not int or not 0 <= figure <= MOST_TOKENS) and is_unusable(figure):
            return True
    return False


def nano_usd(value: object) -> int | None:
    """Convert US dollars to integer nano-USD; None if the value is not an amount."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value * NANO) if 0 <= value <= _MOST_USD else None


def tokens_of(usage: Usage) -> Tokens:
    """Return the recorded usage in disjoint buckets."""
    creation, details = usage.cache_creation, usage.output_tokens_details
    kept = creation.ephemeral_1h_input_tokens if isinstance(creation, CacheCreation) else None
    thinking = details.thinking_tokens if isinstance(details, OutputDetails) else None
    return Tokens(
        input=count_of(usage.input_tokens),
        cache_read=count_of(usage.cache_read_input_tokens),
        cache_write=count_of(usage.cache_creation_input_tokens),
        cache_write_1h=count_of(kept),
        output=count_of(usage.output_tokens),
        thinking=None if thinking is None or is_unusable(thinking) else count_of(thinking),
    )


class OpenCall(msgspec.Struct, array_like=True):  # many are serialized
    """The data of one call so far."""

    message_id: str
    output: int  # the highest output count of its lines
    tokens: Tokens = Tokens()  # outdated while `usage` is set
    usage: Usage | None = None  # unvalidated usage of the line with the most output
    model: str | None = None
    at: datetime | None = None
    nusd: int | None = None
    copied: bool = False
    final: bool = False  # the output figure is not a placeholder
    interrupted: bool = False
    lines: int = 0
    damaged: bool = False  # a line has an unusable figure

    def add(self, entry: Entry, message: Message, usage: Usage, output: int) -> None:
        """Record one line of the message."""
        line = entry.line
        self.damaged = self.damaged or is_damaged(usage)
        if line.is_aborted_mid_stream is True:
            self.interrupted = True
        if self.has_last_word(output, stopped=message.stop_reason is not None):
            self.usage = usage
        if isinstance(message.model, str) and message.model:
            self.model = message.model
        if line.cost_usd is not None:
            self.nusd = max(self.nusd or 0, nano_usd(line.cost_usd) or 0) or None
        if entry.foreign is not None or line.forked_from is not None:
            self.copied = True
        at = entry.at
        if at is not None and (self.at is None or at < self.at):
            self.at = at

    def has_last_word(self, output: int, *, stopped: bool) -> bool:
        """Count one line; return whether its usage is the usage of the call so far."""
        self.lines += 1
        if stopped or output != self.output:
            self.final = True
        if output < self.output:
            return False
        self.output = output
        return True

    def settle_tokens(self) -> Tokens:
        """Return the usage in disjoint buckets."""
        if self.usage is not None:
            self.tokens, self.usage = tokens_of(self.usage), None
        return self.tokens

    def settle(self, key: str, purpose: Purpose) -> Call:
        """Return the call as recorded so far."""
        gaps: tuple[str, ...] = ()
        if self.interrupted:
            gaps = (CALL_INTERRUPTED,)
        elif not self.final:
            gaps = (OUTPUT_NOT_RECORDED,)
        if self.damaged:
            gaps = (*gaps, USAGE_UNUSABLE)
        return Call(
            key=key,
            model=self.model,
            at=self.at,
            tokens=self.settle_tokens(),
            native_nusd=self.nusd,  # a replayed line has 0, which is not a cost
            purpose=purpose,
            message_id=self.message_id,
            copied=self.copied,
            repeats=self.lines - 1,
            gaps=gaps,
        )


class CallBook(msgspec.Struct):
    """The calls of one conversation."""

    calls: dict[str, OpenCall] = {}

    def take(self, key: str, entry: Entry, message: Message, *, message_id: str) -> bool:
        """Record an assistant line; False if it has no usage."""
        usage = message.usage
        if not isinstance(usage, Usage):
            return False
        output = count_of(usage.output_tokens)
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = OpenCall(message_id, output)
        call.add(entry, message, usage, output)
        return True

    def interrupt(self, key: str) -> None:
        """Record that a person stopped the call with this key."""
        call = self.calls.get(key)
        if call is not None and not call.final:
            call.interrupted = True

    def tokens(self, key: str) -> Tokens | None:
        """Return the usage of a call so far; None if it is unknown or has unusable figures."""
        call = self.calls.get(key)
        return None if call is None or call.damaged else call.settle_tokens()

    def settle_tokens(self) -> None:
        """Convert unvalidated usage, so that the state can be serialized."""
        for call in self.calls.values():
            call.settle_tokens()

    def settled(self, purpose: Purpose) -> tuple[Call, ...]:
        """Return all calls, in the order of their first lines."""
        return tuple(call.settle(key, purpose) for key, call in self.calls.items())


class CostEvents(msgspec.Struct):
    """The sum of `cost` lines, as the specification describes them."""

    nusd: int | None = None
    tokens: Tokens = Tokens()
    damaged: bool = False

    def take(self, raw: Buffer | memoryview) -> None:
        """Add one line."""
        event = decode_more(raw, _OBJECTS) or {}
        record = object_of(event.get("cost")) or event
        amount = next(
            (nano for name in _COST_FIELDS if (nano := nano_usd(record.get(name))) is not None),
            None,
        )
        if amount is not None:
            self.nusd = (self.nusd or 0) + amount
        self.damaged = self.damaged or any(is_unusable(record.get(name)) for name in _FIGURES)
        self.tokens += Tokens(
            input=_first_count(record, _INPUT_FIELDS),
            output=_first_count(record, _OUTPUT_FIELDS),
            cache_read=_first_count(record, _CACHED_FIELDS),
            cache_write=_first_count(record, _WRITTEN_FIELDS),
        )

    def as_calls(self, session_id: str) -> tuple[Call, ...]:
        """Return the sum as one call, for a session whose messages have no usage."""
        if not self.tokens.total and not self.damaged:
            return ()
        key, gaps = f"{session_id}:cost", (USAGE_UNUSABLE,) if self.damaged else ()
        return (Call(key=key, tokens=self.tokens, native_nusd=self.nusd, gaps=gaps),)


_MOST_MODELS: Final = 100


def tokens_by_model(raw: Buffer | memoryview) -> dict[str, Tokens] | None:
    """Return the tokens that a `cost-state` line covers; None if that is unknown."""
    state = decode_more(raw, _OBJECTS) or {}
    models = object_of(state.get("modelUsage"))
    if not isinstance(state.get("modelUsage"), dict) or len(models) > _MOST_MODELS:
        return None
    found: dict[str, Tokens] = {}
    for model, record in models.items():
        usage = object_of(record)
        if not usage or any(is_unusable(usage.get(name)) for name in _STATE_FIELDS):
            return None
        counts = [count_of(usage.get(name)) for name in _STATE_FIELDS]
        found[model] = Tokens(
            input=counts[0],
            output=counts[1],
            cache_read=counts[2],
            cache_write=counts[3],
            cache_write_1h=counts[4],
        )
    return found


def _first_count(record: dict[str, Any], names: tuple[str, ...]) -> int:
    return next((count for name in names if (count := count_of(record.get(name)))), 0)
