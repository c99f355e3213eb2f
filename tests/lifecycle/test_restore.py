"""Snapshots and restores: what is saved, in which order, what comes back, and what is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from repositories import commit, make_repository

from amux import __version__
from amux.errors import DecisionRequiredError, StoreError, ValidationError
from amux.lifecycle.live_session import LiveSession, LiveState, PromptSection
from amux.lifecycle.restore import RestorableSubsystem, RestoreRegistry
from amux.lifecycle.restore_report import (
    Decision,
    FieldCheck,
    OnProblem,
    RestoreProblem,
    RestoreReport,
    SubsystemReport,
    compared,
)
from amux.lifecycle.subsystems import CostState, StateFields, builtin_subsystems
from amux.rollout.records import NewRecord
from amux.store.session_store import SessionStore

SEVEN = ("cost", "attribution", "file_history", "todos", "model", "worktree", "system_prompt")


def start(store: SessionStore, **meta: Any) -> LiveSession:
    given: dict[str, Any] = {"cwd": "", **meta}
    thread = store.start(**given)
    return LiveSession(store.log, thread.thread_id, thread.run_session_id)


def again(store: SessionStore, session: LiveSession) -> LiveSession:
    """Return the thread as another process sees it."""
    return LiveSession(store.log, session.thread_id, "run")


FULL: dict[str, Any] = {
    "model": "opus",
    "model_override": "haiku",
    "level": "high",
    "send_policy": "deny",
    "approval_mode": "auto",
    "sandbox_policy": {"type": "workspace", "roots": ["/w"]},
    "git_sha": "a" * 40,
    "git_branch": "main",
    "agent_role": "reviewer",
    "budget_usd": 12.5,
    "prompt_sections": [
        PromptSection(name="AGENTS.md", text="Use tabs.", origin="project"),
        PromptSection(name="plug", text="Ask first.", origin="plugin"),
        PromptSection(name="tools", text="read, write", origin="tools"),
        PromptSection(name="mine", text="Be brief.", origin="user"),
    ],
    "todos": [{"text": "test", "done": False}, {"text": "ship", "done": True}],
    "file_history": [{"path": "/w/a.py", "before": "1", "after": "2"}],
    "attribution": {"/w/a.py": {"agent": 3, "user": 4}},
    "worktree": {"path": "/w/tree", "branch": "topic"},
    "plugins": {"lint": {"rules": [1, 2]}},
}


class Recorded:
    """A subsystem that notes what happens to it."""

    def __init__(self, name: str, calls: list[str], state: Any = None) -> None:
        self.name = name
        self.calls = calls
        self.state = state

    def snapshot(self, session: LiveSession) -> Any:
        self.calls.append(f"save {self.name}")
        return self.state

    def restore(self, state: Any, session: LiveSession) -> None:
        self.calls.append(f"restore {self.name}")
        self.state = state


class Broken:
    """A subsystem whose methods fail."""

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self.error = error
        self.saves = False

    def snapshot(self, session: LiveSession) -> Any:
        if self.saves:
            return {"is": "saved"}
        raise self.error

    def restore(self, state: Any, session: LiveSession) -> None:
        raise self.error


# the order


def test_seven_subsystems_are_restored_in_one_declared_order() -> None:
    assert RestoreRegistry().order == SEVEN
    assert tuple(each.name for each in builtin_subsystems()) == SEVEN


@pytest.mark.parametrize("after", SEVEN)
def test_another_subsystem_can_stand_after_any(after: str) -> None:
    registry = RestoreRegistry()
    registry.register(Recorded("skills", []), after=after)
    order = registry.order
    assert order.index("skills") == SEVEN.index(after) + 1
    assert tuple(name for name in order if name != "skills") == SEVEN


def test_another_subsystem_stands_last_by_default() -> None:
    registry = RestoreRegistry()
    registry.register(Recorded("skills", []))
    registry.register(Recorded("more", []))
    assert registry.order == (*SEVEN, "skills", "more")
    assert RestoreRegistry().order == SEVEN


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValidationError, match=r"^a subsystem `todos` is registered$") as caught:
        RestoreRegistry().register(Recorded("todos", []))
    assert caught.value.fields == ("name",)
    with pytest.raises(ValidationError, match=r"^a subsystem needs a name$"):
        RestoreRegistry().register(Recorded("", []))


def test_an_unknown_place_is_an_error() -> None:
    registry = RestoreRegistry()
    with pytest.raises(ValidationError, match=r"^there is no subsystem `nothing`$") as caught:
        registry.register(Recorded("skills", []), after="nothing")
    assert (caught.value.fields, caught.value.hint) == (("after",), ", ".join(SEVEN))
    assert registry.order == SEVEN


def test_saving_and_restoring_follow_the_order(store: SessionStore) -> None:
    calls: list[str] = []
    registry = RestoreRegistry()
    registry.register(Recorded("b", calls, [1]), after="cost")
    registry.register(Recorded("a", calls, [2]))
    session = start(store)
    registry.snapshot(session)
    assert calls == ["save b", "save a"]
    calls.clear()
    registry.restore(again(store, session))
    assert calls == ["restore b", "save b", "restore a", "save a"]


def test_a_subsystem_is_anything_with_a_name_and_two_methods(store: SessionStore) -> None:
    given: RestorableSubsystem[list[int]] = Recorded("skills", [], [1, 2])
    registry = RestoreRegistry()
    registry.register(given)
    session = start(store)
    assert registry.snapshot(session)["skills"] == [1, 2]
    other = Recorded("skills", [])
    second = RestoreRegistry()
    second.register(other)
    report = second.restore(again(store, session))
    assert other.state == [1, 2]
    assert report.subsystem("skills") == SubsystemReport(
        name="skills",
        status="restored",
        fields=(FieldCheck(name="skills", expected=[1, 2], actual=[1, 2]),),
    )


# round trips


def test_everything_comes_back(store: SessionStore) -> None:
    session = start(store)
    session.state = LiveState(**FULL)
    session.message("user", "hi")
    session.message("assistant", "yo", usage={"input_tokens": 7, "output_tokens": 2}, cost_usd=0.5)
    RestoreRegistry().snapshot(session)
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed)
    expected = LiveState(**FULL, cwd=None, cli_version=__version__)
    assert resumed.state == expected
    assert report.is_complete
    assert report.differences == ()
    assert report.failed == ()
    assert report.schema_version == 1
    assert (report.messages, report.skipped_messages) == (2, 0)
    assert (report.warnings, report.notes, report.undecided) == ((), (), ())
    assert [each.name for each in report.subsystems] == list(SEVEN)
    assert {each.status for each in report.subsystems} == {"restored"}
    assert [each.name for each in report.premises] == [
        "model",
        "approval_mode",
        "sandbox_policy",
        "git_sha",
        "git_branch",
        "agent_role",
        "cli_version",
        "send_policy",
        "plugins",
    ]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("attribution", ("attribution",)),
        ("file_history", ("file_history",)),
        ("todos", ("todos",)),
        ("model", ("model_override", "level")),
        ("worktree", ("worktree",)),
        ("system_prompt", ("prompt_sections",)),
        ("cost", ("budget_usd",)),
    ],
)
def test_each_subsystem_brings_back_its_own_fields(name: str, fields: tuple[str, ...]) -> None:
    store = SessionStore("memory:")
    session = start(store)
    session.state = LiveState(**FULL)
    subsystem = next(each for each in builtin_subsystems() if each.name == name)
    state = subsystem.snapshot(session)
    empty = again(store, session)
    subsystem.restore(state, empty)
    changed = {each for each in FULL if getattr(empty.state, each) != getattr(LiveState(), each)}
    assert changed == set(fields)
    assert all(getattr(empty.state, field) == FULL[field] for field in fields)


def test_a_state_of_another_type_is_not_restored() -> None:
    session = start(SessionStore("memory:"))
    with pytest.raises(msgspec.ValidationError):
        StateFields("todos", "todos").restore({"todos": "many"}, session)
    assert session.state == LiveState()


def test_a_state_that_lacks_a_field_leaves_it() -> None:
    session = start(SessionStore("memory:"))
    session.state.level = "low"
    StateFields("model", "model_override", "level").restore({"model_override": "x"}, session)
    assert (session.state.model_override, session.state.level) == ("x", "low")


def test_a_snapshot_is_returned_by_subsystem_and_stored_in_the_thread(store: SessionStore) -> None:
    session = start(store)
    session.state.todos = [{"text": "x"}]
    states = RestoreRegistry().snapshot(session)
    assert list(states) == list(SEVEN)
    assert states["todos"] == {"todos": [{"text": "x"}]}
    stored = store.open(session.thread_id).register("amux.snapshot")
    assert stored == {
        "schema_version": 1,
        "premises": {"cli_version": __version__},
        "had_directory": True,
        "subsystems": states,
    }
    assert session.last_snapshot == stored


def test_an_unchanged_state_is_not_stored_again(store: SessionStore) -> None:
    session, registry = start(store), RestoreRegistry()
    registry.snapshot(session)
    head = session.summary.head
    registry.snapshot(session)
    assert session.summary.head == head
    session.state.todos.append({"text": "x"})
    registry.snapshot(session)
    session.state.todos.append({"text": "y"})
    registry.snapshot(session)
    assert session.summary.head == head + 2


def test_a_snapshot_does_not_change_with_the_state(store: SessionStore) -> None:
    session = start(store)
    session.state.todos = [{"text": "x"}]
    states = RestoreRegistry().snapshot(session)
    session.state.todos[0]["text"] = "y"
    assert states["todos"] == {"todos": [{"text": "x"}]}


# costs


def test_costs_go_on_after_a_restore(store: SessionStore) -> None:
    session, registry = start(store), RestoreRegistry()
    session.message("assistant", "x", usage={"input_tokens": 10, "output_tokens": 3}, cost_usd=0.75)
    session.compact({"summary": "s", "usage": {"input_tokens": 4}, "cost_usd": 0.25}, keep_turns=0)
    states = registry.snapshot(session)
    assert states["cost"] == {
        "billing_nusd": 1_000_000_000,
        "billing_calls": 2,
        "billing_input_tokens": 14,
        "billing_output_tokens": 3,
        "compaction_nusd": 250_000_000,
        "compaction_calls": 1,
        "compaction_input_tokens": 4,
        "compaction_output_tokens": 0,
        "budget_usd": None,
    }
    resumed = again(store, session)
    before = session.cost
    registry.restore(resumed)
    assert resumed.cost == before
    resumed.message("assistant", "y", cost_usd=0.5)
    assert resumed.cost.billing.cost_usd == 1.5
    assert registry.restore(again(store, session)).is_complete  # more than was saved


def test_a_cost_that_the_records_do_not_account_for_is_reported(store: SessionStore) -> None:
    session, registry = start(store), RestoreRegistry()
    lost = session.message("assistant", "x", cost_usd=0.75)
    session.message("assistant", "y", cost_usd=0.5)
    registry.snapshot(session)
    store.erase(session.thread_id, [lost])
    report = registry.restore(again(store, session))
    assert report.subsystem("cost").status == "changed"
    assert not report.is_complete
    assert [(each.name, each.expected, each.actual) for each in report.differences] == [
        ("billing_nusd", 1_250_000_000, 500_000_000),
        ("billing_calls", 2, 1),
    ]


def test_a_budget_is_compared_and_not_bounded() -> None:
    session = start(SessionStore("memory:"))
    session.state.budget_usd = 3.0
    actual = CostState().actual({"budget_usd": 2.0, "billing_nusd": -1}, session)
    assert actual["budget_usd"] == 3.0
    assert actual["billing_nusd"] == -1
    assert actual["billing_calls"] == 0


# the system prompt


def test_the_system_prompt_comes_from_the_snapshot_and_never_from_disk(
    store: SessionStore, tmp_path: Path
) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("Use tabs.")
    session = start(store, cwd=str(tmp_path))
    session.state.cwd = str(tmp_path)
    session.state.prompt_sections = list(FULL["prompt_sections"])
    RestoreRegistry().snapshot(session)
    file.write_text("Use spaces.")
    resumed = again(store, session)
    RestoreRegistry().restore(resumed)
    assert resumed.state.prompt_sections == FULL["prompt_sections"]
    file.unlink()
    RestoreRegistry().restore(resumed)
    assert [each.origin for each in resumed.state.prompt_sections] == [
        "project",
        "plugin",
        "tools",
        "user",
    ]


# failing parts


def test_a_failing_subsystem_does_not_stop_the_others(store: SessionStore) -> None:
    broken = Broken("bad", RuntimeError("no luck"))
    broken.saves = True
    registry = RestoreRegistry()
    registry.register(broken, after="cost")
    session = start(store)
    session.state = LiveState(**FULL)
    registry.snapshot(session)
    resumed = again(store, session)
    report = registry.restore(resumed)
    assert report.failed == ("bad",)
    assert report.subsystem("bad") == SubsystemReport(
        name="bad", status="failed", error="RuntimeError: no luck"
    )
    assert report.warnings == ("`bad` could not be restored: RuntimeError: no luck",)
    assert not report.is_complete
    assert resumed.state.todos == FULL["todos"]
    assert {each.status for each in report.subsystems if each.name != "bad"} == {"restored"}


def test_an_error_without_words_is_named(store: SessionStore) -> None:
    warnings: list[str] = []
    registry = RestoreRegistry(warn=warnings.append)
    registry.register(Broken("bad", KeyError()))
    registry.snapshot(start(store))
    assert warnings == ["the state of `bad` cannot be saved: KeyError"]


def test_a_state_that_cannot_be_saved_stays_as_it_was(store: SessionStore) -> None:
    warnings: list[str] = []
    broken = Broken("bad", RuntimeError("no luck"))
    broken.saves = True
    registry = RestoreRegistry(warn=warnings.append)
    registry.register(broken)
    session = start(store)
    assert registry.snapshot(session)["bad"] == {"is": "saved"}
    broken.saves = False
    session.state.todos = [{"text": "x"}]
    states = registry.snapshot(session)
    assert states["bad"] == {"is": "saved"}
    assert states["todos"] == {"todos": [{"text": "x"}]}
    assert warnings == ["the state of `bad` cannot be saved: RuntimeError: no luck"]
    never = RestoreRegistry(warn=warnings.append)
    never.register(broken)
    assert "bad" not in never.snapshot(start(store))


@pytest.mark.parametrize("state", [object(), {"a": {1, 2, object()}}, {(1, 2): 3}, float("nan")])
def test_a_state_that_is_no_json_is_not_saved(store: SessionStore, state: Any) -> None:
    warnings: list[str] = []
    registry = RestoreRegistry(warn=warnings.append)
    registry.register(Recorded("odd", [], state))
    states = registry.snapshot(start(store))
    if state == state:  # noqa: PLR0124 - NaN is stored as JSON's dialect allows
        assert "odd" not in states
        assert warnings[0].startswith("the state of `odd` cannot be saved: ")


def test_warnings_go_to_the_log_by_default(
    store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    registry = RestoreRegistry()
    registry.register(Broken("bad", RuntimeError("100 %s")))
    registry.snapshot(start(store))
    (record,) = caplog.records
    assert record.name == "amux.lifecycle"
    assert record.levelname == "WARNING"
    assert record.getMessage() == "the state of `bad` cannot be saved: RuntimeError: 100 %s"


def test_damaged_states_are_reported_one_by_one(store: SessionStore) -> None:
    session = start(store)
    good = RestoreRegistry().snapshot(session)
    session.state.todos = [{"text": "x"}]
    bad = {**good, "todos": {"todos": "many"}, "cost": {"billing_nusd": "a lot"}, "worktree": 7}
    session.set_register(
        "amux.snapshot",
        {"schema_version": 1, "premises": {"cwd": 5, "model": "opus"}, "subsystems": bad},
    )
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed)
    assert report.failed == ("cost", "todos", "worktree")
    assert resumed.state.model == "opus"
    assert resumed.state.cwd is None
    assert report.warnings[0].startswith("the recorded `cwd` cannot be used: ")
    assert [each.name for each in report.differences] == ["cwd"]


def test_a_state_of_an_unregistered_subsystem_is_kept(store: SessionStore) -> None:
    with_skills = RestoreRegistry()
    with_skills.register(Recorded("skills", [], {"used": ["git"]}))
    session = start(store)
    with_skills.snapshot(session)
    plain = RestoreRegistry()
    resumed = again(store, session)
    report = plain.restore(resumed)
    assert report.subsystem("skills").status == "unknown"
    assert report.notes == ("no subsystem `skills` is registered; its state is kept",)
    assert report.is_complete
    resumed.state.todos = [{"text": "x"}]
    assert plain.snapshot(resumed)["skills"] == {"used": ["git"]}
    assert with_skills.restore(again(store, session)).subsystem("skills").status == "restored"


def test_a_state_that_changes_on_the_way_is_reported(store: SessionStore) -> None:
    class Forgetful(Recorded):
        def restore(self, state: Any, session: LiveSession) -> None:
            self.state = {**state, "b": 3}

    registry = RestoreRegistry()
    registry.register(Forgetful("odd", [], {"a": 1, "b": 2}))
    session = start(store)
    registry.snapshot(session)
    report = registry.restore(again(store, session))
    assert report.subsystem("odd") == SubsystemReport(
        name="odd",
        status="changed",
        fields=(
            FieldCheck(name="a", expected=1, actual=1),
            FieldCheck(name="b", expected=2, actual=3),
        ),
    )
    assert report.differences == (FieldCheck(name="b", expected=2, actual=3),)


def test_a_thread_without_a_snapshot_has_absent_states(store: SessionStore) -> None:
    session = start(store, model="opus", approval_mode="auto")
    report = RestoreRegistry().restore(again(store, session))
    assert {each.status for each in report.subsystems} == {"absent"}
    assert [each.name for each in report.subsystems] == list(SEVEN)
    assert report.schema_version is None
    assert report.is_complete


# tier 1: messages


def test_messages_that_cannot_be_read_are_skipped_and_counted(store: SessionStore) -> None:
    session = start(store)
    session.message("user", "one")
    session.append(NewRecord(payload=["no", "message"]))
    session.append({"role": "nobody"})
    session.message("assistant", "two")
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed)
    assert (report.messages, report.skipped_messages) == (2, 2)
    assert report.notes == ("2 unreadable records were skipped",)
    assert not report.is_complete
    assert [each["content"] for each in resumed.conversation()] == ["one", "two"]


def test_lines_that_are_no_records_are_skipped_and_counted(store_folder: Path) -> None:
    with SessionStore(store_folder) as store:
        session = start(store)
        session.message("user", "one")
        path = session.path
    lines = path.read_bytes().splitlines(keepends=True)
    bad = b'{"type":"response_item","seq":9,"id":"x","timestamp":"2026-03-01T00:00:00Z",'
    bad += b'"payload_text":"{oops"}\n'
    path.write_bytes(b"".join([lines[0], b"garbage\n", bad, lines[1]]))
    with SessionStore(store_folder) as store:
        resumed = again(store, session)
        report = RestoreRegistry().restore(resumed)
        assert (report.messages, report.skipped_messages) == (1, 2)
        assert resumed.conversation() == [{"role": "user", "content": "one"}]


def test_a_torn_last_line_is_counted_and_no_damage(store_folder: Path) -> None:
    with SessionStore(store_folder) as store:
        session = start(store)
        path = session.path
        path.write_bytes(path.read_bytes() + b'{"type":"resp')
        report = RestoreRegistry().restore(again(store, session))
    assert (report.messages, report.skipped_messages) == (0, 1)


# tier 2: the working directory


def missing_directory(store: SessionStore, folder: Path) -> LiveSession:
    folder.mkdir()
    session = start(store, cwd=str(folder))
    session.state.cwd = str(folder)
    RestoreRegistry().snapshot(session)
    folder.rmdir()
    return session


def test_a_missing_directory_is_a_decision_of_the_caller(
    store: SessionStore, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    session = missing_directory(store, gone)
    head = session.summary.head
    resumed = again(store, session)
    with pytest.raises(DecisionRequiredError) as caught:
        RestoreRegistry().restore(resumed)
    error = caught.value
    assert error.message == f"the working directory `{gone}` of the session does not exist"
    assert (error.code, error.kind) == ("DECISION_REQUIRED", "cwd_missing")
    assert error.choices == ("use_directory", "keep")
    assert error.hint == "pass `cwd` with another directory, or decide in `on_problem`"
    assert resumed.state == LiveState()
    assert session.summary.head == head


def test_another_directory_can_be_given(store: SessionStore, tmp_path: Path) -> None:
    session = missing_directory(store, tmp_path / "gone")
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed, cwd=str(tmp_path))
    assert resumed.state.cwd == str(tmp_path)
    assert report.notes == (f"the session continues in `{tmp_path}`",)
    assert report.differences == (
        FieldCheck(name="cwd", expected=str(tmp_path / "gone"), actual=str(tmp_path)),
    )


def test_the_decision_may_name_another_directory(store: SessionStore, tmp_path: Path) -> None:
    asked: list[RestoreProblem] = []

    def decide(problem: RestoreProblem) -> Decision:
        asked.append(problem)
        return Decision("use_directory", str(tmp_path))

    gone = tmp_path / "gone"
    resumed = again(store, missing_directory(store, gone))
    RestoreRegistry().restore(resumed, on_problem=decide)
    assert resumed.state.cwd == str(tmp_path)
    assert asked == [
        RestoreProblem(
            kind="cwd_missing",
            message=f"the working directory `{gone}` of the session does not exist",
            choices=("use_directory", "keep"),
            subject=str(gone),
        )
    ]


def test_the_decision_may_keep_the_missing_directory(store: SessionStore, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    resumed = again(store, missing_directory(store, gone))
    report = RestoreRegistry().restore(resumed, on_problem=lambda _: Decision("keep"))
    assert resumed.state.cwd == str(gone)
    assert report.warnings == (f"the working directory `{gone}` of the session does not exist",)


@pytest.mark.parametrize("answer", [Decision("whatever"), Decision("use_directory")])
def test_another_answer_is_an_error(tmp_path: Path, answer: Decision) -> None:
    store = SessionStore("memory:")
    resumed = again(store, missing_directory(store, tmp_path / "gone"))
    with pytest.raises(ValidationError) as caught:
        RestoreRegistry().restore(resumed, on_problem=lambda _: answer)
    assert caught.value.message == f"`{answer.choice}` is no answer to a missing directory"
    assert caught.value.fields == ("choice",)
    assert caught.value.hint == "answer `use_directory` with a directory as the value, or `keep`"


def test_a_given_directory_must_exist(tmp_path: Path) -> None:
    store = SessionStore("memory:")
    session = missing_directory(store, tmp_path / "gone")
    wrong = str(tmp_path / "wrong")
    choose: OnProblem = lambda _: Decision("use_directory", wrong)  # noqa: E731 - a short answer
    several: tuple[dict[str, Any], ...] = ({"cwd": wrong}, {"on_problem": choose})
    for options in several:
        with pytest.raises(ValidationError, match="does not exist") as caught:
            RestoreRegistry().restore(again(store, session), **options)
        assert caught.value.message == f"the directory `{wrong}` does not exist"
        assert caught.value.fields == ("cwd",)


def test_a_directory_that_never_existed_is_no_surprise(store: SessionStore) -> None:
    session = start(store, cwd="/never/was")
    session.state.cwd = "/never/was"
    RestoreRegistry().snapshot(session)
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed)
    assert resumed.state.cwd == "/never/was"
    missing = "the working directory `/never/was` of the session does not exist"
    assert report.notes == (f"{missing}; nor did it when the session was saved",)
    assert report.is_complete


def test_without_a_snapshot_a_missing_directory_is_a_decision(store: SessionStore) -> None:
    session = start(store, cwd="/never/was")
    with pytest.raises(DecisionRequiredError):
        RestoreRegistry().restore(again(store, session))


def test_directories_are_looked_up_where_the_agent_runs(store: SessionStore) -> None:
    session = start(store, cwd="/elsewhere")
    looked: list[str] = []

    def is_directory(path: str) -> bool:
        looked.append(path)
        return True

    resumed = again(store, session)
    RestoreRegistry(is_directory=is_directory).restore(resumed)
    assert (looked, resumed.state.cwd) == (["/elsewhere"], "/elsewhere")


# tier 3: the model


def test_a_model_that_is_gone_is_replaced_by_the_default(store: SessionStore) -> None:
    session = start(store, model="old")
    registry = RestoreRegistry(is_valid_model=lambda name: name == "new", default_model="new")
    resumed = again(store, session)
    report = registry.restore(resumed)
    assert resumed.state.model == "new"
    assert report.notes == ("the model `old` is not available; `new` is used",)
    assert report.differences == (FieldCheck(name="model", expected="old", actual="new"),)


def test_without_a_default_there_is_no_model(store: SessionStore) -> None:
    resumed = again(store, start(store, model="old"))
    report = RestoreRegistry(is_valid_model=lambda _: False).restore(resumed)
    assert resumed.state.model is None
    assert report.notes == ("the model `old` is not available; no model is used",)


def test_a_chosen_model_that_is_gone_is_dropped(store: SessionStore) -> None:
    session = start(store, model="opus")
    session.state = LiveState(model="opus", model_override="gone")
    RestoreRegistry().snapshot(session)
    resumed = again(store, session)
    report = RestoreRegistry(is_valid_model=lambda name: name == "opus").restore(resumed)
    assert (resumed.state.model, resumed.state.model_override) == ("opus", None)
    assert resumed.state.effective_model == "opus"
    assert report.notes == ("the chosen model `gone` is not available",)


def test_valid_models_stay_and_without_a_check_all_do(store: SessionStore) -> None:
    session = start(store, model="opus")
    session.state = LiveState(model="opus", model_override="haiku")
    RestoreRegistry().snapshot(session)
    for registry in (RestoreRegistry(default_model="x"), RestoreRegistry(is_valid_model=bool)):
        resumed = again(store, session)
        report = registry.restore(resumed)
        assert (resumed.state.model, resumed.state.model_override) == ("opus", "haiku")
        assert report.notes == ()


def test_no_model_is_not_checked(store: SessionStore) -> None:
    def unexpected(name: str) -> bool:
        raise AssertionError(name)

    resumed = again(store, start(store))
    RestoreRegistry(is_valid_model=unexpected, default_model="x").restore(resumed)
    assert resumed.state.model is None


# tier 4: the whole session


Change = Callable[[list[bytes]], bytes]


def without_meta(lines: list[bytes]) -> bytes:
    return b"garbage\n" + lines[1]


def without_messages(lines: list[bytes]) -> bytes:
    return lines[0] + b"garbage\n"


def newer(lines: list[bytes]) -> bytes:
    return b"".join(lines).replace(b'"schema_version":1', b'"schema_version":2')


def damaged(folder: Path, change: Change) -> str:
    with SessionStore(folder) as store:
        session = start(store)
        session.message("user", "one")
        path = session.path
    path.write_bytes(change(path.read_bytes().splitlines(keepends=True)))
    return session.thread_id


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_meta, "the meta data of thread `{}` cannot be read"),
        (without_messages, "no message of thread `{}` can be read"),
    ],
)
def test_a_session_that_cannot_be_read_is_a_decision(
    store_folder: Path, change: Change, reason: str
) -> None:
    thread_id = damaged(store_folder, change)
    with SessionStore(store_folder) as store, pytest.raises(DecisionRequiredError) as caught:
        RestoreRegistry().restore(LiveSession(store.log, thread_id, "run"))
    assert caught.value.message == reason.format(thread_id)
    assert caught.value.kind == "corrupt"
    assert caught.value.choices == ("start_fresh", "export")
    assert caught.value.hint == "decide in `on_problem`, or try `amux store doctor --repair`"


def test_a_thread_of_a_newer_version_is_refused_in_one_sentence(store_folder: Path) -> None:
    thread_id = damaged(store_folder, newer)
    with SessionStore(store_folder) as store, pytest.raises(StoreError) as caught:
        RestoreRegistry().restore(LiveSession(store.log, thread_id, "run"))
    assert caught.value.message == (
        f"thread `{thread_id}` has version 2 of the format; this version of amux reads up to 1"
    )


# git


def test_a_repository_that_moved_is_a_warning_with_both_commits(
    store: SessionStore, tmp_path: Path
) -> None:
    then = make_repository(tmp_path)
    session = start(store, cwd=str(tmp_path), git_sha=then)
    assert RestoreRegistry().restore(again(store, session)).warnings == ()
    now = commit(tmp_path, "second")
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed)
    assert report.warnings == (
        f"the repository has moved since: it was at commit {then} and is at {now}",
    )
    assert resumed.state.git_sha == then
    assert report.is_complete


def test_a_directory_without_a_repository_has_not_moved(
    store: SessionStore, tmp_path: Path
) -> None:
    session = start(store, cwd=str(tmp_path), git_sha="a" * 40)
    assert RestoreRegistry().restore(again(store, session)).warnings == ()


def test_git_is_asked_only_if_a_commit_was_recorded(store: SessionStore, tmp_path: Path) -> None:
    asked: list[str] = []

    def head(directory: str) -> str:
        asked.append(directory)
        return "b"

    registry = RestoreRegistry(git_head=head)
    registry.restore(again(store, start(store, cwd=str(tmp_path))))
    registry.restore(again(store, start(store, git_sha="a")))
    assert asked == []
    report = registry.restore(again(store, start(store, cwd=str(tmp_path), git_sha="a")))
    assert asked == [str(tmp_path)]
    assert report.warnings == ("the repository has moved since: it was at commit a and is at b",)


# permissions


def test_permissions_come_back_as_recorded_or_safe(store: SessionStore) -> None:
    session = start(store, approval_mode="auto", sandbox_policy="none")
    resumed = again(store, session)
    RestoreRegistry().restore(resumed)
    assert (resumed.state.approval_mode, resumed.state.sandbox_policy) == ("auto", "none")
    report = RestoreRegistry().restore(resumed, approval="safe")
    assert (resumed.state.approval_mode, resumed.state.sandbox_policy) == (
        "on-request",
        "read-only",
    )
    assert report.notes == ("permissions are the safe ones, not the recorded ones",)
    assert [(each.name, each.expected, each.actual) for each in report.differences] == [
        ("approval_mode", "auto", "on-request"),
        ("sandbox_policy", "none", "read-only"),
    ]


def test_another_word_for_permissions_is_an_error(store: SessionStore) -> None:
    with pytest.raises(ValidationError) as caught:
        RestoreRegistry().restore(start(store), approval="all")  # type: ignore[arg-type]  # wrong
    assert caught.value.message == "`approval` must be recorded or safe, not `all`"
    assert caught.value.fields == ("approval",)


# versions


def test_a_session_of_another_version_has_a_note(store: SessionStore) -> None:
    session = start(store)
    session.set_register(
        "amux.snapshot", {"schema_version": 1, "premises": {"cli_version": "0.0.0"}}
    )
    resumed = again(store, session)
    report = RestoreRegistry().restore(resumed)
    assert resumed.state.cli_version == "0.0.0"
    assert report.notes == (
        f"version 0.0.0 of amux wrote the session; this is version {__version__}",
    )


# examinations


def test_an_examination_lists_what_a_restore_would_ask(store: SessionStore, tmp_path: Path) -> None:
    session = missing_directory(store, tmp_path / "gone")
    head = session.summary.head
    report = RestoreRegistry().examine(again(store, session))
    assert [each.kind for each in report.undecided] == ["cwd_missing"]
    assert not report.is_complete
    assert session.summary.head == head
    assert RestoreRegistry().examine(start(store)).undecided == ()


def test_an_examination_of_a_damaged_session_is_a_report(store_folder: Path) -> None:
    thread_id = damaged(store_folder, without_meta)
    with SessionStore(store_folder) as store:
        report = RestoreRegistry().examine(LiveSession(store.log, thread_id, "run"))
    assert report.thread_id == thread_id
    assert report.undecided == (
        RestoreProblem(
            kind="corrupt",
            message=f"the meta data of thread `{thread_id}` cannot be read",
            choices=("start_fresh", "export"),
            subject=thread_id,
        ),
    )


# reports


def test_a_report_is_complete_if_nothing_differs() -> None:
    good, bad = (FieldCheck(name="a", expected=1, actual=each) for each in (1, 2))
    assert good.is_equal
    assert not bad.is_equal
    assert RestoreReport(thread_id="t").is_complete
    assert RestoreReport(thread_id="t", premises=(good,)).is_complete
    problem = RestoreProblem(kind="corrupt", message="m", choices=(), subject="t")
    failed = SubsystemReport(name="a", status="failed")
    for incomplete in (
        RestoreReport(thread_id="t", premises=(bad,)),
        RestoreReport(thread_id="t", skipped_messages=1),
        RestoreReport(thread_id="t", undecided=(problem,)),
        RestoreReport(thread_id="t", subsystems=(failed,)),
        RestoreReport(
            thread_id="t", subsystems=(SubsystemReport(name="a", status="changed", fields=(bad,)),)
        ),
    ):
        assert not incomplete.is_complete
    with pytest.raises(KeyError, match="b"):
        RestoreReport(thread_id="t", subsystems=(failed,)).subsystem("b")


def test_values_are_compared_by_name() -> None:
    assert compared({"a": 1, "b": 2}, {"b": 3, "c": 4}) == (
        FieldCheck(name="a", expected=1, actual=None),
        FieldCheck(name="b", expected=2, actual=3),
    )
