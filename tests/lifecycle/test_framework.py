"""The framework: sessions from the first message to the last, on every backend."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clocks import START, Clock
from repositories import commit, make_repository

import amux
from amux import (
    Decision,
    DecisionRequiredError,
    FileSystemRollout,
    ResetPolicy,
    ResetPolicySet,
    RestoreProblem,
    SessionSource,
    SessionStore,
    SqliteSessionIndex,
    StoreError,
    TurnContext,
    ValidationError,
)
from amux.lifecycle.framework import SOON, SessionFramework, export_messages
from amux.lifecycle.hooks import HookEvent
from amux.lifecycle.live_session import LiveSession, PromptSection
from amux.rollout.ids import is_valid_session_id
from amux.store.memory import MemoryLog
from amux.store.resume_counts import ResumeCounts


@pytest.fixture
def sm(store: SessionStore, clock: Clock) -> SessionFramework:
    """Return a framework on each backend."""
    return amux.framework(store, now=clock)


def test_the_clock_of_the_framework_is_that_of_its_store(tmp_path: Path, clock: Clock) -> None:
    index = SqliteSessionIndex(tmp_path / "index.db")
    backend = FileSystemRollout(tmp_path / "b")
    for sm in (
        amux.framework("memory:", now=clock),
        amux.framework(tmp_path / "a", index, now=clock),
        amux.framework(backend, tmp_path / "b.db", now=clock),
    ):
        with sm:
            assert sm.start_session(cwd="").meta.created_at == START


def test_a_framework_of_a_store_alone_runs_hooks_and_knows_the_time() -> None:
    sm = SessionFramework(SessionStore("memory:"))
    seen: list[str] = []
    sm.lifecycle.register(lambda event: seen.append(event.source.value))
    resumed = sm.resume(sm.start_session(cwd="").thread_id)
    assert seen == ["startup", "resume"]
    assert resumed.resumed_at is not None
    assert resumed.resumed_at.tzinfo is not None


# the closing example


def test_the_closing_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    sm = amux.framework(
        storage=FileSystemRollout("~/.myagent"),
        index=SqliteSessionIndex("~/.myagent/state.db"),
        reset_policy=ResetPolicy(mode="both", at_hour=4, idle_minutes=1440),
    )
    session = sm.start_session(cwd="/foo", model="opus")
    seen: list[str] = []

    def execute(event: HookEvent) -> None:
        seen.append(f"{event.source} {event.session.thread_id}")

    sm.lifecycle.register(execute, applies_to=["startup", "resume"])
    resumed = sm.resume(session.thread_id)
    sm.clear(resumed)
    assert seen == [f"resume {session.thread_id}"]
    assert (resumed.state.cwd, resumed.state.model) == ("/foo", "opus")
    assert resumed.thread_id == session.thread_id
    assert resumed.run_session_id != session.run_session_id
    assert [each.thread_id for each in sm.store.list()] == [session.thread_id]
    assert (tmp_path / ".myagent/state.db").is_file()
    assert sm.reset.default == ResetPolicy(mode="both", at_hour=4, idle_minutes=1440)
    sm.close()


# storages


def test_a_storage_is_a_store_a_backend_a_path_or_an_address(tmp_path: Path) -> None:
    store = SessionStore("memory:")
    assert amux.framework(store).store is store
    log = MemoryLog()
    assert amux.framework(log).store.log is log
    assert isinstance(amux.framework("memory:").store.log, MemoryLog)
    for place in (tmp_path / "a", str(tmp_path / "b")):
        with amux.framework(place) as sm:
            sm.start_session(cwd="", model="opus")
            assert len(sm.store.list()) == 1
    assert (tmp_path / "a/state.db").exists()
    assert list(tmp_path.iterdir()) != []


def test_nothing_is_created_before_the_first_use(tmp_path: Path) -> None:
    amux.framework(tmp_path / "store", index=tmp_path / "index.db").close()
    amux.framework(FileSystemRollout(tmp_path / "store")).close()
    assert list(tmp_path.iterdir()) == []


def test_an_index_may_lie_elsewhere(tmp_path: Path) -> None:
    places: list[tuple[Any, Any]] = [
        (tmp_path / "a", SqliteSessionIndex(tmp_path / "a.db")),
        (tmp_path / "b", tmp_path / "b.db"),
        (FileSystemRollout(tmp_path / "c"), SqliteSessionIndex(tmp_path / "c.db")),
        (FileSystemRollout(tmp_path / "d"), str(tmp_path / "d.db")),
    ]
    for storage, index in places:
        with amux.framework(storage=storage, index=index) as sm:
            sm.start_session(cwd="")
            assert len(sm.store.list()) == 1
    for name in "abcd":
        assert (tmp_path / f"{name}.db").is_file()
        assert not (tmp_path / name / "state.db").exists()


def test_a_storage_with_an_index_of_its_own_takes_no_other() -> None:
    with pytest.raises(ValidationError) as caught:
        amux.framework(SessionStore("memory:"), index="x.db")
    assert (caught.value.message, caught.value.fields) == ("a store has its own index", ("index",))
    with pytest.raises(ValidationError) as caught:
        amux.framework(MemoryLog(), index="x.db")
    assert caught.value.message == "a `MemoryLog` has its own index"
    assert (caught.value.fields, caught.value.hint) == (("index",), "leave `index` out")


def test_the_parts_share_one_registry_and_one_store(sm: SessionFramework) -> None:
    assert sm.lifecycle is sm.lifecycle
    assert sm.router.store is sm.store
    assert sm.router.reset is sm.reset
    assert sm.reset.default == ResetPolicy()
    policies = ResetPolicySet(default=ResetPolicy(at_hour=7))
    assert amux.framework("memory:", reset_policy=policies).reset is policies
    assert amux.framework("memory:", reset_policy=ResetPolicy(at_hour=9)).reset.default.at_hour == 9


# starting


def test_a_session_starts_with_its_premises_and_a_snapshot(
    sm: SessionFramework, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    sha = make_repository(tmp_path)
    session = sm.start_session(
        cwd=str(tmp_path),
        model="opus",
        title="T",
        approval_mode="auto",
        sandbox_policy={"a": 1},
        agent_role="reviewer",
        colour="blue",
    )
    state = session.state
    assert (state.cwd, state.model, state.approval_mode) == (str(tmp_path), "opus", "auto")
    assert (state.sandbox_policy, state.agent_role) == ({"a": 1}, "reviewer")
    assert (state.git_sha, state.git_branch) == (sha, "main")
    assert [each.text for each in state.prompt_sections] == ["Use tabs."]
    assert session.summary.title == "T"
    assert session.summary.source == "cli"
    assert session.meta.extra == {"colour": "blue"}
    stored = session.register("amux.snapshot")
    assert stored["premises"]["git_sha"] == sha
    assert session.outcome is not None
    assert session.report is None


def test_initial_messages_are_there_and_the_hooks_see_them(sm: SessionFramework) -> None:
    seen: list[Any] = []
    sm.lifecycle.register(lambda event: seen.append(list(event.initial_messages)))
    first = {"role": "user", "content": "hello"}
    session = sm.start_session(cwd="", source="import", initial_messages=[first])
    assert session.conversation() == [first]
    assert seen == [[first]]
    assert session.summary.source == "import"


def test_a_session_of_a_chat_is_found_by_its_source(sm: SessionFramework) -> None:
    source = SessionSource(platform="telegram", chat_id="7", user_id="8")
    session = sm.start_session(cwd="", source=source, extra={"colour": "blue"})
    assert session.meta.source == "telegram"
    assert session.meta.extra["colour"] == "blue"
    assert session.meta.extra["source"] == source.to_dict()
    assert sm.router.route(source).thread_id == session.thread_id


# resuming


def test_a_run_gets_an_id_of_its_own_and_the_thread_keeps_its_id(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="", title="Mine")
    runs = {session.run_session_id}
    for ref in (session.thread_id, session.thread_id[:8], "Mine", f"amux:{session.thread_id}"):
        resumed = sm.resume(ref)
        assert resumed.thread_id == session.thread_id
        runs.add(resumed.run_session_id)
    assert len(runs) == 5
    resumes = [
        each.payload["session_id"]
        for each in session.items(raw=True)
        if each.type == "event_msg" and each.payload["type"] == "session_resumed"
    ]
    assert {session.run_session_id, *resumes} == runs


def test_a_resumed_session_is_as_it_was(sm: SessionFramework, clock: Clock, tmp_path: Path) -> None:
    session = sm.start_session(cwd=str(tmp_path), model="opus", approval_mode="auto")
    session.state.todos = [{"text": "x"}]
    session.state.model_override = "haiku"
    session.state.level = "high"
    session.state.send_policy = "deny"
    with session.begin_turn() as turn:
        turn.message("user", "hi")
        turn.message("assistant", "yo", usage={"input_tokens": 5}, cost_usd=0.25)
    sm.checkpoint(session)
    resumed = sm.resume(session.thread_id)
    assert resumed.report is not None
    assert resumed.report.is_complete
    assert resumed.resumed_at == clock()
    assert resumed.outcome is not None
    assert resumed.outcome.restored is resumed.report
    assert resumed.state.todos == [{"text": "x"}]
    assert not resumed.state.may_send
    assert resumed.conversation() == session.conversation()
    before = session.cost.billing
    with resumed.begin_turn() as turn:
        turn.message("assistant", "again", cost_usd=0.5)
    assert resumed.environment.model == "haiku"
    assert resumed.environment.effort == "high"
    assert resumed.cost.billing.cost_usd == before.cost_usd + 0.5


def test_the_last_turn_decides_about_the_environment(sm: SessionFramework, tmp_path: Path) -> None:
    session = sm.start_session(cwd="", model="opus")
    there = tmp_path / "there"
    there.mkdir()
    session.begin_turn(
        TurnContext(cwd=str(there), model="haiku", approval_mode="ask", git_sha="abc")
    ).end()
    state = sm.resume(session.thread_id).state
    assert (state.cwd, state.model) == (str(there), "haiku")
    assert (state.approval_mode, state.git_sha) == ("ask", "abc")


def test_hooks_run_after_the_restore(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="")
    session.state.todos = [{"text": "x"}]
    sm.checkpoint(session)
    seen: list[Any] = []
    sm.lifecycle.register(
        lambda event: seen.append((event.session.state.todos, event.session.report is None)),
        applies_to=["resume"],
    )
    sm.resume(session.thread_id)
    assert seen == [([{"text": "x"}], False)]


def test_project_files_are_not_read_again(sm: SessionFramework, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("Use tabs.")
    session = sm.start_session(cwd=str(tmp_path))
    session.state.prompt_sections.append(PromptSection(name="x", text="Be brief."))
    sm.checkpoint(session)
    file.write_text("Use spaces.")
    resumed = sm.resume(session.thread_id)
    assert [each.text for each in resumed.state.prompt_sections] == ["Use tabs.", "Be brief."]


def test_safe_permissions_and_another_directory_can_be_asked_for(
    sm: SessionFramework, tmp_path: Path
) -> None:
    session = sm.start_session(cwd="", approval_mode="auto")
    resumed = sm.resume(session.thread_id, approval="safe", cwd=str(tmp_path))
    assert (resumed.state.approval_mode, resumed.state.cwd) == ("on-request", str(tmp_path))


def test_models_are_checked_with_the_given_function(store: SessionStore) -> None:
    sm = amux.framework(store, is_valid_model=lambda name: name == "new", default_model="new")
    session = sm.start_session(cwd="", model="old")
    assert sm.resume(session.thread_id).state.model == "new"


def test_an_archived_session_can_be_resumed(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="")
    session.message("user", "hi")
    sm.store.archive(session.thread_id)
    assert sm.resume(session.thread_id).conversation() == [{"role": "user", "content": "hi"}]


def test_a_missing_directory_changes_nothing_unless_somebody_decides(
    sm: SessionFramework, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    session = sm.start_session(cwd=str(gone))
    gone.rmdir()
    head = session.summary.head
    with pytest.raises(DecisionRequiredError) as caught:
        sm.resume(session.thread_id)
    assert caught.value.choices == ("use_directory", "keep")
    assert session.summary.head == head
    decided = sm.resume(
        session.thread_id, on_problem=lambda _: Decision("use_directory", str(tmp_path))
    )
    assert decided.state.cwd == str(tmp_path)
    assert sm.store.stats().resumes == ResumeCounts(undecided=1, partial=1)


# sessions that cannot be read


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[SessionFramework, str]:
    """Return a framework with a session whose meta data are lost, and the id of the session."""
    sm = amux.framework(tmp_path / "store")
    session = sm.start_session(cwd="", model="opus")
    session.message("user", "one")
    session.message("assistant", "two")
    lines = session.path.read_bytes().splitlines(keepends=True)
    session.path.write_bytes(b"".join([b"garbage\n", *lines[1:]]))
    return sm, session.thread_id


def test_a_damaged_session_is_a_decision(damaged: tuple[SessionFramework, str]) -> None:
    sm, thread_id = damaged
    with pytest.raises(DecisionRequiredError) as caught:
        sm.resume(thread_id)
    assert caught.value.choices == ("start_fresh", "export")
    assert sm.store.stats().resumes == ResumeCounts(undecided=1)


def test_a_damaged_session_can_be_replaced(
    damaged: tuple[SessionFramework, str], tmp_path: Path
) -> None:
    sm, thread_id = damaged
    asked: list[RestoreProblem] = []

    def decide(problem: RestoreProblem) -> Decision:
        asked.append(problem)
        return Decision("start_fresh")

    fresh = sm.resume(thread_id, cwd=str(tmp_path), on_problem=decide)
    assert [(each.kind, each.subject) for each in asked] == [("corrupt", thread_id)]
    assert fresh.thread_id != thread_id
    assert fresh.conversation() == []
    assert fresh.state.cwd == str(tmp_path)
    assert fresh.meta.extra == {"replaces": thread_id}
    assert fresh.report is not None
    assert fresh.report.thread_id == fresh.thread_id
    assert fresh.report.notes == (
        f"the meta data of thread `{thread_id}` cannot be read",
        f"this session replaces `{thread_id}`",
    )
    assert sm.store.stats().resumes == ResumeCounts(partial=1)
    assert sm.store.doctor(thread_id).threads != ()


def test_the_messages_of_a_damaged_session_can_be_exported(
    damaged: tuple[SessionFramework, str], tmp_path: Path
) -> None:
    sm, thread_id = damaged
    file = tmp_path / "old.jsonl"
    fresh = sm.resume(thread_id, on_problem=lambda _: Decision("export", str(file)))
    messages = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(each["role"], each["content"]) for each in messages] == [
        ("user", "one"),
        ("assistant", "two"),
    ]
    assert all(each["timestamp"].startswith("20") for each in messages)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert fresh.state.cwd is None
    assert fresh.report is not None
    assert fresh.report.notes[2] == f"2 messages were exported to `{file}`"
    with pytest.raises(StoreError, match="cannot write") as caught:
        sm.resume(thread_id, on_problem=lambda _: Decision("export", str(file)))
    assert caught.value.message == f"cannot write `{file}`: File exists"


@pytest.mark.parametrize("answer", [Decision("keep"), Decision("export")])
def test_another_answer_to_a_damaged_session_is_an_error(
    damaged: tuple[SessionFramework, str], answer: Decision
) -> None:
    sm, thread_id = damaged
    with pytest.raises(ValidationError) as caught:
        sm.resume(thread_id, on_problem=lambda _: answer)
    assert caught.value.message == (
        f"`{answer.choice}` is no answer to a session that cannot be read"
    )
    assert caught.value.fields == ("choice",)
    assert caught.value.hint == "answer `start_fresh`, or `export` with a file as the value"


def test_an_export_has_cleared_and_compacted_messages(sm: SessionFramework, tmp_path: Path) -> None:
    session = sm.start_session(cwd="")
    session.message("user", "one")
    session.clear()
    session.message("user", "two")
    session.compact("sum", keep_turns=0)
    session.append({})
    file = tmp_path / "all.jsonl"
    assert export_messages(sm.store.log, session.thread_id, str(file)) == 3
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each.get("content") or each["summary"] for each in lines] == ["one", "two", "sum"]


def test_a_session_of_a_newer_version_is_refused_and_counted(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="")
    session.set_register("amux.snapshot", {"schema_version": 99})
    with pytest.raises(StoreError, match="has version 99; this version of amux restores up to 1"):
        sm.resume(session.thread_id, on_problem=lambda _: Decision("keep"))
    assert sm.store.stats().resumes == ResumeCounts(failed=1)


# counts


def test_resumes_are_counted_in_the_stats_of_the_store(sm: SessionFramework, clock: Clock) -> None:
    session = sm.start_session(cwd="")
    assert sm.store.stats().resumes == ResumeCounts()
    sm.resume(session.thread_id)
    session.append({"role": "nobody"})
    sm.resume(session.thread_id)
    counts = sm.store.stats().resumes
    assert counts == ResumeCounts(complete=1, partial=1)
    assert (counts.attempts, counts.success_rate) == (2, 0.5)


def test_a_clear_soon_after_a_resume_is_counted_once(sm: SessionFramework, clock: Clock) -> None:
    assert timedelta(minutes=10) == SOON
    session = sm.start_session(cwd="")
    sm.clear(session)
    resumed = sm.resume(session.thread_id)
    clock.advance(minutes=10)
    sm.clear(resumed)
    sm.clear(resumed)
    late = sm.resume(session.thread_id)
    clock.advance(minutes=10, seconds=1)
    sm.clear(late)
    assert sm.store.stats().resumes == ResumeCounts(complete=2, cleared_soon=1)


# working


def test_clearing_keeps_everything_but_the_messages(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="", model="opus")
    session.message("assistant", "x", cost_usd=1.0)
    session.state.model_override = "haiku"
    session.state.todos = [{"text": "x"}]
    session.state.plugins = {"p": 1}
    sm.clear(session)
    assert session.conversation() == []
    assert (session.cost.billing.cost_usd, session.cost.context.cost_usd) == (1.0, 0.0)
    resumed = sm.resume(session.thread_id)
    assert resumed.state.model_override == "haiku"
    assert (resumed.state.todos, resumed.state.plugins) == ([{"text": "x"}], {"p": 1})
    assert resumed.cost.billing.cost_usd == 1.0


def test_a_summary_survives_a_resume_without_its_originals(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="")
    for number in range(4):
        session.message("user", f"question {number}")
    assert sm.compact(session, "the story so far", keep_turns=1) is not None
    resumed = sm.resume(session.thread_id)
    texts = [each["content"] for each in resumed.conversation()]
    assert texts == ["<summary>\nthe story so far\n</summary>", "question 3"]
    assert [each.text for each in resumed.state.prompt_sections if each.origin == "baseline"] == [
        "the story so far"
    ]
    assert sm.compact(sm.start_session(cwd=""), "nothing") is None


def test_a_checkpoint_records_the_commit_and_tells_observers(
    sm: SessionFramework, tmp_path: Path
) -> None:
    seen: list[str] = []
    sm.lifecycle.observe("checkpoint", lambda notice: seen.append(notice.session.thread_id))
    make_repository(tmp_path)
    session = sm.start_session(cwd=str(tmp_path))
    sha = commit(tmp_path, "second")
    session.state.todos = [{"text": "x"}]
    states = sm.checkpoint(session)
    assert states["todos"] == {"todos": [{"text": "x"}]}
    assert (session.state.git_sha, session.state.git_branch) == (sha, "main")
    assert sm.resume(session.thread_id).state.git_sha == sha
    assert seen == [session.thread_id]
    plain = sm.start_session(cwd="", git_sha="abc")
    sm.checkpoint(plain)
    assert plain.state.git_sha == "abc"


def test_a_fork_is_a_startup_with_initial_messages(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="", model="opus")
    session.message("user", "one")
    session.message("assistant", "two", cost_usd=1.0)
    events: list[Any] = []
    notices: list[Any] = []
    sm.lifecycle.register(
        lambda event: events.append((event.source, event.initial_messages, event.previous))
    )
    sm.lifecycle.observe("fork", notices.append)
    fork = sm.fork(session.thread_id[:8], keep_last=1)
    assert fork.thread_id != session.thread_id
    assert [each["content"] for each in fork.conversation()] == ["two"]
    assert fork.meta.forked_from == session.thread_id
    assert fork.state.model == "opus"
    ((source, messages, previous),) = events
    assert (source, previous) == ("startup", session.thread_id)
    assert [each["content"] for each in messages] == ["two"]
    (notice,) = notices
    assert (notice.session, notice.details) == (fork, {"previous": session.thread_id})
    assert fork.run_session_id == fork.meta.session_id
    assert fork.cost.billing.calls == 0


def test_a_reset_begins_a_new_run_and_keeps_the_transcript(sm: SessionFramework) -> None:
    seen: list[Any] = []
    sm.lifecycle.observe("session_reset", seen.append)
    session = sm.start_session(cwd="")
    session.message("user", "a needle")
    sm.compact(session, "summary", keep_turns=0)
    session.state.plugins = {"p": 1}
    run = session.run_session_id
    sm.reset_session(session, "idle")
    assert session.run_session_id != run
    assert is_valid_session_id(session.run_session_id)
    assert session.conversation() == []
    hides = [each.payload for each in session.items(raw=True) if '"hide"' in each.text]
    assert hides[-1]["reason"] == "idle"
    assert [each for each in session.state.prompt_sections if each.origin == "baseline"] == []
    assert sm.resume(session.thread_id).state.plugins == {"p": 1}
    assert [hit.thread_id for hit in sm.store.search("needle")] == [session.thread_id]
    assert [(each.session, each.details) for each in seen] == [(session, {"reason": "idle"})]
    sm.reset_session(session)
    assert [each.details["reason"] for each in seen] == ["idle", "reset"]


def baselines(session: LiveSession) -> list[str]:
    return [each.text for each in session.state.prompt_sections if each.origin == "baseline"]


def test_the_summary_of_a_conversation_does_not_survive_its_reset_by_a_policy(
    store: SessionStore, clock: Clock
) -> None:
    sm = amux.framework(store, reset_policy=ResetPolicy(mode="idle", idle_minutes=60), now=clock)
    chat = SessionSource("telegram", "42")
    session = sm.start_session(cwd="", source=chat)
    session.message("user", "a secret")
    sm.compact(session, "they told a secret", keep_turns=0)
    assert baselines(sm.resume(session.thread_id)) == ["they told a secret"]
    clock.advance(hours=1)
    thread = sm.router.route(chat)  # and a process that dies here has taken no snapshot
    resumed = sm.resume(thread.thread_id)
    assert resumed.thread_id == session.thread_id
    assert (resumed.conversation(), baselines(resumed)) == ([], [])
    assert resumed.report is not None
    assert resumed.report.is_complete


def test_a_process_that_dies_between_a_clear_and_its_snapshot_leaves_no_summary(
    sm: SessionFramework,
) -> None:
    session = sm.start_session(cwd="")
    session.message("user", "hello")
    sm.compact(session, "they said hello", keep_turns=0)
    session.clear()  # the first half of `sm.clear`
    assert baselines(sm.resume(session.thread_id)) == []


def test_an_ended_session_is_saved_and_can_be_resumed(sm: SessionFramework, clock: Clock) -> None:
    seen: list[Any] = []
    sm.lifecycle.observe("session_ended", seen.append)
    session = sm.start_session(cwd="")
    session.state.todos = [{"text": "x"}]
    sm.end(session)
    assert session.summary.end_reason == "user_exit"
    assert session.summary.ended_at == START
    other = sm.start_session(cwd="")
    sm.end(other, "crash")
    assert other.summary.end_reason == "crash"
    assert [(each.session, each.details["reason"]) for each in seen] == [
        (session, "user_exit"), (other, "crash")
    ]  # fmt: skip
    resumed = sm.resume(session.thread_id)
    assert resumed.state.todos == [{"text": "x"}]
    assert resumed.summary.ended_at is None


def test_an_end_interrupts_a_running_turn(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="")
    turn = session.begin_turn()
    sm.end(session)
    assert not turn.is_running


# without hooks


def test_a_bare_framework_runs_no_hook_and_still_restores(store: SessionStore) -> None:
    sm = amux.framework(store, bare=True)
    sm.lifecycle.register(lambda event: (_ for _ in ()).throw(AssertionError(event)))
    session = sm.start_session(cwd="")
    assert session.outcome is None
    assert session.register("amux.snapshot")["schema_version"] == 1
    session.state.todos = [{"text": "x"}]
    session.message("user", "one")
    sm.checkpoint(session)
    resumed = sm.resume(session.thread_id)
    assert resumed.state.todos == [{"text": "x"}]
    assert sm.compact(resumed, "sum", keep_turns=0) is not None
    sm.clear(resumed)
    assert resumed.conversation() == []
    assert sm.fork(session.thread_id).conversation() == []
    sm.reset_session(resumed)
    sm.end(resumed)
    assert resumed.summary.end_reason == "user_exit"


def test_a_managed_framework_skips_hooks_of_others(store: SessionStore) -> None:
    sm = amux.framework(store, managed_only=True)
    seen: list[str] = []
    sm.lifecycle.register(lambda _: seen.append("user"))
    sm.lifecycle.register(lambda _: seen.append("managed"), trust="managed")
    session = sm.start_session(cwd="")
    assert seen == ["managed"]
    assert session.register("amux.snapshot") is not None


def test_command_hooks_need_a_host(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "hooks.json").write_text("{broken")
    host = amux.Host(tmp_path, env={"AGENT_MUX_CONFIG_DIR": str(config)})
    for given, expected in ((host, True), (None, False)):
        session = amux.framework("memory:", host=given).start_session(cwd="")
        assert session.outcome is not None
        assert any("hooks.json" in each for each in session.outcome.warnings) is expected


# the client


def test_a_client_has_the_parts_of_the_framework(home: Path) -> None:
    client = amux.create_client(home=home)
    assert isinstance(client.lifecycle, amux.Lifecycle)
    assert isinstance(client.restore, amux.RestoreRegistry)
    assert isinstance(client.sources, amux.SourceRouter)
    assert isinstance(client.reset, amux.ResetPolicySet)
    assert client.sources.store is client.store
    assert client.sources.reset is client.reset
    assert client.restore is client.restore
    source = SessionSource(platform="slack", chat_id="C1", chat_type="channel", user_id="U1")
    thread = client.sources.route(source)
    assert client.restore_report(thread.thread_id).undecided == ()
    client.close()


def test_the_demo_has_no_store_and_so_no_parts() -> None:
    from amux.client import create_demo_client

    client = create_demo_client()
    for name in ("lifecycle", "restore", "sources", "reset"):
        with pytest.raises(ValidationError, match=r"^the demo has no session store$"):
            getattr(client, name)


def test_a_live_session_is_a_thread(sm: SessionFramework) -> None:
    session = sm.start_session(cwd="")
    assert isinstance(session, LiveSession)
    assert isinstance(session, amux.ThreadHandle)
