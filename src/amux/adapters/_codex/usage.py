"""Usage: every billed call of a rollout once.

Versions with `token_usage_record` write one line per call. Before, only `token_count` events exist:
they repeat themselves, restart or go on with their totals across resumes, and estimate the context
after a compaction. A count is a call when its total has changed and its last usage is not empty.

The key of a counted call is a hash over all counts of the file up to it: a replayed history gives
the keys of the original, and the first call after it differs.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Final

import msgspec

from amux.adapters._codex.records import Count, TokenInfo, Usage, UsageRecord
from amux.model.message import TokenUsage
from amux.model.usage import Call, Purpose, Tokens

_DIGEST: Final = 16

Figures = tuple[int, ...]


class Billing(msgspec.Struct, frozen=True, kw_only=True):
    """What a record of usage cannot say by itself."""

    model: str | None
    at: datetime | None
    purpose: Purpose
    session_id: str
    model_has_spoken: bool  # an answer of this file precedes the record


class Ledger:
    """Collects the calls of one file in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._seen: set[str] = set()
        self._chain = b""
        self._total: Figures | None = None
        self._recorded: Figures | None = None
        self._continues = False

    def seed(self, text: str, *, continues: bool) -> None:
        """Start the keys from a text no other file has; `continues`: totals go on from a parent."""
        self._chain = text.encode("utf-8", "replace")
        self._continues = continues

    def count(self, info: TokenInfo, billing: Billing) -> Call | None:
        """Take a token count; the call it tells of, if it tells of a new one."""
        total = _figures(info.total_token_usage)
        if total == self._total:
            return None
        last = _figures(info.last_token_usage)
        inherited = self._continues and self._total is None and not billing.model_has_spoken
        self._total = total
        if inherited or _is_estimate(info.last_token_usage) or last == self._recorded:
            return None
        key = "tc:" + self._link(f"{total}{last}")
        return self._add(key, info.last_token_usage, billing, copied=False)

    def record(self, record: UsageRecord, billing: Billing) -> Call | None:
        """Take a usage record; None when it repeats an earlier one."""
        self._recorded = _figures(record.usage)
        key = record.response_id or "tc:" + self._link(f"{len(self.calls)}{self._recorded}")
        if key in self._seen:
            return None
        copied = record.thread_id is not None and record.thread_id != billing.session_id
        return self._add(key, record.usage, billing, copied=copied)

    def last_was_compaction(self) -> None:
        """The newest call turned out to be the one that wrote a summary."""
        self.calls[-1] = msgspec.structs.replace(self.calls[-1], purpose="compaction")

    def last_made(self, message_id: str | None) -> None:
        """The newest call turned out to have produced this message."""
        if message_id is not None:
            self.calls[-1] = msgspec.structs.replace(self.calls[-1], message_id=message_id)

    def _link(self, text: str) -> str:
        self._chain = blake2b(self._chain + text.encode(), digest_size=_DIGEST).digest()
        return self._chain.hex()

    def _add(self, key: str, usage: Usage, billing: Billing, *, copied: bool) -> Call:
        self._seen.add(key)
        call = Call(
            key=key,
            model=billing.model,
            at=billing.at,
            tokens=tokens_of(usage),
            purpose=billing.purpose,
            copied=copied,
        )
        self.calls.append(call)
        return call


def tokens_of(usage: Usage) -> Tokens:
    """Disjoint buckets: input includes both cache figures, output includes the reasoning."""
    cached, written = _int(usage.cached_input_tokens), _int(usage.cache_write_input_tokens)
    thinking = usage.reasoning_output_tokens
    return Tokens(
        input=max(0, _int(usage.input_tokens) - cached - written),
        cache_read=cached,
        cache_write=written,
        output=_int(usage.output_tokens),
        thinking=None if thinking is None else _int(thinking),
    )


def view_of(call: Call) -> TokenUsage:
    """The usage of a call as a message shows it."""
    tokens = call.tokens
    return TokenUsage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )


def _int(count: Count) -> int:
    if count is None or not 0 <= count < float("inf"):  # NaN fails both comparisons
        return 0
    return int(count)


def _figures(usage: Usage) -> Figures:
    return (
        _int(usage.input_tokens),
        _int(usage.cached_input_tokens),
        _int(usage.cache_write_input_tokens),
        _int(usage.output_tokens),
        _int(usage.reasoning_output_tokens),
        _int(usage.total_tokens),
    )


def _is_estimate(usage: Usage) -> bool:
    return not (_int(usage.input_tokens) or _int(usage.output_tokens))
