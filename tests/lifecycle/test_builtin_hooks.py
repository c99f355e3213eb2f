"""Each of the four sources does its own work, and nothing of the others, on every backend."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_sessions import memory_session, start_live

from amux.errors import StoreError, ValidationError
from amux.lifecycle.builtin_hooks import (
    MAX_INSTRUCTIONS,
    builtin_hooks,
    latest_summary,
    read_instructions,
    set_baseline,
)
from amux.lifecycle.hooks import HookEvent, LifecycleHook
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.live_session import LiveSession, LiveState, PromptSection
from amux.lifecycle.restore import RestoreRegistry
from amux.store.session_store import SessionStore

SNAPSHOT = "amux.snapshot"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with instruction files and a repository on the branch `main`."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Use tabs.")
    (folder / "CLAUDE.md").write_text("Be brief.")
    git = folder / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text("a" * 40 + "\n")
    return folder


@pytest.fixture
def lifecycle() -> Lifecycle:
    return Lifecycle(restore=RestoreRegistry(), plugins=False, log=pytest.fail)


def resumed(session: LiveSession, store: SessionStore) -> LiveSession:
    """Return the thread of a session as another process sees it."""
    handle = store.resume(session.thread_id)
    return LiveSession(store.log, handle.thread_id, handle.run_session_id)


def spend(session: LiveSession, cost_usd: float) -> None:
    usage = {"input_tokens": 100, "output_tokens": 10}
    session.message("user", "question")
    session.message("assistant", "answer", model="opus", usage=usage, cost_usd=cost_usd)


def fill(state: LiveState) -> None:
    state.model_override = "haiku"
    state.todos = [{"content": "test", "status": "open"}]
    state.file_history = [{"path": "a.py", "version": 1}]
    state.attribution = {"a.py": {"agent": 3}}
    state.worktree = {"path": "/worktree", "branch": "topic"}
    state.plugins = {"notes": {"count": 3}}


# startup


def test_startup_sets_up_the_session_in_a_fixed_order(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    outcome = lifecycle.process("startup", session)
    assert [each.name for each in outcome.reports] == [
        "amux.directory",
        "amux.git",
        "amux.instructions",
        "amux.sections",
        "amux.snapshot",
    ]
    assert {each.status for each in outcome.reports} == {"ok"}
    state = session.state
    assert (state.cwd, state.model) == (str(project), "opus")
    assert (state.git_sha, state.git_branch) == ("a" * 40, "main")
    assert state.prompt_sections == [
        PromptSection(name="AGENTS.md", text="Use tabs.", origin="project"),
        PromptSection(name="CLAUDE.md", text="Be brief.", origin="project"),
    ]
    assert session.cost.billing.calls == 0
    assert outcome.is_done


def test_startup_takes_a_snapshot_that_a_resume_can_use(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    other = resumed(session, store)
    outcome = lifecycle.process("resume", other)
    assert other.state.prompt_sections == session.state.prompt_sections
    assert (other.state.cwd, other.state.git_sha) == (str(project), "a" * 40)
    assert outcome.restored is other.report
    assert other.report is not None


def test_startup_adds_the_sections_of_hooks_after_those_of_the_project(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    hook = LifecycleHook()
    hook.prompt_sections = (PromptSection(name="style", text="Rhyme."),)
    lifecycle.register(hook)
    session = start_live(store, cwd=str(project))
    session.state.prompt_sections = [
        PromptSection(name="old", text="gone", origin="project"),
        PromptSection(name="tools", text="bash", origin="tools"),
    ]
    lifecycle.process("startup", session)
    names = [each.name for each in session.state.prompt_sections]
    assert names == ["AGENTS.md", "CLAUDE.md", "tools", "style"]
    other = resumed(session, store)
    lifecycle.process("resume", other)
    assert [each.name for each in other.state.prompt_sections] == names


def test_startup_keeps_what_the_caller_has_set(lifecycle: Lifecycle, project: Path) -> None:
    session = memory_session(cwd="/elsewhere")
    session.state.cwd = str(project)
    session.state.model = "sonnet"
    session.state.git_sha = "b" * 40
    lifecycle.process("startup", session)
    state = session.state
    assert (state.cwd, state.model) == (str(project), "sonnet")
    assert (state.git_sha, state.git_branch) == ("b" * 40, None)


def test_startup_without_a_directory_or_a_repository_leaves_them_unknown(
    lifecycle: Lifecycle, tmp_path: Path
) -> None:
    session = memory_session(cwd="")
    lifecycle.process("startup", session)
    assert (session.state.cwd, session.state.git_sha) == (None, None)
    assert session.state.prompt_sections == []
    other = memory_session(cwd=str(tmp_path / "missing"))
    lifecycle.process("startup", other)
    assert other.state.cwd == str(tmp_path / "missing")
    assert (other.state.git_sha, other.state.prompt_sections) == (None, [])


def test_startup_restores_no_worktree(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    first = start_live(store, cwd=str(project))
    fill(first.state)
    lifecycle.process("startup", first)
    second = start_live(store, cwd=str(project))
    outcome = lifecycle.process("startup", second)
    assert second.state.worktree is None
    assert (second.state.todos, second.state.plugins) == ([], {})
    assert outcome.restored is None
    assert second.report is None


def test_a_fork_is_a_startup_that_keeps_its_messages(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    events: list[HookEvent] = []
    lifecycle.register(events.append)
    session = start_live(store, cwd=str(project))
    spend(session, 0.25)
    handle = store.fork(session.thread_id)
    fork = LiveSession(store.log, handle.thread_id, handle.run_session_id)
    messages = fork.conversation()
    lifecycle.process(
        "startup", fork, initial_messages=messages, previous=session.thread_id, sync=True
    )
    assert events[0].source == "startup"
    assert [each["content"] for each in events[0].initial_messages] == ["question", "answer"]
    assert fork.conversation() == messages
    assert fork.cost.billing.calls == 0  # the original pays


def test_a_converted_session_keeps_its_messages_and_has_another_model(
    store: SessionStore, lifecycle: Lifecycle
) -> None:
    session = start_live(store)
    session.state.model_override = "haiku"
    spend(session, 0.25)
    messages = session.conversation()
    handle = store.start(cwd="/project", model="gpt", agent="codex", initial_messages=messages)
    converted = LiveSession(store.log, handle.thread_id, handle.run_session_id)
    lifecycle.process("startup", converted, initial_messages=messages)
    assert [each["content"] for each in converted.conversation()] == ["question", "answer"]
    assert converted.state.effective_model == "gpt"


def test_without_a_registry_no_snapshot_is_taken() -> None:
    session = memory_session()
    lifecycle = Lifecycle(plugins=False, log=pytest.fail)
    for source in ("startup", "clear", "compact"):
        lifecycle.process(source, session, summarize=None)
    assert session.register(SNAPSHOT) is None
    outcome = lifecycle.process("resume", session)
    assert outcome.restored is None
    assert outcome.reports[0].status == "ok"


# instruction files


def sections(folder: Path) -> list[tuple[str, str]]:
    return [(each.name, each.text) for each in read_instructions(str(folder))]


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert sections(tmp_path) == [("AGENTS.md", "Use tabs.")]


def test_a_missing_or_blank_file_is_no_section(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")
    assert sections(tmp_path) == []
    (tmp_path / "CLAUDE.md").write_text("x")
    assert sections(tmp_path) == [("CLAUDE.md", "x")]
    assert list(read_instructions("a\0b")) == []


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    assert MAX_INSTRUCTIONS == 32_768
    (tmp_path / "AGENTS.md").write_text("x" * 32_768)
    (tmp_path / "CLAUDE.md").write_text("y" * 32_769)
    note = "\n[cut: only the first 32768 bytes of the file]"
    assert sections(tmp_path) == [
        ("AGENTS.md", "x" * 32_768),
        ("CLAUDE.md", "y" * 32_768 + note),
    ]


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text("x" * 40_000)
    os.truncate(path, 1 << 40)  # more than any memory holds
    ((_, text),) = sections(tmp_path)
    assert len(text) < 33_000


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "AGENTS.md").symlink_to(secret)
    (project / "docs" / "rules.md").write_text("inside")
    (project / "CLAUDE.md").symlink_to(project / "docs" / "rules.md")
    assert sections(project) == [("CLAUDE.md", "inside")]
    link = tmp_path / "link"
    link.symlink_to(project)  # the directory itself may be reached through a link
    assert sections(link) == [("CLAUDE.md", "inside")]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")  # reading it would hang
    (tmp_path / "CLAUDE.md").mkdir()
    assert sections(tmp_path) == []


def test_instructions_stay_data(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"a\xffb \xe2\x80\xae\x1b[31m\r\n<system>")
    assert sections(tmp_path) == [
        ("AGENTS.md", "a\ufffdb \\u202e\\u001b[31m\\u000d\n<system>"),
    ]


# resume


def test_resume_restores_every_subsystem(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    fill(session.state)
    spend(session, 0.5)
    RestoreRegistry().snapshot(session)
    other = resumed(session, store)
    outcome = lifecycle.process("resume", other)
    assert outcome.restored is not None
    assert outcome.restored.failed == ()
    for name in ("model_override", "todos", "file_history", "attribution", "worktree"):
        assert getattr(other.state, name) == getattr(session.state, name), name
    assert other.state.prompt_sections == session.state.prompt_sections
    assert other.cost == session.cost
    assert other.cost.billing.cost_usd == 0.5
    assert [each["content"] for each in other.conversation()] == ["question", "answer"]


def test_resume_does_not_read_the_instruction_files_again(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    (project / "AGENTS.md").write_text("Changed on the disk.")
    (project / "CLAUDE.md").unlink()
    other = resumed(session, store)
    lifecycle.process("resume", other)
    assert [each.text for each in other.state.prompt_sections] == ["Use tabs.", "Be brief."]


def test_resume_restores_once(store: SessionStore, lifecycle: Lifecycle, project: Path) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    other = resumed(session, store)
    report = RestoreRegistry().restore(other)
    other.report = report
    other.state.model_override = "chosen since"
    outcome = lifecycle.process("resume", other)
    assert outcome.restored is report
    assert other.state.model_override == "chosen since"


def test_an_error_of_the_restore_reaches_the_caller() -> None:
    class Broken:
        def snapshot(self, session: LiveSession) -> dict[str, Any]:
            raise StoreError("no snapshot")

        def restore(self, session: LiveSession) -> Any:
            raise StoreError("no restore")

    lifecycle = Lifecycle(restore=Broken(), plugins=False, log=lambda message: None)
    session = memory_session()
    with pytest.raises(StoreError, match="no restore"):
        lifecycle.process("resume", session)
    for source in ("clear", "compact"):
        with pytest.raises(StoreError, match="no snapshot"):
            lifecycle.process(source, session)
    outcome = lifecycle.process("startup", session)  # a session without a snapshot is one
    assert outcome.warnings == ("the hook `amux.snapshot` failed: no snapshot",)


# clear


def test_clear_empties_the_conversation_and_nothing_else(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    fill(session.state)
    spend(session, 0.5)
    before = session.state
    prompts = list(session.state.prompt_sections)
    lifecycle.process("clear", session)
    assert session.conversation() == []
    assert session.state is before
    assert session.state.model_override == "haiku"
    assert session.state.todos == [{"content": "test", "status": "open"}]
    assert session.state.plugins == {"notes": {"count": 3}}
    assert session.state.worktree == {"path": "/worktree", "branch": "topic"}
    assert session.state.prompt_sections == prompts
    assert session.meta.cwd == str(project)
    assert store.list(archived=None)[0].thread_id == session.thread_id
    assert [r.text for r in session.items(raw=True) if "question" in r.text]  # still readable
    assert store.search("question", include_inactive=True)


def test_clear_deletes_no_file(tmp_path: Path, lifecycle: Lifecycle) -> None:
    with SessionStore(tmp_path / "store") as store:
        session = start_live(store, cwd=str(tmp_path))
        spend(session, 0.5)
        before = session.path.read_bytes()
        lifecycle.process("clear", session)
        assert session.path.read_bytes().startswith(before)


def test_clear_and_resume_differ_on_the_costs(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    spend(session, 0.5)
    other = resumed(session, store)
    lifecycle.process("resume", other)
    assert other.cost.context.cost_usd == other.cost.billing.cost_usd == 0.5
    lifecycle.process("clear", other)
    assert other.cost.context.calls == 0
    assert other.cost.billing.cost_usd == 0.5
    third = resumed(other, store)
    lifecycle.process("resume", third)
    assert third.cost == other.cost
    spend(third, 0.25)
    assert third.cost.context.cost_usd == 0.25
    assert third.cost.billing.cost_usd == 0.75


def test_the_state_survives_a_clear_and_a_resume(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    fill(session.state)
    lifecycle.process("clear", session)
    other = resumed(session, store)
    lifecycle.process("resume", other)
    assert other.state.todos == session.state.todos
    assert other.state.model_override == "haiku"
    assert other.conversation() == []


# compact


def talk(session: LiveSession, rounds: int) -> None:
    for number in range(rounds):
        session.message("user", f"question {number}")
        session.message(
            "assistant",
            f"answer {number}",
            model="opus",
            usage={"input_tokens": 100, "output_tokens": 10},
            cost_usd=0.5,
        )


def summary(**fields: Any) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    return lambda messages: {"summary": f"{len(messages)} messages", **fields}


def test_compaction_is_billed_apart_and_sets_the_baseline(
    store: SessionStore, lifecycle: Lifecycle, project: Path
) -> None:
    session = start_live(store, cwd=str(project))
    lifecycle.process("startup", session)
    fill(session.state)
    talk(session, 4)
    before = session.cost
    during: list[Any] = []

    def summarize(messages: list[dict[str, Any]]) -> dict[str, Any]:
        during.append(session.cost)
        snapshot = session.register(SNAPSHOT)
        during.append(snapshot["subsystems"]["todos"])
        return {
            "summary": f"{len(messages)} messages",
            "model": "haiku",
            "usage": {"input_tokens": 50, "output_tokens": 5},
            "cost_usd": 0.125,
        }

    outcome = lifecycle.process("compact", session, summarize=summarize, options={"keep_turns": 1})
    assert during[0] == before
    assert "test" in str(during[1])  # the snapshot was taken before the summary was made
    after = session.cost
    assert after.context == before.context
    assert after.compaction.cost_usd == 0.125
    assert after.compaction.tokens.output == 5
    assert after.billing.cost_usd == before.billing.cost_usd + 0.125
    assert outcome.compacted is not None
    assert session.state.prompt_sections[-1] == PromptSection(
        name="baseline", text="6 messages", origin="baseline"
    )
    assert session.state.model_override == "haiku"
    assert session.state.todos == [{"content": "test", "status": "open"}]
    contents = [each["content"] for each in session.conversation()]
    assert contents == ["<summary>\n6 messages\n</summary>", "question 3", "answer 3"]
    assert sum("question" in each.text for each in session.items(raw=True)) == 4
    talk(session, 1)
    assert session.cost.context.calls == before.context.calls + 1


def test_a_second_summary_replaces_the_baseline(store: SessionStore, lifecycle: Lifecycle) -> None:
    session = start_live(store)
    for text in ("first", "second"):
        talk(session, 3)
        lifecycle.process("compact", session, summarize=text, options={"keep_turns": 1})
    baselines = [each.text for each in session.state.prompt_sections]
    assert baselines == ["second"]
    other = resumed(session, store)
    other.state.cwd = "/"
    RestoreRegistry().restore(other, cwd="/")
    assert [each.text for each in other.state.prompt_sections] == ["second"]


def test_writes_go_on_after_a_summariser_that_fails(
    store: SessionStore, lifecycle: Lifecycle
) -> None:
    session = start_live(store)
    talk(session, 3)
    before, messages = session.cost, session.conversation()

    def fail(messages: list[dict[str, Any]]) -> str:
        raise RuntimeError("the model is overloaded")

    with pytest.raises(RuntimeError, match="overloaded"):
        lifecycle.process("compact", session, summarize=fail, options={"keep_turns": 1})
    assert session.cost == before
    assert session.conversation() == messages
    assert session.state.prompt_sections == []
    talk(session, 1)
    assert session.cost.context.calls == before.context.calls + 1
    assert session.cost.compaction.calls == 0
    outcome = lifecycle.process("compact", session, summarize="now", options={"keep_turns": 1})
    assert outcome.compacted is not None


def test_nothing_to_summarise_changes_nothing(lifecycle: Lifecycle) -> None:
    session = memory_session()
    talk(session, 2)
    outcome = lifecycle.process("compact", session, summarize=summary())
    assert outcome.compacted is None
    assert session.state.prompt_sections == []
    assert len(session.conversation()) == 4


def test_without_a_summariser_only_the_snapshot_is_taken(lifecycle: Lifecycle) -> None:
    session = memory_session()
    talk(session, 30)
    outcome = lifecycle.process("compact", session)
    assert session.register(SNAPSHOT) is not None
    assert (outcome.compacted, len(session.conversation())) == (None, 60)


def test_clear_drops_the_summary_of_the_old_conversation(
    store: SessionStore, lifecycle: Lifecycle
) -> None:
    session = start_live(store)
    session.state.prompt_sections = [PromptSection(name="a", text="stays")]
    talk(session, 3)
    lifecycle.process("compact", session, summarize="old", options={"keep_turns": 1})
    assert [each.name for each in session.state.prompt_sections] == ["a", "baseline"]
    lifecycle.process("clear", session)
    assert [each.name for each in session.state.prompt_sections] == ["a"]
    assert session.conversation() == []
    assert session.cost.context.calls == 0
    assert session.cost.billing.calls == 3


def test_a_reset_and_a_compaction_are_independent(
    store: SessionStore, lifecycle: Lifecycle
) -> None:
    session = start_live(store)
    session.state.plugins = {"notes": 1}
    talk(session, 3)
    lifecycle.process("compact", session, summarize="kept", options={"keep_turns": 1})
    assert session.conversation()[0]["content"] == "<summary>\nkept\n</summary>"
    session.reset("daily")
    assert session.conversation() == []
    assert session.state.plugins == {"notes": 1}
    talk(session, 3)
    lifecycle.process("compact", session, summarize="new", options={"keep_turns": 1})
    contents = [each["content"] for each in session.conversation()]
    assert contents == ["<summary>\nnew\n</summary>", "question 2", "answer 2"]


def test_the_baseline_can_be_set_and_removed() -> None:
    state = LiveState()
    set_baseline(state, "one")
    set_baseline(state, "two")
    assert state.prompt_sections == [PromptSection(name="baseline", text="two", origin="baseline")]
    set_baseline(state, None)
    assert state.prompt_sections == []


def test_a_summary_that_is_no_text_is_no_baseline(lifecycle: Lifecycle) -> None:
    session = memory_session()
    talk(session, 3)
    given = {"summary": {"not": "a text"}}
    lifecycle.process("compact", session, summarize=given, options={"keep_turns": 1})
    assert session.state.prompt_sections == []


def test_a_conversation_without_a_summary_has_none() -> None:
    session = memory_session()
    assert latest_summary(session) is None
    session.message("user", "hello")
    assert latest_summary(session) is None


def test_the_built_in_hooks_have_fixed_settings() -> None:
    assert [
        (each.name, sorted(each.applies_to), each.priority, each.is_essential)
        for each in builtin_hooks(None)
    ] == [
        ("amux.directory", ["startup"], 10, False),
        ("amux.git", ["startup"], 20, False),
        ("amux.instructions", ["startup"], 30, False),
        ("amux.sections", ["startup"], 40, False),
        ("amux.snapshot", ["startup"], 50, False),
        ("amux.restore", ["resume"], 10, True),
        ("amux.clear", ["clear"], 10, True),
        ("amux.compact", ["compact"], 10, True),
    ]


def test_no_built_in_hook_uses_the_network_or_a_program(
    lifecycle: Lifecycle, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a hook left this process")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    session = memory_session(cwd=str(project))
    for source in ("startup", "resume", "clear", "compact"):
        outcome = lifecycle.process(source, session)
        assert {each.status for each in outcome.reports} == {"ok"}


def test_a_built_in_hook_can_be_disabled(lifecycle: Lifecycle, project: Path) -> None:
    lifecycle.disable("amux.instructions")
    session = memory_session(cwd=str(project))
    lifecycle.process("startup", session)
    assert session.state.prompt_sections == []
    assert session.state.git_branch == "main"


def test_an_unknown_option_of_a_compaction_reaches_the_caller(lifecycle: Lifecycle) -> None:
    session = memory_session()
    talk(session, 3)
    with pytest.raises(ValidationError, match="has no record `nothing`"):
        lifecycle.process("compact", session, summarize="x", options={"first_kept": "nothing"})
