"""Counts every billed call of a rollout once, and detects missing usage.

Versions with `token_usage_record` write one line per call. Older ones have only `token_count`
events: these are repeated, restart or continue their totals across resumes, and estimate the
context after a compaction. A count is a call if its total has changed and its last usage is not
empty.

The key of a counted call is a hash over all counts of the file up to it: a replayed history gives
the keys of the original, and the first call after it differs.

Two gaps can be detected: a turn with an answer but without any usage, and a call that had begun to
answer or was under way when the turn was interrupted. A failed request leaves no record and is not
a gap.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` would load OpenSSL
from dataclasses import dataclass, field
from typing import Final

import msgspec

from amux.adapters._kit.values import parse_time
from amux.adapters.codex.content import was_aborted
from amux.adapters.codex.cursor import RawTime
from amux.adapters.codex.records import TokenInfo, Usage, UsageRecord
from amux.model.incomplete import CALL_INTERRUPTED, USAGE_NOT_RECORDED, USAGE_UNUSABLE
from amux.model.usage import Call, Purpose, Tokens

_DIGEST: Final = 16
_SIX: Final = b"(%d, %d, %d, %d, %d, %d)"
_BOTH: Final = _SIX + _SIX
_NUMBERED: Final = b"%d" + _SIX

UsageCounts = tuple[int, int, int, int, int, int]
"""Input, cached, written to the cache, output, reasoning, total."""


@dataclass(slots=True, kw_only=True)
class CallCounter:
    """Collects the calls of one file in order."""

    session_id: str
    purpose: Purpose = "main"
    model: str | None = None
    has_answered: bool = False  # an answer of this file precedes the current record
    calls: list[Call] = field(default_factory=list[Call])
    seen: set[str] = field(default_factory=set[str])
    chain: bytes = b""
    total: UsageCounts | None = None  # total of the newest count
    recorded: UsageCounts | None = None  # usage of the newest record
    continues: bool = False
    damaged: bool = False  # a damaged count may hide calls

    def seed(self, text: str, *, continues: bool) -> None:
        """Start the keys from a unique text; `continues`: totals continue those of a parent."""
        self.chain = text.encode("utf-8", "replace")
        self.continues = continues

    def count(self, info: TokenInfo, raw_time: RawTime) -> Call | None:
        """Process a token count; return the call if it describes a new one."""
        total = _figures(info.total_token_usage)
        if total == self.total:
            self.damaged |= info.total_token_usage.damaged  # it may or may not be a repetition
            return None
        last = _figures(info.last_token_usage)
        inherited = self.continues and self.total is None and not self.has_answered
        self.total = total
        is_estimate = not (last[0] or last[3] or info.last_token_usage.damaged)
        if inherited or is_estimate or last == self.recorded:
            return None
        key = "tc:" + self._link(_BOTH % (*total, *last))
        return self._add(key, info.last_token_usage, last, raw_time)

    def record(self, record: UsageRecord, raw_time: RawTime) -> Call | None:
        """Process a usage record; None if it repeats an earlier one."""
        figures = self.recorded = _figures(record.usage)
        key = record.response_id or "tc:" + self._link(_NUMBERED % (len(self.calls), *figures))
        if key in self.seen:
            return None
        copied = record.thread_id is not None and record.thread_id != self.session_id
        return self._add(key, record.usage, figures, raw_time, copied=copied)

    def mark_last_as_compaction(self) -> None:
        """Set the purpose of the newest call: it wrote a compaction summary."""
        self.calls[-1] = msgspec.structs.replace(self.calls[-1], purpose="compaction")

    def set_last_message_id(self, message_id: str | None) -> None:
        """Set the message that the newest call produced."""
        if message_id is not None:
            self.calls[-1] = msgspec.structs.replace(self.calls[-1], message_id=message_id)

    def _link(self, text: bytes) -> str:
        self.chain = blake2b(self.chain + text, digest_size=_DIGEST).digest()
        return self.chain.hex()

    def _add(
        self,
        key: str,
        usage: Usage,
        figures: UsageCounts,
        raw_time: RawTime,
        *,
        copied: bool = False,
    ) -> Call:
        """Add a call in disjoint buckets: input includes the cache, output the reasoning."""
        asked, cached, written, output, _, _ = figures
        tokens = Tokens(
            input=max(0, asked - cached - written),
            cache_read=cached,
            cache_write=written,
            output=output,
            thinking=usage.reasoning_output_tokens,
        )
        call = Call(
            key=key,
            model=self.model,
            at=parse_time(raw_time),
            tokens=tokens,
            purpose=self.purpose,
            copied=copied,
            gaps=(USAGE_UNUSABLE,) if usage.damaged else (),
        )
        self.seen.add(key)
        self.calls.append(call)
        return call


def _figures(usage: Usage) -> UsageCounts:
    return (
        usage.input_tokens or 0,
        usage.cached_input_tokens or 0,
        usage.cache_write_input_tokens or 0,
        usage.output_tokens or 0,
        usage.reasoning_output_tokens or 0,
        usage.total_tokens or 0,
    )


@dataclass(slots=True, kw_only=True)
class Gaps:
    """Tracks the turns of one file."""

    found: set[str] = field(default_factory=set[str])
    has_answer: bool = False  # in this turn
    is_billed: bool = False  # in this turn
    speaking: bool = False  # output was shown, but no usage recorded yet
    awaiting: bool = False  # a request was sent, but no usage recorded yet
    returned: msgspec.Raw | None = None  # output of a tool that may have been stopped
    reviewing: bool = False  # the calls of this turn are made and recorded by another thread
    review_over: bool = False

    def prompted(self) -> None:
        """Record a prompt, which begins a turn."""
        self.end_turn()
        self.awaiting = not self.reviewing

    def spoke(self) -> None:
        """Record that the screen showed output of the model."""
        self.speaking = not self.reviewing

    def answered(self) -> None:
        """Record that an answer of the model was written."""
        self.has_answer = not self.reviewing

    def leave_review(self) -> None:
        """Record that the turn of a review has ended."""
        self.reviewing = self.review_over = False

    def billed(self) -> None:
        """Record the usage of a call."""
        self.is_billed = True
        self.speaking = self.awaiting = False

    def tool_returned(self, output: msgspec.Raw) -> None:
        """Record a tool output, which is sent to the model unless the tool was stopped."""
        self.awaiting = not self.reviewing
        self.returned = output

    def settle(self) -> None:
        """Evaluate the newest output: it refers to a part of the file, so it is not serialized."""
        if self.returned is not None:
            self.awaiting = self.awaiting and not was_aborted(self.returned)
            self.returned = None

    def aborted(self) -> None:
        """Record that a person interrupted the turn."""
        self.settle()
        if self.speaking or self.awaiting:
            self.found.add(CALL_INTERRUPTED)
            self.has_answer = False  # already reported
        self.speaking = self.awaiting = False

    def finish(self) -> tuple[str, ...]:
        """Return all gaps of the file."""
        self.end_turn()
        return tuple(sorted(self.found))

    def end_turn(self) -> None:
        """Evaluate the turn and clear its state."""
        if self.has_answer and not self.is_billed:
            self.found.add(USAGE_NOT_RECORDED)
        elif self.speaking:
            self.found.add(CALL_INTERRUPTED)
        self.has_answer = self.is_billed = self.speaking = self.awaiting = False
        self.returned = None
