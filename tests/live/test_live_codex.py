"""The real Codex against a fake model: what amux reads is what the model served."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from agents import Codex, end, frozen, scripted
from fake_model import Reply, Tool
from served_truth import UNFINISHED, differences, truth_of

pytestmark = pytest.mark.slow

FIRST, SECOND, OTHER = "Greet me from a shell.", "And once more?", "What if you had not?"


def shell(command: str) -> Tool:
    return Tool("exec_command", {"cmd": command})


def test_a_turn_with_a_tool_is_read_as_it_was_served(home: Path) -> None:
    replies = [Reply("I will ask the shell.", tool=shell("echo hello")), Reply("It says hello.")]
    with scripted(Codex, home, {FIRST: replies}) as codex:
        run = codex.ask(FIRST)
        truth = truth_of(codex.model, FIRST, tools=[True])
        truth |= {"title": FIRST, "cwd": str(codex.project)}
        assert differences(codex, {run.session_id: truth}) == []


def test_a_command_that_fails_is_a_failed_tool_call(home: Path) -> None:
    replies = [Reply("I try.", tool=shell("echo oops >&2; exit 3")), Reply("It did not work.")]
    with scripted(Codex, home, {FIRST: replies}) as codex:
        run = codex.ask(FIRST)
        truth = truth_of(codex.model, FIRST, tools=[False])
        assert differences(codex, {run.session_id: truth}) == []


def test_a_resumed_session_stays_one_session(home: Path) -> None:
    with scripted(
        Codex, home, {FIRST: [Reply("Hello.")], SECOND: [Reply("Hello again.")]}
    ) as codex:
        run = codex.ask(FIRST)
        again = codex.ask(SECOND, resume=run.session_id)
        assert again.session_id == run.session_id
        truth = truth_of(codex.model, FIRST, SECOND)
        assert differences(codex, {run.session_id: truth}) == []


def test_a_fork_shows_the_shared_history_and_pays_only_for_its_own_calls(home: Path) -> None:
    script = {
        FIRST: [Reply("I will ask.", tool=shell("echo hello")), Reply("It says hello.")],
        SECOND: [Reply("Hello again.")],
        OTHER: [Reply("Then nobody would have said hello.")],
    }
    with scripted(Codex, home, script) as codex:
        run = codex.ask(FIRST)
        fork = codex.ask(OTHER, fork=run.session_id)
        codex.ask(SECOND, resume=run.session_id)
        branched = truth_of(codex.model, OTHER, inherited=[FIRST], tools=[True])
        truths = {
            run.session_id: truth_of(codex.model, FIRST, SECOND, tools=[True]),
            fork.session_id: branched | {"forked_from": run.session_id},
        }
        assert differences(codex, truths) == []


def test_reading_while_the_agent_works_disturbs_nobody(home: Path) -> None:
    script = {FIRST: [Reply("I ask.", tool=shell("echo $((6 * 7))")), Reply("42.", stalls=True)]}
    with scripted(Codex, home, script) as codex, codex.running(FIRST) as process:
        codex.wait_until_half_way(written="Thought 1.")
        with frozen(process):
            so_far = truth_of(codex.model, FIRST, tools=[True]) | UNFINISHED
            assert differences(codex, {codex.sole_session(): so_far}) == []
        codex.model.released.set()
        codex.finish(process)
        truth = truth_of(codex.model, FIRST, tools=[True])
        assert differences(codex, {codex.sole_session(): truth}) == []


def test_a_run_killed_in_its_first_answer_has_no_exact_cost(home: Path) -> None:
    script = {FIRST: [Reply("You will never hear the end.", stalls=True)]}
    with scripted(Codex, home, script) as codex, codex.running(FIRST) as process:
        codex.wait_until_half_way(written="Thought 0.")
        end(process)
        truth = truth_of(codex.model, FIRST) | UNFINISHED
        assert differences(codex, {codex.sole_session(): truth}) == []


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_ended_after_its_tool_has_no_exact_cost_even_when_resumed(
    home: Path, sign: signal.Signals
) -> None:
    script = {
        FIRST: [Reply("I ask.", tool=shell("echo $((6 * 7))")), Reply("42.", stalls=True)],
        SECOND: [Reply("Where were we?")],
    }
    with scripted(Codex, home, script) as codex:
        with codex.running(FIRST) as process:
            codex.wait_until_half_way(written="Thought 1.")
            end(process, sign)
        ended = truth_of(codex.model, FIRST, tools=[True]) | UNFINISHED
        assert differences(codex, {codex.sole_session(): ended}) == []
        run = codex.ask(SECOND, resume=codex.sole_session())
        resumed = truth_of(codex.model, FIRST, SECOND, tools=[True]) | UNFINISHED
        assert differences(codex, {run.session_id: resumed}) == []


def test_a_resumed_run_that_is_killed_leaves_a_lower_bound(home: Path) -> None:
    script = {FIRST: [Reply("Hello.")], SECOND: [Reply("You will never hear it.", stalls=True)]}
    with scripted(Codex, home, script) as codex:
        run = codex.ask(FIRST)
        with codex.running(SECOND, resume=run.session_id) as process:
            codex.wait_until_half_way(written="Thought 1.")
            end(process)
        truth = truth_of(codex.model, FIRST, SECOND) | UNFINISHED
        assert differences(codex, {run.session_id: truth}) == []
