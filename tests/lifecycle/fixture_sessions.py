"""Sessions of every kind, and the facts that must hold after each of them was resumed.

The facts are written down where a session is made; nothing is computed by the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from repositories import make_repository

from amux import LiveSession, PromptSection, SessionFramework, SessionSource
from amux.store.turns import TurnContext


class Facts(msgspec.Struct, kw_only=True):
    """The facts about a session: what a resume must bring back."""

    thread_id: str
    texts: list[str] = []  # of the conversation
    hidden: list[str] = []  # texts that are in the thread, but not in the conversation
    skipped: int = 0
    title: str | None = None
    tags: tuple[str, ...] = ()
    source: str = "cli"
    key: tuple[str, ...] | None = None
    forked_from: str | None = None
    archived: bool = False
    cwd: str | None = None
    model: str | None = None
    next_model: str | None = None  # of the next turn, with the choice of the session
    level: str | None = None
    send_policy: str | None = None
    approval_mode: str | None = None
    sandbox_policy: Any = None
    git_sha: str | None = None
    git_branch: str | None = None
    agent_role: str | None = None
    todos: list[dict[str, Any]] = []
    file_history: list[dict[str, Any]] = []
    attribution: dict[str, Any] = {}
    worktree: dict[str, Any] | None = None
    plugins: dict[str, Any] = {}
    sections: list[tuple[str, str]] = []  # origins and texts
    budget_usd: float | None = None
    billing_usd: float = 0.0
    context_usd: float = 0.0
    compaction_usd: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    pending: list[str] = []
    schema_version: int | None = 1
    snapshots: bool = True


Builder = Callable[[SessionFramework, Path], Facts]


def say(session: LiveSession, number: int, *, cost: float = 0.25) -> None:
    """Append a question and a billed answer."""
    session.message("user", f"question {number}")
    usage = {"input_tokens": 100, "output_tokens": 10}
    session.message("assistant", f"answer {number}", usage=usage, cost_usd=cost)


def empty(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session that was only started."""
    return Facts(thread_id=sm.start_session(cwd="").thread_id)


