"""Codex: what events say about commands, reviews, goals and the authors of prompts."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard
from codex_lines import ENVIRONMENT, OWN, Writer, prompts

from amux import create_client
from amux.adapters.codex import ADAPTER
from amux.model.message import SessionMessage
from amux.testing.reading import opened_files

RESULT = "<user_action>\n  <action>review</action>\n  <results>Fine.</results>\n</user_action>"
IDE = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\n"
KINDS = "internal_chat_message_metadata_passthrough"


@pytest.fixture
def rollout(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def shown(messages: list[SessionMessage]) -> list[tuple[str, str, bool]]:
    return [(m.role, m.content, m.synthetic) for m in messages]


# Events of some versions only


@pytest.mark.parametrize(
    "kind",
    [
        "exec_command_end", "collab_agent_spawn_end", "collab_agent_interaction_end",
        "collab_waiting_end", "collab_close_end", "collab_resume_end", "guardian_assessment",
        "dynamic_tool_call_request", "dynamic_tool_call_response", "mcp_tool_call_end",
        "patch_apply_end", "view_image_tool_call", "web_search_end", "image_generation_end",
        "error", "undo_completed", "thread_goal_updated", "entered_review_mode",
        "exited_review_mode", "context_compacted", "sub_agent_activity",
    ],
)  # fmt: skip
def test_every_event_that_a_version_writes_is_known(rollout: Writer, kind: str) -> None:
    rollout.meta().prompt("Go").answer("Done").count(10, 1).event(kind, call_id="c1", turn_id="t")
    facts, messages, problems = rollout.read()
    assert "unknownTypes" not in facts.raw
    assert (prompts(messages), problems, facts.gaps) == (["Go"], [], ())


@pytest.mark.parametrize(("code", "failed"), [(0, False), (2, True)])
def test_the_end_of_a_command_says_whether_it_failed(
    rollout: Writer, code: int, *, failed: bool
) -> None:
    rollout.meta().prompt("Go")
    rollout.item("function_call", name="shell", arguments="{}", call_id="c1")
    rollout.event("exec_command_end", call_id="c1", exit_code=code, aggregated_output="text")
    rollout.item("function_call_output", call_id="c1", output="text")
    _, messages, _ = rollout.read()
    (result,) = (message.tool_result for message in messages if message.tool_result)
    assert result.is_error is failed


# Reviews


def review(rollout: Writer, *, hint: str = "current changes") -> Writer:
    """Write a review as versions with events for prompts do."""
    target = {"type": "uncommittedChanges"}
    rollout.event("entered_review_mode", target=target, user_facing_hint=hint)
    rollout.event("user_message", message="Review the current code changes")
    rollout.event("agent_reasoning", text="The reviewer thinks")
    rollout.user(RESULT).event("exited_review_mode", review_output=None)
    return rollout.event("agent_message", message="Fine.").answer("Fine.")


def test_the_result_of_a_review_needs_no_call_of_its_session(rollout: Writer) -> None:
    review(rollout.meta().model().prompt("Go").answer("Done").count(10, 1))
    facts, messages, _ = rollout.event("task_complete", turn_id="t").read()
    assert facts.gaps == ()
    assert prompts(messages) == ["Go", "Review the current code changes"]
    assert (RESULT, True) in [(m.content, m.synthetic) for m in messages]
    assert messages[-1].content == "Fine."


def test_the_turns_after_a_review_are_checked_again(rollout: Writer) -> None:
    review(rollout.meta().model()).event("task_complete", turn_id="t")
    rollout.model().prompt("More").answer("An answer without usage")
    assert rollout.read()[0].gaps == ("usage-not-recorded",)


def test_without_ends_of_turns_the_next_turn_ends_a_review(rollout: Writer) -> None:
    review(rollout.meta().model()).model().prompt("More").answer("An answer without usage")
    assert rollout.read()[0].gaps == ("usage-not-recorded",)


@pytest.mark.parametrize(("version", "counted"), [("0.50.0", [10, 99, 20]), ("0.58.0", [10, 20])])
def test_token_counts_during_a_review_are_those_of_the_reviewer_if_it_has_a_file(
    rollout: Writer, version: str, counted: list[int]
) -> None:
    rollout.meta(cli_version=version).model().prompt("Go").answer("Done").count(10, 1)
    rollout.event("entered_review_mode", target={"type": "uncommittedChanges"})
    rollout.event("user_message", message="Review").count(99, 9, total=(99, 9))
    rollout.user(RESULT).event("exited_review_mode").answer("Fine.")
    facts, _, _ = rollout.model().prompt("More").answer("Yes").count(20, 2, total=(30, 3)).read()
    assert [call.tokens.input for call in facts.calls] == counted
    assert facts.gaps == ()


def test_an_interrupted_review_is_missing_nothing_in_its_parent(rollout: Writer) -> None:
    rollout.meta().model().event("entered_review_mode", target={"type": "uncommittedChanges"})
    rollout.event("user_message", message="Review").event("agent_reasoning", text="Hm")
    facts, _, _ = rollout.event("turn_aborted", reason="interrupted").read()
    assert facts.gaps == ()
    assert facts.first_prompt == "Review"


def test_a_review_that_never_began_still_has_a_title(rollout: Writer) -> None:
    target = {"type": "baseBranch", "branch": "main"}
    hint = "changes against 'main'"
    rollout.meta().event("entered_review_mode", target=target, user_facing_hint=hint)
    facts, _, _ = rollout.read()
    assert (facts.first_prompt, facts.fallback_title) == (None, "/review changes against 'main'")


# Goals


def goal(rollout: Writer, objective: str, **fields: object) -> Writer:
    about = {"thread_id": OWN, "objective": objective, "status": "active"}
    return rollout.event("thread_goal_updated", thread_id=OWN, goal=about, **fields)


def test_a_goal_is_a_prompt_once_and_only_if_the_person_set_it(rollout: Writer) -> None:
    goal(rollout.meta(), "Green tests").answer("One").count(10, 1)
    goal(rollout, "Green tests").answer("Two").count(20, 2)  # its status has changed
    goal(rollout, "A goal of the model", turn_id="t1").answer("Three").count(30, 3)
    facts, messages, _ = goal(rollout, "Green docs").answer("Four").count(40, 4).read()
    assert prompts(messages) == ["Green tests", "Green docs"]
    assert (facts.first_prompt, facts.gaps) == ("Green tests", ())


def test_a_goal_without_a_readable_objective_is_no_prompt(rollout: Writer) -> None:
    rollout.meta().event("thread_goal_updated", goal="?").event("thread_goal_updated", goal={})
    _, messages, problems = goal(rollout, " ").prompt("Go").answer("Done").count(1, 1).read()
    assert (prompts(messages), problems) == (["Go"], [])


# Prompts


@pytest.mark.parametrize(
    "text",
    ["<div>why?", "<task>\nFix it\n</task>", "<system>be brief</system>", "<skills> list", "<3"],
)
def test_a_prompt_with_a_tag_that_codex_does_not_write_is_typed(rollout: Writer, text: str) -> None:
    rollout.meta().user(ENVIRONMENT).user(text).answer("One").count(1, 1)
    assert prompts(rollout.read()[1]) == [text]
    rollout.prompt(text).answer("Two").count(2, 2)
    assert prompts(rollout.read()[1]) == [text, text]
    rollout.user(text, **{KINDS: {"content_item_kinds": ["user.text"]}}).answer("Three")
    assert prompts(rollout.read()[1]) == [text, text, text]


def test_no_prompt_begins_with_a_published_injected_text(rollout: Writer) -> None:
    rollout.meta()
    literal = [entry.opening for entry in ADAPTER.info.injected_texts if not entry.regex]
    for text in (*literal, "# AGENTS.md instructions\n\n<INSTRUCTIONS>", "<external_editor>"):
        rollout.user(f" {text} x").event("user_message", message=f"{text} x")
    _, messages, _ = rollout.prompt("Real").answer("Yes").count(1, 1).read()
    assert prompts(messages) == ["Real"]
    assert all(entry.seen for entry in ADAPTER.info.injected_texts)


def test_the_context_of_an_editor_is_not_part_of_the_prompt(rollout: Writer) -> None:
    rollout.meta().prompt(f"{IDE}Fix this").answer("Done").count(1, 1)
    facts, messages, _ = rollout.read()
    assert shown(messages)[:2] == [
        ("user", "# Context from my IDE setup:\n\n## Active file: a.py", True),
        ("user", "Fix this", False),
    ]
    assert facts.first_prompt == "Fix this"


def test_a_request_that_quotes_the_context_of_an_editor_is_typed_whole(rollout: Writer) -> None:
    text = f"Explain this prompt:\n{IDE}Fix this"
    rollout.meta().prompt(text).answer("Done").count(1, 1)
    assert prompts(rollout.read()[1]) == [text]


# Sub-agents that only their own file names


def write_reviewed(home: Path, *, reviewer: str, day: str = "2026-01-02") -> Path:
    """Write a session with a review, and the reviewer; return the file of the reviewer."""
    folder = home / ".codex"
    name = f"rollout-2026-01-02T03-00-00-{OWN}.jsonl"
    parent = review(Writer(folder, name=name).meta().model().prompt("Go").answer("Yes").count(5, 1))
    parent.read()
    child = Writer(folder, name=f"rollout-{day}T03-01-00-{reviewer}.jsonl")
    child.meta(reviewer, source={"subagent": "review"}, parent_thread_id=OWN).model()
    child.prompt("Review").answer("Fine.").count(7, 1).read()
    return child.path


@pytest.mark.parametrize("version", "47")
@pytest.mark.parametrize("compressed", [False, True])
def test_a_reviewer_is_found_without_an_index(
    tmp_path: Path, version: str, *, compressed: bool
) -> None:
    reviewer = f"019cc001-0000-{version}000-8000-000000000002"
    path = write_reviewed(tmp_path, reviewer=reviewer)
    if compressed:
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    client = create_client(home=tmp_path, env={"AMUX_INDEX": "off"})
    (listed,) = client.sessions.list("codex")
    session = client.sessions.get("codex", OWN)
    assert session.cost == listed.cost
    assert [child.session_id for child in session.children] == [reviewer]


def test_only_files_of_the_days_of_a_session_are_searched_for_its_sub_agents(
    tmp_path: Path,
) -> None:
    write_reviewed(tmp_path, reviewer="019cc001-0000-7000-8000-000000000002")
    for month in range(3, 9):
        other = f"019cc001-0000-7000-8000-00000000000{month}"
        name = f"rollout-2026-0{month}-01T00-00-00-{other}.jsonl"
        Writer(tmp_path / ".codex", name=name).meta(other).prompt("Go").read()
    client = create_client(home=tmp_path, env={"AMUX_INDEX": "off"})
    with opened_files() as opened:
        client.sessions.get("codex", OWN)
    assert len({path for path in opened if path.startswith(str(tmp_path / ".codex"))}) == 2
