"""Typed rows of state.db. Columns differ between versions: a missing column is None."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from amux.adapters._kit.values import count, damage_in, document, mapping, moment, nano_usd, text
from amux.model.usage import Tokens

SESSION_COLUMNS: Final[tuple[str, ...]] = (
    "id",
    "source",
    "model",
    "model_config",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cwd",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "title",
    "summary",
    "archived",
)
USAGE_COLUMNS: Final[tuple[str, ...]] = (
    "session_id",
    "model",
    "task",
    "api_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "first_seen",
    "last_seen",
)

_FIGURES: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

Row = dict[str, Any]


@dataclass(slots=True, frozen=True)
class SessionRow:
    """One row of `sessions`."""

    id: str
    source: str | None = None
    model: str | None = None
    branched_from: str | None = None
    delegate_from: str | None = None
    parent: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    end_reason: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    cwd: str | None = None
    native_nusd: int | None = None
    title: str | None = None
    archived: bool = False
    gaps: tuple[str, ...] = ()  # set if a count is invalid

    @classmethod
    def of(cls, row: Row) -> Self | None:
        """Parse a row; None if it has no id."""
        id = text(row.get("id"))
        if id is None:
            return None
        settings = mapping(document(row.get("model_config")))
        return cls(
            id=id,
            source=text(row.get("source")),
            model=text(row.get("model")),
            branched_from=text(settings.get("_branched_from")),
            delegate_from=text(settings.get("_delegate_from")),
            parent=text(row.get("parent_session_id")),
            started_at=moment(row.get("started_at")),
            ended_at=moment(row.get("ended_at")),
            end_reason=text(row.get("end_reason")),
            tokens=tokens_of(row),
            cwd=text(row.get("cwd")),
            native_nusd=money_of(row, unset_actual=None),
            title=text(row.get("title")) or text(row.get("summary")),
            archived=bool(count(row.get("archived"))),
            gaps=damage_in(row, *_FIGURES),
        )


@dataclass(slots=True, frozen=True)
class UsageRow:
    """One row of `session_model_usage`: the usage of one model for one task of a session."""

    session_id: str
    model: str
    task: str
    calls: int
    tokens: Tokens
    native_nusd: int | None
    first_seen: datetime | None
    last_seen: datetime | None
    gaps: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Row) -> Self | None:
        """Parse a row; None if it names no session or no model."""
        session_id, model = text(row.get("session_id")), text(row.get("model"))
        if session_id is None or model is None:
            return None
        return cls(
            session_id=session_id,
            model=model,
            task=text(row.get("task")) or "",
            calls=count(row.get("api_call_count")) or 0,
            tokens=tokens_of(row),
            native_nusd=money_of(row, unset_actual=0),
            first_seen=moment(row.get("first_seen")),
            last_seen=moment(row.get("last_seen")),
            gaps=damage_in(row, *_FIGURES),
        )


def tokens_of(row: Row) -> Tokens:
    """Return the tokens of a row: input excludes the cache, output includes the reasoning."""
    output = count(row.get("output_tokens")) or 0
    thinking = count(row.get("reasoning_tokens"))
    return Tokens(
        input=count(row.get("input_tokens")) or 0,
        cache_read=count(row.get("cache_read_tokens")) or 0,
        cache_write=count(row.get("cache_write_tokens")) or 0,
        output=max(output, thinking or 0),
        thinking=thinking,
    )


def money_of(row: Row, *, unset_actual: int | None) -> int | None:
    """Return the billed amount, else the agent's estimate; None if the cost is unknown.

    `unset_actual` is the value of a billed amount that was never set: 0 in rows by model.
    """
    status = text(row.get("cost_status"))
    actual = nano_usd(row.get("actual_cost_usd"))
    if actual is not None and (actual != unset_actual or status == "actual"):
        return actual
    estimated = nano_usd(row.get("estimated_cost_usd"))
    if status is None:  # 0 is the default of both columns
        return estimated or None
    return None if status == "unknown" else estimated