def plain(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session with two questions and no further state."""
    session = sm.start_session(cwd=str(folder), model="opus", title="Plain")
    say(session, 1)
    say(session, 2)
    return Facts(
        thread_id=session.thread_id,
        texts=["question 1", "answer 1", "question 2", "answer 2"],
        title="Plain",
        cwd=str(folder),
        model="opus",
        next_model="opus",
        billing_usd=0.5,
        context_usd=0.5,
        calls=2,
        input_tokens=200,
        output_tokens=20,
    )


def working(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session in a repository that uses everything there is."""
    sha = make_repository(folder)
    (folder / "AGENTS.md").write_text("Use tabs.")
    session = sm.start_session(
        cwd=str(folder),
        model="opus",
        title="Working",
        approval_mode="auto",
        sandbox_policy={"type": "workspace"},
        agent_role="reviewer",
    )
    state = session.state
    state.model_override, state.level, state.send_policy = "haiku", "high", "deny"
    state.budget_usd = 9.5
    state.todos = [{"text": "test", "done": False}]
    state.file_history = [{"path": str(folder / "a.py"), "version": 3}]
    state.attribution = {"a.py": {"agent": 7}}
    state.worktree = {"path": str(folder), "branch": "main"}
    state.plugins = {"lint": {"rules": [1]}}
    state.prompt_sections += [
        PromptSection(name="plug", text="Ask first.", origin="plugin"),
        PromptSection(name="tools", text="read, write", origin="tools"),
        PromptSection(name="mine", text="Be brief.", origin="user"),
    ]
    with session.begin_turn() as turn:
        turn.message("user", "question 1")
        usage = {"input_tokens": 100, "output_tokens": 10}
        calls = [{"id": "c1", "name": "read", "arguments": {"path": "a.py"}}]
        turn.message("assistant", "look", tool_calls=calls, usage=usage, cost_usd=0.25)
        turn.message("tool", "content of a.py", tool_call_id="c1", tool_name="read")
        turn.message("assistant", "answer 1")
    session.set_tags(["urgent"])
    session.enqueue("and then?")
    sm.checkpoint(session)
    (folder / "AGENTS.md").write_text("Use spaces.")
    return Facts(
        thread_id=session.thread_id,
        texts=["question 1", "look", "content of a.py", "answer 1"],
        title="Working",
        tags=("urgent",),
        cwd=str(folder),
        model="opus",
        next_model="haiku",
        level="high",
        send_policy="deny",
        approval_mode="auto",
        sandbox_policy={"type": "workspace"},
        git_sha=sha,
        git_branch="main",
        agent_role="reviewer",
        todos=[{"text": "test", "done": False}],
        file_history=[{"path": str(folder / "a.py"), "version": 3}],
        attribution={"a.py": {"agent": 7}},
        worktree={"path": str(folder), "branch": "main"},
        plugins={"lint": {"rules": [1]}},
        sections=[
            ("project", "Use tabs."),
            ("plugin", "Ask first."),
            ("tools", "read, write"),
            ("user", "Be brief."),
        ],
        budget_usd=9.5,
        billing_usd=0.25,
        context_usd=0.25,
        calls=1,
        input_tokens=100,
        output_tokens=10,
        pending=["and then?"],
    )


def compacted(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session whose first questions were summarised."""
    session = sm.start_session(cwd="", model="opus")
    for number in range(1, 5):
        say(session, number)
    summary = {"summary": "the story", "usage": {"input_tokens": 40}, "cost_usd": 0.5}
    sm.compact(session, summary, keep_turns=1)
    return Facts(
        thread_id=session.thread_id,
        texts=["<summary>\nthe story\n</summary>", "question 4", "answer 4"],
        hidden=["question 1", "answer 3"],
        model="opus",
        next_model="opus",
        sections=[("baseline", "the story")],
        billing_usd=1.5,
        context_usd=1.0,
        compaction_usd=0.5,
        calls=5,
        input_tokens=440,
        output_tokens=40,
    )


def cleared(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session that was cleared and went on, with its to-do list."""
    session = sm.start_session(cwd="", model="opus")
    say(session, 1)
    session.state.todos = [{"text": "stay"}]
    sm.clear(session)
    say(session, 2)
    return Facts(
        thread_id=session.thread_id,
        texts=["question 2", "answer 2"],
        hidden=["question 1"],
        model="opus",
        next_model="opus",
        todos=[{"text": "stay"}],
        billing_usd=0.5,
        context_usd=0.25,
        calls=2,
        input_tokens=200,
        output_tokens=20,
    )


def forked(sm: SessionFramework, folder: Path) -> Facts:
    """Return a fork: the messages are copies, the cost is its own."""
    parent = sm.start_session(cwd="", model="opus", title="Origin")
    say(parent, 1)
    session = sm.fork(parent.thread_id)
    say(session, 2, cost=0.75)
    say(parent, 3)
    return Facts(
        thread_id=session.thread_id,
        texts=["question 1", "answer 1", "question 2", "answer 2"],
        title="Origin #2",
        forked_from=parent.thread_id,
        model="opus",
        next_model="opus",
        billing_usd=0.75,
        context_usd=0.75,
        calls=1,
        input_tokens=100,
        output_tokens=10,
    )


def archived(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session that lies in the archive."""
    facts = plain(sm, folder)
    sm.store.archive(facts.thread_id)
    facts.archived = True
    return facts


def chat(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session of a chat that was reset."""
    source = SessionSource(platform="telegram", chat_id="7", user_id="8", user_name="Ann")
    session = sm.start_session(cwd="", source=source)
    say(session, 1)
    session.state.plugins = {"calendar": {"zone": "UTC"}}
    sm.reset_session(session, "daily")
    say(session, 2)
    return Facts(
        thread_id=session.thread_id,
        texts=["question 2", "answer 2"],
        hidden=["question 1"],
        source="telegram",
        key=("agent:main:telegram:dm:7",),
        plugins={"calendar": {"zone": "UTC"}},
        billing_usd=0.5,
        context_usd=0.25,
        calls=2,
        input_tokens=200,
        output_tokens=20,
    )


def switched(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session whose process died after a turn in another environment."""
    there = folder / "there"
    there.mkdir()
    session = sm.start_session(cwd=str(folder), model="opus", approval_mode="ask")
    context = TurnContext(
        cwd=str(there), model="haiku", approval_mode="auto", sandbox_policy="none", effort="low"
    )
    session.begin_turn(context).end()
    say(session, 1)
    return Facts(
        thread_id=session.thread_id,
        texts=["question 1", "answer 1"],
        cwd=str(there),
        model="haiku",
        next_model="haiku",
        level="low",
        approval_mode="auto",
        sandbox_policy="none",
        billing_usd=0.25,
        context_usd=0.25,
        calls=1,
        input_tokens=100,
        output_tokens=10,
    )


def corrected(sm: SessionFramework, folder: Path) -> Facts:
    """Return a session with a correction, a rewound question and items that are no messages."""
    session = sm.start_session(cwd="", model="opus")
    session.message("user", "question 1")
    wrong = session.message("assistant", "anwser 1")
    session.correct(wrong, content="answer 1")
    session.append({"role": "nobody", "content": "lost"})
    session.rewind(session.message("user", "forget this"))
    session.append({"type": "message", "role": 5})
    return Facts(
        thread_id=session.thread_id,
        texts=["question 1", "answer 1"],
        skipped=2,
        model="opus",
        next_model="opus",
    )


def started_without_framework(sm: SessionFramework, folder: Path) -> Facts:
    """Return a thread that only the store has written: it has no snapshot."""
    thread = sm.store.start(cwd=str(folder), model="opus", agent_role="helper", git_branch="main")
    thread.message("user", "question 1")
    return Facts(
        thread_id=thread.thread_id,
        texts=["question 1"],
        cwd=str(folder),
        model="opus",
        next_model="opus",
        agent_role="helper",
        git_branch="main",
        schema_version=None,
        snapshots=False,
    )


def first_version(sm: SessionFramework, folder: Path) -> Facts:
    """Return a thread with meta data and a snapshot of version 0."""
    text = (Path(__file__).parent / "sessions" / "version_0.jsonl").read_bytes()
    (thread_id,) = sm.store.import_lines(text.splitlines()).imported
    return Facts(
        thread_id=thread_id,
        texts=["Why is the total off by a cent?", "The discount is rounded per item."],
        cwd="/",
        model="claude-opus-4-1",
        next_model="claude-haiku-4-5",
        approval_mode="accept-edits",
        sandbox_policy={"mode": "workspace-write"},
        git_sha="5973b6c094b8487ba5302aeb6098ae0e00000000",
        git_branch="main",
        agent_role="reviewer",
        todos=[{"content": "Round once", "status": "pending"}],
        file_history=[{"path": "/shop/cart.py", "backup": "cart.py@1"}],
        attribution={"/shop/cart.py": {"agent": 12, "user": 3}},
        worktree={"path": "/shop-worktree", "branch": "rounding"},
        sections=[("user", "You are a careful programmer.")],
        billing_usd=0.0125,
        context_usd=0.0125,
        calls=1,
        input_tokens=812,
        output_tokens=64,
        schema_version=0,
    )


BUILDERS: dict[str, Builder] = {
    each.__name__: each
    for each in (
        empty,
        plain,
        working,
        compacted,
        cleared,
        forked,
        archived,
        chat,
        switched,
        corrected,
        started_without_framework,
        first_version,
    )
}
