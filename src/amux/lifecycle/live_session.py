"""`LiveSession`: a thread together with the state that a running agent keeps in memory.

The records of a thread are stored at once. Everything else that an agent knows while it runs, such
as to-do lists and prompt sections, lives in `LiveState`. `amux.lifecycle.restore` writes snapshots
of it into the thread and brings it back on resume.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from amux.rollout.log import ThreadLog
from amux.rollout.messages import is_message
from amux.store.costs import CostTracker, track_costs
from amux.store.thread import ThreadHandle
from amux.store.turns import Turn, TurnContext

if TYPE_CHECKING:
    from amux.lifecycle.hooks import HookOutcome
    from amux.lifecycle.restore_report import RestoreReport
    from amux.rollout.records import Record


BASELINE: Final = "baseline"
"""The origin of the prompt section that holds the summary of the conversation."""


class PromptSection(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the system prompt and where it comes from.

    `origin` is "project" (an instruction file), "plugin", "tools", "user" or "baseline" (the result
    of a compaction).
    """

    name: str
    text: str
    origin: str = "user"


class LiveState(msgspec.Struct, kw_only=True):
    """The state of a running session that is not part of its conversation.

    Values are plain JSON values, so that a snapshot of them can be stored and moved to another
    machine. None means that a value is unknown.
    """

    cwd: str | None = None
    model: str | None = None
    model_override: str | None = None  # chosen during the session; it survives `clear`
    level: str | None = None  # the effort that was chosen for the session
    send_policy: str | None = None  # whether replies may be sent: "allow" or "deny"
    approval_mode: str | None = None
    sandbox_policy: Any = None
    git_sha: str | None = None
    git_branch: str | None = None
    agent_role: str | None = None
    cli_version: str | None = None
    budget_usd: float | None = None  # the most that the thread may cost
    prompt_sections: list[PromptSection] = []
    todos: list[dict[str, Any]] = []
    file_history: list[dict[str, Any]] = []
    attribution: dict[str, Any] = {}
    worktree: dict[str, Any] | None = None
    plugins: dict[str, Any] = {}  # state of plugins by their name; no source resets it

    @property
    def effective_model(self) -> str | None:
        """The model of the next turn: the one chosen for the session, else that of its start."""
        return self.model_override or self.model

    @property
    def may_send(self) -> bool:
        """Whether replies may be sent; only "deny" forbids it."""
        return self.send_policy != "deny"


class LiveSession(ThreadHandle):
    """A thread that an agent works on, with its state in memory.

    `report` says what a restore brought back and `resumed_at` when; both are None if the session
    was not restored. `outcome` holds the results of the hooks that ran last.
    """

    def __init__(
        self,
        log: ThreadLog,
        thread_id: str,
        run_session_id: str,
        *,
        state: LiveState | None = None,
    ) -> None:
        super().__init__(log, thread_id, run_session_id)
        self.state = LiveState() if state is None else state
        self.report: RestoreReport | None = None
        self.resumed_at: datetime | None = None
        self.outcome: HookOutcome | None = None
        self.last_snapshot: dict[str, Any] | None = None  # as it is stored in the thread
        self._costs = CostTracker()
        self._counted = 0  # the last record in `_costs`
        self._context: TurnContext | None = None

    @property
    def log(self) -> ThreadLog:
        """The backend that holds the thread."""
        return self._log

    @property
    def cost(self) -> CostTracker:
        """The tokens and the cost of the thread; only records since the last call are read."""
        self.count_costs(self._log.read(self.thread_id, after=self._counted))
        return self._costs

    def count_costs(self, records: Iterable[Record]) -> None:
        """Add records that were read, oldest first, to the cost; known ones are skipped."""
        new = [record for record in records if record.seq > self._counted]
        if new:
            meta = self.meta
            self._costs = track_costs(
                new, meta.payload_format, copied=meta.copied, start=self._costs
            )
            self._counted = new[-1].seq

    @property
    def turn_context(self) -> TurnContext:
        """The environment of the next turn, with the choices that were made for the session."""
        state = self.state
        return TurnContext(
            cwd=state.cwd,
            model=state.effective_model,
            approval_mode=state.approval_mode,
            sandbox_policy=state.sandbox_policy,
            effort=state.level,
            git_sha=state.git_sha,
            git_branch=state.git_branch,
        )

    def begin_turn(self, context: TurnContext | None = None) -> Turn:
        """Begin a turn in the environment of the session; it is recorded whenever it changed."""
        chosen = self.turn_context if context is None else context
        turn = super().begin_turn(None if chosen == self._context else chosen)
        self._context = chosen
        return turn

    def conversation_records(self) -> list[Record]:
        """Return the records that a model is given, oldest first; unreadable ones are left out."""
        return [record for record in super().conversation_records() if self.is_readable(record)]

    def is_readable(self, record: Record) -> bool:
        """Return whether an item of the conversation holds a message.

        Items in the format of another program are opaque and count as readable.
        """
        return is_message(record, self.meta.payload_format)
