"""Four strategies, three situations, every managed agent: real processes, and a real server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from managed_home import ManagedHome, ServerProcess

from amux.errors import AmuxError, DecisionRequiredError, ErrorCode
from amux.managed.sessions import ManagedSessions
from amux.managed.state import SessionState, SessionStatus

AGENTS = ("claude-sdk", "claude-cli", "droid", "opencode-server", "opencode-cli")
RESUMED, NEW, FAILED, ASKED = "resumed", "new", "failed", "asked"

TABLE = {
    ("always", "ok"): RESUMED,
    ("always", "fails"): FAILED,
    ("always", "no prior"): FAILED,
    ("resume_or_new", "ok"): RESUMED,
    ("resume_or_new", "fails"): NEW,
    ("resume_or_new", "no prior"): NEW,
    ("always_new", "ok"): NEW,
    ("always_new", "fails"): NEW,
    ("always_new", "no prior"): NEW,
    ("manual", "ok"): RESUMED,
    ("manual", "fails"): ASKED,
    ("manual", "no prior"): ASKED,
}
"""What the specification says about each strategy in each situation."""


class Agent:
    """One way to manage an agent, set up in a home."""

    def __init__(self, way: str, home: ManagedHome, server: ServerProcess) -> None:
        self.name, _, kind = way.partition("-")
        self.home, self.server, self.kind = home, server, kind
        home.configure(
            claude={"api": kind if self.name == "claude" else "auto"},
            opencode={"server_mode": kind == "server", "server_url": server.url},
        )

    def forget(self) -> None:
        """Remove all sessions of the agent, as if the user had deleted them."""
        for root in (".claude", ".factory", ".local/share/opencode"):
            shutil.rmtree(self.home.home / root, ignore_errors=True)
        if self.kind == "server":
            port = self.server.port
            self.server.stop()
            Path(self.server.log.parent, "served.json").unlink()
            self.server.start(port=port)

    def starts(self) -> int:
        """How many sessions the agent was asked to start anew, told by the agent itself."""
        if self.kind == "server":
            found = self.server.requests()
            return len([r for r in found if (r["method"], r["path"]) == ("POST", "/session")])
        flags = ("-s", "--session", "--resume", "-r")
        calls = [call["argv"] for call in self.home.calls(self.name)]
        return len([c for c in calls if not any(w.partition("=")[0] in flags for w in c)])


@pytest.fixture
def agent(
    request: pytest.FixtureRequest, managed_home: ManagedHome, opencode_server: ServerProcess
) -> Agent:
    return Agent(request.param, managed_home, opencode_server)


def prepared(agent: Agent, managed: ManagedSessions, situation: str) -> SessionState:
    prompt = None if situation == "no prior" else "first"
    if situation == "no prior" and agent.kind == "server":
        made = managed.create_session(agent.name, cwd=str(agent.home.project))
        managed.save_session_state(made.id, {"agent_session_id": None})
    else:
        made = managed.create_session(agent.name, prompt, cwd=str(agent.home.project))
    if situation == "fails":
        agent.forget()
    return managed.get(made.id)


@pytest.mark.parametrize(("strategy", "situation"), TABLE, ids=str)
@pytest.mark.parametrize("agent", AGENTS, indirect=True)
def test_a_strategy_decides_what_happens_to_a_session(
    agent: Agent, strategy: str, situation: str
) -> None:
    managed = agent.home.managed
    before = prepared(agent, managed, situation)
    starts = agent.starts()
    expected = TABLE[strategy, situation]
    if expected in {FAILED, ASKED}:
        code = ErrorCode.RESUME_FAILED if expected == FAILED else ErrorCode.DECISION_REQUIRED
        with pytest.raises(AmuxError) as caught:
            managed.resume_session(before.id, "second", strategy=strategy)
        assert caught.value.code == code
        after = agent.home.managed.get(before.id)
        assert (after.agent_session_id, after.resume_count) == (before.agent_session_id, 0)
        assert after.status is not SessionStatus.ACTIVE
        assert agent.starts() == starts
    else:
        info = managed.resume_session(before.id, "second", strategy=strategy)
        after = agent.home.managed.get(before.id)
        assert info.text == "Answer to: second"
        assert (info.is_new, after.status) == (expected == NEW, SessionStatus.IDLE)
        is_same = after.agent_session_id == before.agent_session_id
        assert is_same == (expected == RESUMED)
        assert after.resume_count == (1 if expected == RESUMED else 0)
        assert agent.starts() == starts + (1 if expected == NEW else 0)
        assert after.prompt_history[-1] == "second"
        assert after.updated_at > before.updated_at
    assert agent.home.living() == []


@pytest.mark.parametrize("agent", ["claude-sdk", "droid", "opencode-server"], indirect=True)
def test_a_fallback_says_why_the_session_is_new(agent: Agent) -> None:
    managed = agent.home.managed
    before = prepared(agent, managed, "fails")
    info = managed.resume_session(before.id, "second", strategy="resume_or_new")
    assert info.is_new
    assert "could not resume" in info.warnings[0]
    assert before.agent_session_id is not None
    assert before.agent_session_id in info.warnings[0]


@pytest.mark.parametrize("agent", ["droid"], indirect=True)
def test_a_failed_manual_resume_offers_the_new_id_that_is_then_used(agent: Agent) -> None:
    managed = agent.home.managed
    before = prepared(agent, managed, "fails")
    with pytest.raises(DecisionRequiredError) as caught:
        managed.resume_session(before.id, "second")  # manual is the default of droid
    assert "new" in caught.value.choices
    offered = managed.get(before.id).metadata["proposed_id"]
    assert offered in str(caught.value.hint)
    managed.resume_session(before.id, "second", strategy="always_new")
    assert managed.map("droid", offered) == before.id
    assert "proposed_id" not in managed.get(before.id).metadata


def open_last(managed: ManagedSessions, agent: Agent, strategy: str) -> Any:
    return managed.open_session(agent.name, "again", strategy=strategy, cwd=str(agent.home.project))


@pytest.mark.parametrize("agent", AGENTS, indirect=True)
def test_the_last_session_of_an_agent_is_continued_if_there_is_one(agent: Agent) -> None:
    managed = agent.home.managed
    with pytest.raises(AmuxError) as caught:
        open_last(managed, agent, "always")
    assert caught.value.code == ErrorCode.RESUME_FAILED
    first = open_last(managed, agent, "resume_or_new")
    assert first.is_new
    second = open_last(managed, agent, "resume_or_new")
    assert (second.id, second.is_new) == (first.id, False)
    third = open_last(managed, agent, "always_new")
    assert third.id != first.id
    with pytest.raises(DecisionRequiredError) as asked:
        open_last(managed, agent, "manual")
    assert asked.value.choices == ("resume", "new")
