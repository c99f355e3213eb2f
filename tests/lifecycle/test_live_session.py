"""A session in memory: its state, the environment of its turns, its cost and its conversation."""

from __future__ import annotations

from typing import Any

import pytest

from amux.lifecycle.live_session import LiveSession, LiveState, PromptSection
from amux.rollout import control
from amux.rollout.records import NewRecord, PayloadText
from amux.store.session_store import SessionStore
from amux.store.turns import TurnContext


def live(store: SessionStore, **meta: Any) -> LiveSession:
    thread = store.start(cwd="/w", **meta)
    return LiveSession(store.log, thread.thread_id, thread.run_session_id)


def test_a_new_state_knows_nothing() -> None:
    state = LiveState()
    assert (state.cwd, state.model, state.model_override, state.level) == (None,) * 4
    assert (state.prompt_sections, state.todos, state.file_history) == ([], [], [])
    assert (state.attribution, state.plugins, state.worktree) == ({}, {}, None)
    assert PromptSection(name="a", text="b").origin == "user"


def test_states_share_nothing() -> None:
    first = LiveState()
    first.todos.append({"text": "x"})
    first.plugins["p"] = 1
    assert LiveState() == LiveState(todos=[], plugins={})


def test_a_chosen_model_goes_before_that_of_the_start() -> None:
    assert LiveState(model="opus").effective_model == "opus"
    assert LiveState(model="opus", model_override="haiku").effective_model == "haiku"
    assert LiveState().effective_model is None


def test_only_a_denial_forbids_sending() -> None:
    assert LiveState().may_send
    assert LiveState(send_policy="allow").may_send
    assert not LiveState(send_policy="deny").may_send


def test_a_session_begins_with_an_empty_state_and_no_report(store: SessionStore) -> None:
    session = live(store)
    assert session.state == LiveState()
    assert (session.report, session.resumed_at, session.outcome, session.last_snapshot) == (
        (None,) * 4
    )
    assert session.log is store.log


def test_a_turn_records_the_environment_of_the_session(store: SessionStore) -> None:
    session = live(store)
    session.state = LiveState(
        cwd="/p",
        model="opus",
        model_override="haiku",
        level="high",
        approval_mode="auto",
        sandbox_policy={"type": "workspace"},
        git_sha="a" * 40,
        git_branch="main",
    )
    expected = TurnContext(
        cwd="/p",
        model="haiku",
        effort="high",
        approval_mode="auto",
        sandbox_policy={"type": "workspace"},
        git_sha="a" * 40,
        git_branch="main",
    )
    assert session.turn_context == expected
    session.begin_turn().end()
    assert session.environment == expected


def test_an_environment_that_has_not_changed_is_recorded_once(store: SessionStore) -> None:
    session = live(store)
    session.state.model = "opus"
    for _ in range(3):
        session.begin_turn().end()
    session.state.model_override = "haiku"
    session.begin_turn().end()
    session.begin_turn(TurnContext(model="other")).end()
    contexts = [each for each in session.items(raw=True) if each.type == "turn_context"]
    assert [each.payload["model"] for each in contexts] == ["opus", "haiku", "other"]


def test_a_turn_of_the_session_still_excludes_others(store: SessionStore) -> None:
    session = live(store)
    turn = session.begin_turn()
    with pytest.raises(Exception, match="running"):
        store.thread(session.thread_id).begin_turn()
    turn.end()


def test_the_cost_is_that_of_all_records_however_often_it_is_asked(store: SessionStore) -> None:
    session = live(store)
    assert session.cost.billing.calls == 0
    for number in range(4):
        session.message("assistant", "x", usage={"input_tokens": 10}, cost_usd=0.25)
        if number == 1:
            session.clear()
        assert session.cost == store.thread(session.thread_id).cost
        assert session.cost == session.cost
    assert session.cost.billing.cost_usd == 1.0
    assert session.cost.context.tokens.input == 20
    session.compact({"summary": "s", "cost_usd": 0.5}, keep_turns=0)
    assert session.cost == store.thread(session.thread_id).cost
    assert (session.cost.compaction.cost_usd, session.cost.billing.cost_usd) == (0.5, 1.5)


def test_the_cost_of_a_fork_begins_at_zero(store: SessionStore) -> None:
    parent = live(store)
    parent.message("assistant", "x", cost_usd=1.0)
    fork = store.fork(parent.thread_id)
    session = LiveSession(store.log, fork.thread_id, fork.run_session_id)
    assert session.cost.billing.calls == 0
    session.message("assistant", "y", cost_usd=0.5)
    assert session.cost.billing.cost_usd == 0.5


def test_items_without_a_message_are_left_out_of_the_conversation(store: SessionStore) -> None:
    session = live(store)
    session.message("user", "one")
    session.append({"type": "message", "content": "nobody says this"})
    session.append(NewRecord(payload=["not", "an", "object"]))
    session.append({"role": "wizard", "content": "hm"})
    session.message("assistant", "two")
    session.append(control.event(control.TOUCH))
    assert session.conversation() == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
    ]
    items = list(session.items())
    assert [session.is_readable(each) for each in items] == [True, False, False, False, True]


def test_items_of_another_program_are_opaque(store: SessionStore) -> None:
    session = live(store, payload_format="strange")
    session.append({"anything": 1})
    assert session.conversation() == [{"anything": 1}]


def test_a_record_that_was_counted_is_not_counted_again(store: SessionStore) -> None:
    session = live(store)
    session.message("assistant", "a", cost_usd=0.5)
    records = list(store.log.read(session.thread_id))
    session.count_costs(records)
    session.count_costs(records)
    assert session.cost.billing.calls == 1


@pytest.mark.parametrize(
    ("text", "is_readable"),
    [
        ('{"role": "user", "content": "x"}', True),
        ('{"content": NaN, "role": "tool"}', True),  # JSON as Python writes it
        ('{"role": 1, "role": "user"}', True),  # the last one counts
        ('{"role": "user", "role": null}', False),
        ('{"role": ["user"]}', False),
        ('{"role": "nobody"}', False),
        ('["role", "user"]', False),
        ('"user"', False),
        ("{}", False),
    ],
)
def test_an_item_is_readable_if_it_has_the_role_of_a_message(
    store: SessionStore, text: str, *, is_readable: bool
) -> None:
    session = live(store)
    session.append(NewRecord(payload=PayloadText(text)))
    (record,) = session.items()
    assert session.is_readable(record) is is_readable
