"""Claude Code and Codex in the middle of their work: what amux reads is what the model served.

Both write while they work, so that a reader sees half of a turn, and an interrupted call is a cost
that nobody knows.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from agents import Claude, Codex
from live_agent import Agent, scripted, session_of
from model_protocols import Reply, Tool
from served_truth import UNFINISHED, differences, tokens_of, truth_of

from amux.client import create_client
from amux.testing import session_mismatches

pytestmark = pytest.mark.slow

FIRST, SECOND = "Compute something in a shell.", "And once more?"
ERRAND = "Count to three and report."


@dataclass(frozen=True)
class Writer:
    """An agent, and the patterns that its transcript has when the model is half way through the
    first answer, through the answer after a tool, and through the answer to a second prompt.
    """

    kind: type[Agent]
    in_first_answer: str
    after_tool: str
    in_second_turn: str
    proves_calls: bool  # whether the file shows that a second call was made

    def __str__(self) -> str:
        return self.kind.name


def typed(prompt: str) -> str:
    """A prompt as a message; before that Claude Code writes it as an entry of a queue."""
    return re.escape(f'"role":"user","content":"{prompt}"')


CLAUDE = Writer(
    Claude,
    in_first_answer=typed(FIRST),
    after_tool='"42".*"type":"api-request"',  # the result, then that it was sent to the model
    in_second_turn=typed(SECOND),
    proves_calls=False,
)
CODEX = Writer(Codex, "Thought 0.", "Thought 1.", "Thought 1.", proves_calls=True)

both = pytest.mark.parametrize("writer", [CLAUDE, CODEX], ids=str)


@both
def test_reading_while_the_agent_works_disturbs_nobody(writer: Writer, home: Path) -> None:
    compute = writer.kind.shell("echo $((6 * 7))")
    script = {FIRST: [Reply("I ask.", tool=compute), Reply("42.", stalls=True)]}
    with scripted(writer.kind, home, script) as agent, agent.running(FIRST) as run:
        agent.wait_until_half_way(written=writer.after_tool)
        with run.frozen():
            so_far = truth_of(agent, FIRST, tools=[True]) | UNFINISHED
            assert differences(agent, {agent.sole_session(): so_far}) == []
        agent.model.released.set()
        agent.finish(run)
        truth = truth_of(agent, FIRST, tools=[True])
        assert differences(agent, {agent.sole_session(): truth}) == []


@both
def test_a_run_killed_in_its_first_answer_has_no_exact_cost(writer: Writer, home: Path) -> None:
    script = {FIRST: [Reply("You will never hear the end.", stalls=True)]}
    with scripted(writer.kind, home, script) as agent, agent.running(FIRST) as run:
        agent.wait_until_half_way(written=writer.in_first_answer)
        run.end()
        truth = truth_of(agent, FIRST) | UNFINISHED
        assert differences(agent, {agent.sole_session(): truth}) == []


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
@both
def test_a_run_ended_after_its_tool_has_no_exact_cost_even_when_resumed(
    writer: Writer, home: Path, sign: signal.Signals
) -> None:
    compute = writer.kind.shell("echo $((6 * 7))")
    script = {
        FIRST: [Reply("I ask.", tool=compute), Reply("42.", stalls=True)],
        SECOND: [Reply("Where were we?")],
    }
    with scripted(writer.kind, home, script) as agent:
        with agent.running(FIRST) as run:
            agent.wait_until_half_way(written=writer.after_tool)
            run.end(sign)
        ended = truth_of(agent, FIRST, tools=[True]) | UNFINISHED
        assert differences(agent, {agent.sole_session(): ended}) == []
        result = agent.ask(SECOND, resume=agent.sole_session())
        resumed = truth_of(agent, FIRST, SECOND, tools=[True]) | UNFINISHED
        assert differences(agent, {session_of(result): resumed}) == []


@both
def test_a_resumed_run_that_is_killed_keeps_what_was_counted_before(
    writer: Writer, home: Path
) -> None:
    script = {FIRST: [Reply("Hello.")], SECOND: [Reply("You will never hear it.", stalls=True)]}
    with scripted(writer.kind, home, script) as agent:
        session = session_of(agent.ask(FIRST))
        with agent.running(SECOND, resume=session) as run:
            agent.wait_until_half_way(written=writer.in_second_turn)
            run.end()
        truth = truth_of(agent, FIRST, SECOND)
        if writer.proves_calls:
            truth |= UNFINISHED
        else:
            del truth["incomplete"]  # a prompt at the end does not prove that a call was made
        assert differences(agent, {session: truth}) == []


def test_the_cost_of_claude_is_the_one_that_it_reported(home: Path) -> None:
    script = {FIRST: [Reply("Hello.")], SECOND: [Reply("Hello again.")]}
    with scripted(Claude, home, script) as claude:
        first = claude.ask(FIRST)
        assert first.cost is not None
        truth = truth_of(claude, FIRST) | {"native_cost_usd": first.cost.total_usd}
        assert differences(claude, {session_of(first): truth}) == []
        again = claude.ask(SECOND, resume=first.session_id)
        assert again.cost is None  # this version reports the cost of the whole session
        assert differences(claude, {session_of(first): truth_of(claude, FIRST, SECOND)}) == []


def test_a_sub_agent_is_a_child_whose_calls_its_parent_pays(home: Path) -> None:
    errand = {
        "description": "Count",
        "prompt": ERRAND,
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    script = {
        FIRST: [Reply("I send somebody.", tool=Tool("Agent", errand)), Reply("They counted.")],
        ERRAND: [Reply("I count.", tool=Claude.shell("seq 3")), Reply("One, two, three.")],
    }
    with scripted(Claude, home, script) as claude:
        result = claude.ask(FIRST)
        truth = truth_of(claude, FIRST, tools=[True])
        truth["tokens_recoverable"] = tokens_of(claude.model.served)
        assert differences(claude, {session_of(result): truth}) == []
        errand_truth = truth_of(claude, ERRAND, tools=[True])
        errand_truth |= {"kind": "subagent", "parent": result.session_id}
        sessions = create_client(home=home).sessions
        (child,) = sessions.get("claude", session_of(result)).children
        assert session_mismatches(child, errand_truth) == []
