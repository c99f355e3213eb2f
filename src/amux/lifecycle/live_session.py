"""`LiveSession`: a thread together with the state that a running agent keeps in memory.

The records of a thread are stored at once. Everything else that an agent knows while it runs, such
as to-do lists and prompt sections, lives in `LiveState`. `amux.lifecycle.restore` writes snapshots
of it into the thread and brings it back on resume.
"""

from __future__ import annotations

from typing import Any

import msgspec

from amux.rollout.log import ThreadLog
from amux.store.thread import ThreadHandle


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
    prompt_sections: list[PromptSection] = []
    todos: list[dict[str, Any]] = []
    file_history: list[dict[str, Any]] = []
    attribution: dict[str, Any] = {}
    worktree: dict[str, Any] | None = None
    plugins: dict[str, Any] = {}  # state of plugins by their name; no source resets it


class LiveSession(ThreadHandle):
    """A thread that an agent works on, with its state in memory."""

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
