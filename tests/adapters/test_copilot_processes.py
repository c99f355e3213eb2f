"""Tests how calls of Copilot CLI are counted in versions that write no usage records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from copilot_logs import ORIGIN, OWN, Json, Log, client, get

from amux import Session


def metrics(count: int, output: int, **more: int) -> Json:
    usage = {"inputTokens": 100 * count, "outputTokens": output, **more}
    return {"gpt-5": {"requests": {"count": count}, "usage": usage}}


def reply(log: Log, output: int, **more: Any) -> Log:
    return log.add("assistant.message", content="x", toolRequests=[], outputTokens=output, **more)


def figures(session: Session) -> tuple[int, int]:
    assert session.cost is not None
    return session.cost.input_tokens, session.cost.output_tokens


def test_the_cost_of_a_session_without_a_shutdown_is_marked_as_a_lower_bound(
    tmp_path: Path,
) -> None:
    log = Log().start(selectedModel="gpt-5").prompt("Go")
    reply(reply(log, 30), 12).write(tmp_path)
    session = get(tmp_path)
    assert session.cost is not None
    assert (session.cost.output_tokens, session.cost.incomplete) == (42, ("usage-not-recorded",))
    assert [(call.tokens.output, call.model) for call in session.calls] == [
        (30, "gpt-5"),
        (12, "gpt-5"),
    ]
    assert all(message.token_usage is None for message in session.messages)
    explained = client(tmp_path).explain_cost("copilot", OWN)
    assert (len(explained.calls), explained.incomplete) == (2, ("usage-not-recorded",))


def test_the_output_of_a_sub_agent_belongs_to_the_sub_agent(tmp_path: Path) -> None:
    log = Log().start(selectedModel="gpt-5").prompt("Go")
    log.add("subagent.started", toolCallId="call-1", agentName="explore", agentDescription="Look")
    reply(reply(log, 30), 7, parentToolCallId="call-1", model="small").write(tmp_path)
    session = get(tmp_path)
    (child,) = session.children
    assert [(call.model, call.tokens.output) for call in session.calls] == [("gpt-5", 30)]
    assert [(call.model, call.tokens.output) for call in child.calls] == [("small", 7)]


def test_the_parts_of_one_answer_are_one_call(tmp_path: Path) -> None:
    log = Log().start(selectedModel="gpt-5").prompt("Go").add("assistant.turn_start")
    reply(reply(reply(log, 30, apiCallId="a"), 30, apiCallId="a"), 5, apiCallId="b")
    log.add("assistant.turn_start")
    reply(log, 4, apiCallId="b").write(tmp_path)
    assert [call.tokens.output for call in get(tmp_path).calls] == [30, 5, 4]


def test_a_shutdown_counts_the_replies_of_its_process_and_of_its_sub_agents(
    tmp_path: Path,
) -> None:
    log = Log().start(selectedModel="gpt-5").prompt("Go")
    reply(reply(log, 30), 7, parentToolCallId="call-1")
    log.add("session.shutdown", modelMetrics=metrics(2, 37)).write(tmp_path)
    session = get(tmp_path)
    assert figures(session) == (200, 37)
    assert session.cost is not None
    assert session.cost.incomplete == ()


def test_a_session_that_a_second_window_joined_is_still_one_process(tmp_path: Path) -> None:
    log = reply(Log().start(selectedModel="gpt-5").prompt("Go"), 30)
    reply(log.add("session.resume", sessionWasActive=True).prompt("On"), 20)
    log.add("session.shutdown", modelMetrics=metrics(2, 50)).write(tmp_path)
    assert figures(get(tmp_path)) == (200, 50)


def test_totals_of_one_process_are_not_taken_for_a_continuation(tmp_path: Path) -> None:
    log = reply(Log().start(selectedModel="gpt-5").prompt("Go"), 5)
    log.add("session.shutdown", modelMetrics=metrics(1, 5)).add("session.resume").prompt("On")
    for _ in range(3):
        reply(log, 20)
    log.add("session.shutdown", modelMetrics=metrics(3, 60)).write(tmp_path)
    assert figures(get(tmp_path)) == (400, 65)


def test_a_killed_process_between_two_shutdowns_counts_by_its_replies(tmp_path: Path) -> None:
    log = reply(Log().start(selectedModel="gpt-5").prompt("Go"), 5)
    log.add("session.shutdown", modelMetrics=metrics(1, 5))
    reply(log.add("session.resume").prompt("Killed"), 8)
    reply(log.add("session.resume").prompt("On"), 20)
    log.add("session.shutdown", modelMetrics=metrics(2, 25)).write(tmp_path)
    session = get(tmp_path)
    assert figures(session) == (200, 33)
    assert session.cost is not None
    assert session.cost.incomplete == ("usage-not-recorded",)


def test_a_session_that_goes_on_in_a_version_with_records_counts_both_parts(tmp_path: Path) -> None:
    log = reply(Log().start(selectedModel="gpt-5").prompt("Go"), 5)
    log.add("session.shutdown", modelMetrics=metrics(1, 5)).add("session.resume").prompt("On")
    log.usage(1).answer("2", 1)
    log.add("session.shutdown", accountingSnapshot={"modelMetrics": metrics(2, 15)}).write(tmp_path)
    session = get(tmp_path)
    assert figures(session) == (100 + 50, 5 + 10)
    assert session.cost is not None
    assert session.cost.incomplete == ()


def test_a_fork_counts_neither_totals_nor_replies_of_its_origin_again(tmp_path: Path) -> None:
    origin = reply(Log().start(ORIGIN, selectedModel="gpt-5").prompt("One"), 5)
    origin.add("session.shutdown", modelMetrics=metrics(1, 5)).add("session.resume").prompt("Two")
    reply(origin, 8)
    fork = Log(start=100).start(selectedModel="gpt-5")
    fork.lines += origin.lines[1:]
    fork.add("session.info", infoType="fork", message=f'Forked from "x" ({ORIGIN}) as "y" ({OWN}).')
    reply(fork.add("session.resume").prompt("Three"), 20)
    fork.add("session.shutdown", modelMetrics=metrics(2, 25)).write(tmp_path)
    origin.add("session.shutdown", modelMetrics=metrics(2, 13)).write(tmp_path, ORIGIN)
    assert figures(get(tmp_path, ORIGIN)) == (200, 13)
    assert figures(get(tmp_path)) == (100, 20)
    total = client(tmp_path).sessions.total_cost(agent="copilot")
    assert (total.input_tokens, total.output_tokens, total.incomplete) == (300, 33, ())


def test_a_fork_that_made_no_call_does_not_count_the_accounting_of_its_origin(
    tmp_path: Path,
) -> None:
    origin = Log().start(ORIGIN).prompt("One").usage(1, source=ORIGIN).answer("1", 1, source=ORIGIN)
    fork = Log(start=100).start()
    fork.lines += origin.lines[1:]
    fork.add("session.resume")
    fork.add("session.shutdown", accountingSnapshot={"modelMetrics": metrics(1, 10)})
    fork.write(tmp_path)
    origin.write(tmp_path, ORIGIN)
    assert figures(get(tmp_path, ORIGIN)) == (50, 10)
    assert get(tmp_path).calls == ()


def test_the_model_of_a_reply_is_the_one_that_was_selected(tmp_path: Path) -> None:
    log = Log().start(selectedModel="gpt-5").prompt("Go").answer("1")
    log.add("session.model_change", previousModel="gpt-5", newModel="claude-sonnet-4.5")
    log.answer("2").write(tmp_path)
    session = get(tmp_path)
    assert session.models == ("gpt-5", "claude-sonnet-4.5")
    assert [m.model for m in session.messages] == [None, "gpt-5", "claude-sonnet-4.5"]


def test_questions_for_permission_are_known_records(tmp_path: Path) -> None:
    log = Log().start().prompt("Go").add("permission.requested", requestId="1")
    log.add("permission.completed", requestId="1").answer("1").write(tmp_path)
    assert "unknownTypes" not in get(tmp_path).raw
