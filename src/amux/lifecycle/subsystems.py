"""The seven built-in subsystems: parts of a session's state that are saved and restored apart.

A subsystem saves plain JSON values and takes them back. Most of them are fields of `LiveState`. The
cost is counted from the records of the thread, so it cannot be lost; its subsystem saves the totals
to notice when records are missing, and the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from amux.lifecycle.live_session import LiveSession, LiveState
from amux.store.costs import UsageTotals


class StateFields:
    """Saves and restores some fields of the state of a session."""

    def __init__(self, name: str, *fields: str) -> None:
        self.name = name
        self._fields = fields

    def snapshot(self, session: LiveSession) -> dict[str, Any]:
        """Return the fields as JSON values."""
        state = session.state
        saved: dict[str, Any] = msgspec.to_builtins(
            {field: getattr(state, field) for field in self._fields}
        )
        return saved

    def restore(self, state: Mapping[str, Any], session: LiveSession) -> None:
        """Set the fields that were saved; raise an error if a value has another type."""
        saved = {field: state[field] for field in self._fields if field in state}
        converted = msgspec.convert(saved, LiveState)
        for field in saved:
            setattr(session.state, field, getattr(converted, field))


class CostState:
    """Saves the totals and the budget of a thread. Restoring resets nothing: costs go on."""

    name = "cost"
    _budget = StateFields("cost", "budget_usd")

    def snapshot(self, session: LiveSession) -> dict[str, Any]:
        """Return the totals of all buckets, in nano-USD and tokens, and the budget."""
        cost = session.cost
        return {
            **_totals("billing", cost.billing),
            **_totals("compaction", cost.compaction),
            **self._budget.snapshot(session),
        }

    def restore(self, state: Mapping[str, Any], session: LiveSession) -> None:
        """Set the budget; the totals come from the records."""
        self._budget.restore(state, session)

    def actual(self, state: Mapping[str, Any], session: LiveSession) -> dict[str, Any]:
        """Return the saved totals as far as the records of the thread account for them.

        Later records may have added to a total, so a total that is higher now is as it was saved.
        """
        now = self.snapshot(session)
        return {
            name: min(value, state[name]) if name in state and name != "budget_usd" else value
            for name, value in now.items()
        }


def _totals(bucket: str, totals: UsageTotals) -> dict[str, int]:
    return {
        f"{bucket}_nusd": totals.cost_nusd,
        f"{bucket}_calls": totals.calls,
        f"{bucket}_input_tokens": totals.tokens.input,
        f"{bucket}_output_tokens": totals.tokens.output,
    }


def builtin_subsystems() -> list[StateFields | CostState]:
    """Return the seven subsystems in their order.

    The sections of the system prompt come from the snapshot alone: files of the project may have
    changed since, and the model has read them as they were.
    """
    return [
        CostState(),
        StateFields("attribution", "attribution"),
        StateFields("file_history", "file_history"),
        StateFields("todos", "todos"),
        StateFields("model", "model_override", "level"),
        StateFields("worktree", "worktree"),
        StateFields("system_prompt", "prompt_sections"),
    ]
