"""The stored form of a session's state: what is recorded last counts, old forms can be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from amux import __version__
from amux.errors import StoreError
from amux.lifecycle.live_session import LiveState
from amux.lifecycle.snapshots import PREMISES, encode_snapshot, read_state
from amux.rollout import control
from amux.rollout.records import NewRecord, Record, SessionMeta, encode_payload

AT = datetime(2026, 3, 1, tzinfo=UTC)


def meta(**fields: Any) -> SessionMeta:
    return SessionMeta(thread_id="t", session_id="s", created_at=AT, **fields)


def records(*given: NewRecord) -> list[Record]:
    return [
        Record(seq=number, id=str(number), type=each.type, at=AT, text=encode_payload(each.payload))
        for number, each in enumerate(given, 2)
    ]


def turn(**fields: Any) -> NewRecord:
    return NewRecord(type="turn_context", payload=fields)


def saved(value: Any, name: str = "amux.snapshot") -> NewRecord:
    return control.register(name, value)


def version_1(subsystems: dict[str, Any] | None = None, **premises: Any) -> NewRecord:
    return saved({"schema_version": 1, "premises": premises, "subsystems": subsystems or {}})


def test_the_premises_are_the_hidden_assumptions_of_a_conversation() -> None:
    assert PREMISES == (
        "cwd",
        "model",
        "approval_mode",
        "sandbox_policy",
        "git_sha",
        "git_branch",
        "agent_role",
        "cli_version",
        "send_policy",
        "plugins",
    )


def test_a_snapshot_has_a_version_premises_and_states() -> None:
    state = LiveState(cwd="/p", model="opus", plugins={"a": 1}, cli_version="0.0.1", todos=[{}])
    assert encode_snapshot(state, {"todos": [1]}, had_directory=False) == {
        "schema_version": 1,
        "premises": {"cwd": "/p", "model": "opus", "cli_version": __version__, "plugins": {"a": 1}},
        "had_directory": False,
        "subsystems": {"todos": [1]},
    }


def test_unknown_premises_are_left_out_of_a_snapshot() -> None:
    assert encode_snapshot(LiveState(), {}, had_directory=True)["premises"] == {
        "cli_version": __version__
    }


def test_without_records_the_premises_are_those_of_the_start() -> None:
    given = meta(
        cwd="/p",
        model="opus",
        approval_mode="auto",
        sandbox_policy="none",
        git_sha="abc",
        git_branch="main",
        agent_role="reviewer",
        cli_version="0.0.9",
        title="no premise",
    )
    found = read_state(given, ())
    assert found.premises == {
        "cwd": "/p",
        "model": "opus",
        "approval_mode": "auto",
        "sandbox_policy": "none",
        "git_sha": "abc",
        "git_branch": "main",
        "agent_role": "reviewer",
        "cli_version": "0.0.9",
    }
    assert (found.version, found.subsystems, found.had_directory) == (None, {}, True)


def test_later_turns_replace_the_environment_of_the_start() -> None:
    found = read_state(
        meta(cwd="/p", model="opus"),
        records(
            turn(cwd="/q", model="haiku", approval_mode="ask", sandbox_policy="s", effort="low"),
            turn(cwd=None, git_sha="1", git_branch="b"),
            turn(model="sonnet"),
        ),
    )
    assert found.premises == {
        "cwd": "/q",
        "model": "sonnet",
        "approval_mode": "ask",
        "sandbox_policy": "s",
        "git_sha": "1",
        "git_branch": "b",
    }
    assert found.subsystems == {"model": {"level": "low"}}


def test_a_snapshot_replaces_everything_before_it() -> None:
    found = read_state(
        meta(cwd="/p", agent_role="reviewer"),
        records(
            version_1({"todos": {"todos": [1]}}, send_policy="deny", cwd="/old"),
            turn(cwd="/q", model="haiku"),
            version_1({"worktree": {"worktree": None}}, model="opus"),
        ),
    )
    assert found.premises == {"cwd": "/p", "agent_role": "reviewer", "model": "opus"}
    assert found.subsystems == {"worktree": {"worktree": None}}
    assert found.version == 1


def test_a_turn_after_the_snapshot_counts() -> None:
    found = read_state(meta(), records(version_1(model="opus", cwd="/p"), turn(cwd="/q")))
    assert found.premises == {"cwd": "/q", "model": "opus"}


def test_the_model_of_a_later_turn_replaces_the_chosen_one() -> None:
    chosen = {"model": {"model_override": "haiku", "level": "high"}}
    same = read_state(meta(), records(version_1(chosen, model="opus"), turn(model="haiku")))
    assert same.premises["model"] == "opus"
    assert same.subsystems["model"] == {"model_override": "haiku", "level": "high"}
    other = read_state(
        meta(), records(version_1(chosen, model="opus"), turn(model="sonnet", effort="low"))
    )
    assert other.premises["model"] == "opus"
    assert other.subsystems["model"] == {"model_override": "sonnet", "level": "low"}
    none = {"model": {"model_override": None, "level": None}}
    found = read_state(meta(), records(version_1(none, model="opus"), turn(model="sonnet")))
    assert found.premises["model"] == "sonnet"
    assert found.subsystems["model"] == {"model_override": None, "level": None}


def prompt(*sections: tuple[str, str]) -> dict[str, Any]:
    """The state of a prompt with sections of a text and an origin."""
    found = [{"name": origin, "text": text, "origin": origin} for text, origin in sections]
    return {"system_prompt": {"prompt_sections": found}}


def compacted(summary: Any) -> NewRecord:
    return NewRecord(type="compacted", payload={"summary": summary})


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([control.hide_all(reason="clear")], [("rules", "project")]),
        ([control.hide_ids(["2"])], [("rules", "project"), ("old", "baseline")]),
        ([compacted("new")], [("rules", "project"), ("new", "baseline")]),
        ([compacted(["odd"])], [("rules", "project")]),
        ([control.hide_all(), compacted("new")], [("rules", "project")]),
        ([], [("rules", "project"), ("old", "baseline")]),
    ],
)
def test_the_summary_of_a_prompt_is_that_of_the_conversation(
    later: list[NewRecord], expected: list[tuple[str, str]]
) -> None:
    snapshot = version_1(prompt(("rules", "project"), ("old", "baseline")))
    state = read_state(meta(), records(snapshot, *later))
    assert state.subsystems == prompt(*expected)


@pytest.mark.parametrize("odd", [{}, {"system_prompt": 1}, {"system_prompt": {"x": 1}}])
def test_a_prompt_without_a_summary_is_not_changed_by_a_clear(odd: dict[str, Any]) -> None:
    later = [control.hide_all(), compacted("new")]
    assert read_state(meta(), records(version_1(odd), *later)).subsystems == odd
    plain = prompt(("rules", "project"))
    assert read_state(meta(), records(version_1(plain), *later)).subsystems == plain


def test_other_registers_and_events_are_no_snapshots() -> None:
    found = read_state(
        meta(model="opus"),
        records(
            saved({"schema_version": 1, "premises": {"model": "x"}}, name="other"),
            control.event("something", name="amux.snapshot", value={"schema_version": 1}),
            NewRecord(payload={"type": "register", "name": "amux.snapshot", "value": {}}),
        ),
    )
    assert (found.version, found.premises) == (None, {"model": "opus"})


def test_the_version_of_the_last_run_is_known() -> None:
    resumed = control.event(control.SESSION_RESUMED, session_id="r", cli_version="0.0.5")
    found = read_state(meta(cli_version="0.0.1"), records(resumed))
    assert found.premises == {"cli_version": "0.0.5"}
    odd = control.event(control.SESSION_RESUMED, session_id="r", cli_version=5)
    assert read_state(meta(cli_version="0.0.1"), records(odd)).premises["cli_version"] == "0.0.1"


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False), (None, True)])
def test_a_snapshot_says_whether_its_directory_existed(value: Any, expected: bool) -> None:
    given = saved({"schema_version": 1, "had_directory": value})
    assert read_state(meta(), records(given)).had_directory is expected


def test_a_newer_snapshot_is_refused_in_one_sentence() -> None:
    with pytest.raises(StoreError) as caught:
        read_state(meta(), records(saved({"schema_version": 2, "premises": {}})))
    assert caught.value.message == (
        "the last snapshot of thread `t` has version 2; this version of amux restores up to 1"
    )
    assert caught.value.hint == "update amux"


def test_an_old_snapshot_after_a_newer_one_decides() -> None:
    given = records(saved({"schema_version": 7}), version_1(model="opus"))
    assert read_state(meta(), given).premises["model"] == "opus"


FLAT = {
    "cost": 1.25,
    "attribution": {"a.py": "agent"},
    "file_history": [{"path": "/p/a.py"}],
    "todos": [{"text": "x"}],
    "model_override": "haiku",
    "worktree_state": {"path": "/p/w"},
    "system_prompt": "You are helpful.",
    "cwd": "/p",
    "approval_mode": "auto",
}


def test_a_flat_snapshot_of_the_first_form_is_converted() -> None:
    found = read_state(meta(model="opus"), records(saved(FLAT)))
    assert found.version == 0
    assert found.premises == {"model": "opus", "cwd": "/p", "approval_mode": "auto"}
    assert found.subsystems == {
        "cost": {"billing_nusd": 1_250_000_000},
        "attribution": {"attribution": {"a.py": "agent"}},
        "file_history": {"file_history": [{"path": "/p/a.py"}]},
        "todos": {"todos": [{"text": "x"}]},
        "model": {"model_override": "haiku"},
        "worktree": {"worktree": {"path": "/p/w"}},
        "system_prompt": {
            "prompt_sections": [
                {"name": "system_prompt", "text": "You are helpful.", "origin": "user"}
            ]
        },
    }
    assert found.had_directory


def test_a_flat_snapshot_may_lack_everything() -> None:
    sections = [{"name": "a", "text": "b", "origin": "tools"}]
    found = read_state(meta(), records(saved({"system_prompt": sections, "cost": "much"})))
    assert found.subsystems == {"system_prompt": {"prompt_sections": sections}}
    empty = read_state(meta(), records(saved({"schema_version": 0})))
    assert (empty.version, empty.subsystems) == (0, {})


@pytest.mark.parametrize(
    "value", ["text", None, [1], {"schema_version": "x"}, {"schema_version": -3}]
)
def test_a_snapshot_of_another_shape_is_empty(value: Any) -> None:
    found = read_state(meta(model="opus"), records(saved(value)))
    assert (found.version, found.subsystems) == (0, {})
    assert found.premises["model"] == "opus"


def test_states_of_another_shape_are_ignored() -> None:
    value = {"schema_version": 1, "premises": ["x"], "subsystems": "y"}
    found = read_state(meta(model="opus"), records(saved(value)))
    assert (found.subsystems, found.premises["model"]) == ({}, "opus")


def test_premises_that_nobody_knows_are_ignored() -> None:
    value = {"schema_version": 1, "premises": {"todos": [1], "send_policy": "deny", "evil": 1}}
    found = read_state(meta(model="opus", cwd="/p"), records(saved(value)))
    assert list(found.premises.items()) == [
        ("cwd", "/p"),
        ("model", "opus"),
        ("send_policy", "deny"),
    ]
