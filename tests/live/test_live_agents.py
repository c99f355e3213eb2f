"""Every real agent, started by amux: what amux reads afterwards is what the model served.

The outcome of each test is a cell of the live matrix (docs/agents.md). `make test-full` runs the
agents that `pins.toml` marks; `make live` runs all, or one of them in another version.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from agents import AGENTS
from live_agent import PINS, Agent, scripted, session_of
from model_protocols import Reply
from outcomes import Outcome, chosen_agents
from served_truth import Truth, differences, tokens_of, truth_of

from amux.client import create_client

pytestmark = pytest.mark.slow

TESTED = chosen_agents(AGENTS, PINS)
every_agent = pytest.mark.parametrize("kind", TESTED, ids=lambda kind: kind.name)
every_forking_agent = pytest.mark.parametrize(
    "kind",
    [kind for kind in TESTED if PINS[kind.name].get("fork", True)],
    ids=lambda kind: kind.name,
)

FIRST, SECOND, OTHER = "Greet me from a shell.", "And once more?", "What if you had not?"
TAG = "live-test"


@pytest.mark.cell("run")
@every_agent
def test_a_run_reports_its_session_its_answer_and_its_tokens(kind: type[Agent], home: Path) -> None:
    replies = [Reply("I will ask.", tool=kind.shell("echo hello")), Reply("It says hello.")]
    with scripted(kind, home, {FIRST: replies}) as agent:
        result = agent.ask(FIRST, tags=[TAG])
        assert result.text == "It says hello."
        assert result.exit_code == 0
        if result.usage is not None:  # some agents report none
            served = tokens_of(agent.model.served)
            found = result.usage
            sent = (found.input, found.cache_read, found.cache_write, found.output)
            assert sent == tuple(served[name] for name in _SENT)
        _check_run_index(agent, result.run_id, session_of(result))


@pytest.mark.cell("resume")
@every_agent
def test_a_resumed_run_continues_the_session_with_its_history(
    kind: type[Agent], home: Path
) -> None:
    script = {FIRST: [Reply("Hello.")], SECOND: [Reply("Hello again.")]}
    with scripted(kind, home, script) as agent:
        first = agent.ask(FIRST)
        again = agent.ask(SECOND, resume=first.session_id)
        assert again.session_id == first.session_id
        assert again.text == "Hello again."
        last = agent.model.served[-1]
        assert any(FIRST in text for text in last.texts), "the model saw no history"


@pytest.mark.cell("fork")
@every_forking_agent
def test_a_fork_shows_the_shared_history_and_pays_only_for_its_own_calls(
    kind: type[Agent], home: Path
) -> None:
    script = {
        FIRST: [Reply("I will ask.", tool=kind.shell("echo hello")), Reply("It says hello.")],
        SECOND: [Reply("Hello again.")],
        OTHER: [Reply("Then nobody would have said hello.")],
    }
    with scripted(kind, home, script) as agent:
        first = session_of(agent.ask(FIRST))
        fork = session_of(agent.ask(OTHER, fork=first))
        assert fork != first
        agent.ask(SECOND, resume=first)
        branched = truth_of(agent, OTHER, inherited=[FIRST], tools=[True])
        branched["forked_from"] = first
        truths = {first: truth_of(agent, FIRST, SECOND, tools=[True]), fork: branched}
        assert differences(agent, truths) == []


@pytest.mark.cell("kill")
@every_agent
def test_a_killed_run_leaves_what_was_counted_before_and_can_be_resumed(
    kind: type[Agent], home: Path
) -> None:
    script = {
        FIRST: [Reply("Hello.")],
        SECOND: [Reply("You will never hear the end.", stalls=True)],
        OTHER: [Reply("Where were we?")],
    }
    with scripted(kind, home, script) as agent:
        first = session_of(agent.ask(FIRST))
        with agent.running(SECOND, resume=first) as run:
            agent.wait_until_half_way(written=SECOND)
            assert agent.kill(run).status == "failed"
        assert agent.left_behind() == []
        killed = _without_certainty(truth_of(agent, FIRST, SECOND))
        assert differences(agent, {first: killed}) == []
        resumed = agent.ask(OTHER, resume=first)
        assert resumed.session_id == first
        shown = [FIRST, OTHER] if agent.abandons_killed_prompt else [FIRST, SECOND, OTHER]
        truth = _without_certainty(truth_of(agent, *shown))
        assert differences(agent, {first: truth}) == []


@pytest.mark.cell("exact")
@every_agent
def test_prompts_texts_tools_and_tokens_are_those_that_the_model_served(
    kind: type[Agent], home: Path, outcome: Outcome
) -> None:
    script = {
        FIRST: [Reply("I will ask.", tool=kind.shell("echo hello")), Reply("It says hello.")],
        SECOND: [Reply("I try.", tool=kind.shell("exit 3")), Reply("It did not work.")],
    }
    with scripted(kind, home, script) as agent:
        session = session_of(agent.ask(FIRST, tags=[TAG]))
        truth = truth_of(agent, FIRST, tools=[True])
        assert differences(agent, {session: truth | {"cwd": str(agent.project)}}) == []
        agent.ask(SECOND, resume=session)
        truth = truth_of(agent, FIRST, SECOND, tools=[True, False])
        wrong = differences(agent, {session: truth | {"title": agent.made_title or FIRST}})
        outcome.unknown = agent.client().unknown(agent.name)
        assert wrong == []


_SENT = ("input", "cache_read", "cache_write", "output")


def _without_certainty(truth: Truth) -> Truth:
    """The truth about a session with a killed turn: a prompt at the end proves no call, so that
    nobody can tell whether the cost is exact.
    """
    return {name: value for name, value in truth.items() if name != "incomplete"}


def _check_run_index(agent: Agent, run_id: str, session_id: str) -> None:
    """The run is recorded once, with its session and its tag, and the session has the tag."""
    client = create_client(home=agent.home)
    (recorded,) = client.run_index.runs
    assert (recorded.run_id, recorded.agent) == (run_id, agent.name)
    assert (recorded.session_id, recorded.tags) == (session_id, (TAG,))
    (summary,) = client.sessions.list(agent.name)
    assert TAG in summary.tags
