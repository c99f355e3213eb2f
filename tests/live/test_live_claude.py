"""The real Claude Code against a fake model: what amux reads is what the model served."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from agents import Claude, end, frozen, scripted
from fake_model import Reply, Tool
from served_truth import UNFINISHED, differences, tokens_of, truth_of

from amux.client import create_client
from amux.testing import session_mismatches

pytestmark = pytest.mark.slow

FIRST, SECOND, OTHER = "Greet me from a shell.", "And once more?", "What if you had not?"
ERRAND = "Count to three and report."


ASKED_AGAIN = '"42".*"type":"api-request"'
"""The tool's result, then the record that it was sent to the model."""


def bash(command: str) -> Tool:
    return Tool("Bash", {"command": command, "description": "A command of the test"})


def typed(prompt: str) -> str:
    """A prompt as a message; before that it is written as an entry of the queue."""
    return re.escape(f'"role":"user","content":"{prompt}"')


def test_a_turn_with_a_tool_is_read_as_it_was_served(home: Path) -> None:
    replies = [Reply("I will ask the shell.", tool=bash("echo hello")), Reply("It says hello.")]
    with scripted(Claude, home, {FIRST: replies}) as claude:
        run = claude.ask(FIRST)
        truth = truth_of(claude.model, FIRST, tools=[True])
        truth |= {"title": FIRST, "cwd": str(claude.project), "native_cost_usd": run.usd}
        assert differences(claude, {run.session_id: truth}) == []


def test_a_command_that_fails_is_a_failed_tool_call(home: Path) -> None:
    replies = [Reply("I try.", tool=bash("echo oops >&2; exit 3")), Reply("It did not work.")]
    with scripted(Claude, home, {FIRST: replies}) as claude:
        run = claude.ask(FIRST)
        truth = truth_of(claude.model, FIRST, tools=[False])
        assert differences(claude, {run.session_id: truth}) == []


def test_a_resumed_session_stays_one_session(home: Path) -> None:
    with scripted(
        Claude, home, {FIRST: [Reply("Hello.")], SECOND: [Reply("Hello again.")]}
    ) as claude:
        run = claude.ask(FIRST)
        again = claude.ask(SECOND, resume=run.session_id)
        assert again.session_id == run.session_id
        truth = truth_of(claude.model, FIRST, SECOND) | {"native_cost_usd": again.usd}
        assert differences(claude, {run.session_id: truth}) == []


def test_a_fork_shows_the_shared_history_and_pays_only_for_its_own_calls(home: Path) -> None:
    script = {
        FIRST: [Reply("I will ask.", tool=bash("echo hello")), Reply("It says hello.")],
        SECOND: [Reply("Hello again.")],
        OTHER: [Reply("Then nobody would have said hello.")],
    }
    with scripted(Claude, home, script) as claude:
        run = claude.ask(FIRST)
        fork = claude.ask(OTHER, fork=run.session_id)
        claude.ask(SECOND, resume=run.session_id)
        branched = truth_of(claude.model, OTHER, inherited=[FIRST], tools=[True])
        truths = {
            run.session_id: truth_of(claude.model, FIRST, SECOND, tools=[True]),
            fork.session_id: branched | {"forked_from": run.session_id},
        }
        assert differences(claude, truths) == []


def test_a_sub_agent_is_a_child_whose_calls_its_parent_pays(home: Path) -> None:
    errand = {
        "description": "Count",
        "prompt": ERRAND,
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    script = {
        FIRST: [Reply("I send somebody.", tool=Tool("Agent", errand)), Reply("They counted.")],
        ERRAND: [Reply("I count.", tool=bash("seq 3")), Reply("One, two, three.")],
    }
    with scripted(Claude, home, script) as claude:
        run = claude.ask(FIRST)
        truth = truth_of(claude.model, FIRST, tools=[True])
        truth |= {"tokens_recoverable": tokens_of(claude.model.served), "native_cost_usd": run.usd}
        assert differences(claude, {run.session_id: truth}) == []
        errand_truth = truth_of(claude.model, ERRAND, tools=[True])
        errand_truth |= {"kind": "subagent", "parent": run.session_id}
        (child,) = create_client(home=home).sessions.get("claude", run.session_id).children
        assert session_mismatches(child, errand_truth) == []


def test_reading_while_the_agent_works_disturbs_nobody(home: Path) -> None:
    script = {FIRST: [Reply("I ask.", tool=bash("echo $((6 * 7))")), Reply("42.", stalls=True)]}
    with scripted(Claude, home, script) as claude, claude.running(FIRST) as process:
        claude.wait_until_half_way(written=ASKED_AGAIN)
        with frozen(process):
            so_far = truth_of(claude.model, FIRST, tools=[True]) | UNFINISHED
            assert differences(claude, {claude.sole_session(): so_far}) == []
        claude.model.released.set()
        run = claude.finish(process)
        truth = truth_of(claude.model, FIRST, tools=[True]) | {"native_cost_usd": run.usd}
        assert differences(claude, {claude.sole_session(): truth}) == []


def test_a_run_killed_in_its_first_answer_has_no_exact_cost(home: Path) -> None:
    script = {FIRST: [Reply("You will never hear the end.", stalls=True)]}
    with scripted(Claude, home, script) as claude, claude.running(FIRST) as process:
        claude.wait_until_half_way(written=typed(FIRST))
        end(process)
        truth = truth_of(claude.model, FIRST) | UNFINISHED
        assert differences(claude, {claude.sole_session(): truth}) == []


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_ended_after_its_tool_has_no_exact_cost_even_when_resumed(
    home: Path, sign: signal.Signals
) -> None:
    script = {
        FIRST: [Reply("I ask.", tool=bash("echo $((6 * 7))")), Reply("42.", stalls=True)],
        SECOND: [Reply("Where were we?")],
    }
    with scripted(Claude, home, script) as claude:
        with claude.running(FIRST) as process:
            claude.wait_until_half_way(written=ASKED_AGAIN)
            end(process, sign)
        ended = truth_of(claude.model, FIRST, tools=[True]) | UNFINISHED
        assert differences(claude, {claude.sole_session(): ended}) == []
        run = claude.ask(SECOND, resume=claude.sole_session())
        resumed = truth_of(claude.model, FIRST, SECOND, tools=[True]) | UNFINISHED
        assert differences(claude, {run.session_id: resumed}) == []


def test_a_resumed_run_that_is_killed_keeps_what_was_counted_before(home: Path) -> None:
    script = {FIRST: [Reply("Hello.")], SECOND: [Reply("You will never hear it.", stalls=True)]}
    with scripted(Claude, home, script) as claude:
        run = claude.ask(FIRST)
        with claude.running(SECOND, resume=run.session_id) as process:
            claude.wait_until_half_way(written=typed(SECOND))
            end(process)
        truth = truth_of(claude.model, FIRST, SECOND)
        del truth["incomplete"]  # a prompt at the end does not prove that a call was made
        assert differences(claude, {run.session_id: truth}) == []
