"""`AgentEvent`: one thing that a running agent reports."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from amux.model.base import Model
from amux.model.usage import Tokens

EventType = Literal[
    "text", "thinking", "tool_call", "tool_result", "usage", "cost", "session", "error", "end",
    "unknown",
]  # fmt: skip

Scope = Literal["call", "run", "session"]
"""The extent of tokens or of a cost: one model call, the run so far, or the session with all its
earlier runs."""

RunStatus = Literal["ok", "failed", "timeout", "aborted"]


class AgentEvent(Model, frozen=True, kw_only=True):
    """One event of a run. Fields that do not belong to its type are empty.

        text, thinking  text; `is_delta` if further events continue it
        tool_call       tool, call_id, input
        tool_result     tool, call_id, text, is_error
        usage           tokens, model, scope
        cost            cost_usd, model, scope
        session         session_id, model
        error           text: a message of the agent, which need not end the run
        end             status, exit_code, text (the answer), session_id, tokens, cost_usd
        unknown         raw, or text for a line that is not JSON

    `raw` is the record of the agent's own output, on the first of the events that were read from
    it. A record without a meaning for amux becomes an `unknown` event: nothing is dropped.
    """

    type: EventType
    run_id: str = ""
    at: datetime | None = None
    session_id: str | None = None
    model: str | None = None
    text: str | None = None
    is_delta: bool = False
    tool: str | None = None
    call_id: str | None = None
    input: Any = None
    is_error: bool = False
    tokens: Tokens | None = None
    cost_usd: float | None = None
    scope: Scope | None = None
    status: RunStatus | None = None
    exit_code: int | None = None
    raw: Any = None
