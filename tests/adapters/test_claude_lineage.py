"""Claude Code: forks, costs and sub-agents of versions without a capture."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from claude_transcripts import (
    SESSION,
    Json,
    Transcript,
    text,
    tool,
)

from amux.model.usage import Tokens


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


@pytest.mark.parametrize(
    "mark",
    [
        {"sessionId": "parent-id", "messageUuid": "m"},
        "parent-id",
        [{"sessionId": "older"}, {"sessionId": "parent-id"}],
    ],
)
def test_forked_from_names_the_parent_in_every_shape(transcript: Transcript, mark: Any) -> None:
    transcript.user("hi", forkedFrom=mark)
    transcript.assistant(text("Hello"), forkedFrom=mark)
    transcript.user("more")
    transcript.assistant(text("Own"), message_id="msg_2")
    facts = transcript.session_read().facts
    assert (facts.kind, facts.parent) == ("fork", "parent-id")
    assert [call.copied for call in facts.calls] == [True, False]
    assert facts.created_at == datetime(2026, 1, 2, 3, 4, 3, tzinfo=UTC)


def test_forked_from_in_the_metadata_of_the_first_line_names_the_parent(
    transcript: Transcript,
) -> None:
    transcript.raw({"type": "session", "metadata": {"forkedFrom": "parent-id"}})
    transcript.user("hi")
    assert transcript.session_read().facts.parent == "parent-id"


def test_a_foreign_session_id_among_own_lines_names_the_parent(transcript: Transcript) -> None:
    transcript.user("hi", sessionId="parent-id")
    transcript.assistant(text("Hello"), sessionId="parent-id")
    transcript.user("more")
    facts = transcript.session_read().facts
    assert (facts.kind, facts.parent, facts.unnamed_copies) == ("fork", "parent-id", True)
    assert facts.calls[0].copied


def test_a_file_under_another_name_is_no_fork_of_itself(transcript: Transcript) -> None:
    transcript.user("hi", sessionId="the-name-it-had")
    transcript.assistant(text("Hello"), sessionId="the-name-it-had")
    facts = transcript.session_read().facts
    assert (facts.kind, facts.parent) == ("session", None)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("0.2.126", "continuation"),
        ("1.0.59", "continuation"),
        ("1.0.128", "fork"),
        ("2.1.0", "fork"),
    ],
)
def test_a_copy_is_a_resume_before_sessions_were_appended_to(
    tmp_path: Path, version: str, kind: str
) -> None:
    transcript = Transcript(tmp_path, version=version)
    transcript.user("hi")
    assert transcript.session_read().facts.copy_kind == kind


def test_costs_of_old_versions_are_kept_and_replays_say_nothing(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path, version="0.2.126")
    transcript.user("hi")
    transcript.assistant(text("replayed"), costUSD=0)
    transcript.assistant(text("own"), message_id="msg_2", costUSD=0.0125)
    facts = transcript.session_read().facts
    assert [call.native_nusd for call in facts.calls] == [None, 12_500_000]
    assert facts.native_nusd is None


def test_cost_events_are_summed(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.raw({"type": "cost", "costUSD": 0.25, "inputTokens": 5, "outputTokens": 7})
    transcript.raw({"type": "cost", "cost": {"totalUsd": 0.5, "inputTokens": 1}})
    facts = transcript.session_read().facts
    assert facts.native_nusd == 750_000_000
    assert [call.tokens for call in facts.calls] == [Tokens(input=6, output=7)]


def test_cost_events_beside_recorded_usage_count_no_tokens_twice(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.raw({"type": "cost", "costUSD": 0.25, "inputTokens": 5})
    facts = transcript.session_read().facts
    assert facts.native_nusd == 250_000_000
    assert [call.key for call in facts.calls] == ["msg_1"]


def test_the_last_cost_state_is_the_total_unless_a_call_came_after(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    transcript.raw({"type": "cost-state", "totalCostUSD": 0.1})
    transcript.raw({"type": "cost-state", "totalCostUSD": 0.2})
    assert transcript.session_read().facts.native_nusd == 200_000_000
    transcript.assistant(text("killed before the next total"), message_id="msg_2")
    assert transcript.session_read().facts.native_nusd is None


def test_the_cost_state_of_a_fork_includes_its_parent_and_is_not_used(
    transcript: Transcript,
) -> None:
    transcript.user("hi", forkedFrom={"sessionId": "parent-id"})
    transcript.raw({"type": "cost-state", "totalCostUSD": 0.2})
    assert transcript.session_read().facts.native_nusd is None


def test_labels_are_kept_small_in_raw(transcript: Transcript) -> None:
    transcript.user("hi", gitBranch="main", entrypoint="cli", slug="a-slug")
    transcript.raw({"type": "tag", "tag": "old"}).raw({"type": "tag", "tag": "kept"})
    for _ in range(2):
        transcript.raw({"type": "pr-link", "prUrl": "https://example.com/1"})
    assert transcript.session_read().facts.raw == {
        "gitBranch": "main",
        "entrypoint": "cli",
        "slug": "a-slug",
        "tag": "kept",
        "prLinks": ["https://example.com/1"],
    }


def two_sidechains(tmp_path: Path) -> Transcript:
    """Return two sub-agents that run in parallel, written between the lines of their session."""
    transcript = Transcript(tmp_path, version="1.0.128")
    transcript.user("go")
    task = transcript.assistant(tool("t1", "Task"), tool("t2", "Task"), stop="tool_use")
    first = transcript.user("task one", isSidechain=True, parentUuid=None)
    second = transcript.user("task two", isSidechain=True, parentUuid=None)
    side: Json = {"isSidechain": True}
    transcript.assistant(text("one"), message_id="s1", parentUuid=first, **side)
    transcript.assistant(text("two"), message_id="s2", parentUuid=second, **side)
    transcript.last = task
    transcript.result("t1", "one")
    transcript.assistant(text("done"), message_id="msg_2")
    return transcript


def test_sidechains_in_the_file_are_sub_agents_of_its_session(tmp_path: Path) -> None:
    transcript = two_sidechains(tmp_path)
    transcript.session_read()
    main, first, second = transcript.read()
    assert main.texts("user") == ["go"]
    assert [call.key for call in main.facts.calls] == ["msg_1", "msg_2"]
    for read, number, task in ((first, 1, "task one"), (second, 2, "task two")):
        assert read.head == read.facts.session_id == f"{SESSION}/sidechain-{number}"
        assert read.texts("user") == [task]
        assert (read.facts.kind, read.facts.parent) == ("subagent", SESSION)
        assert not read.facts.addressable
        assert [call.purpose for call in read.facts.calls] == ["subagent"]


def test_only_one_session_of_a_file_is_read_when_asked(tmp_path: Path) -> None:
    transcript = two_sidechains(tmp_path)
    everything = transcript.read()
    for read in everything:
        (one,) = transcript.read(only=read.facts.session_id)
        assert one.facts == read.facts
        assert one.messages == read.messages


def test_a_recorded_agent_id_is_the_id_of_a_sidechain(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.user("task", isSidechain=True, parentUuid=None, agentId="a1b2c3")
    transcript.assistant(text("x"), message_id="s1", isSidechain=True, agentId="a1b2c3")
    _, agent = transcript.read()
    assert (agent.facts.session_id, agent.facts.aliases) == ("a1b2c3", ("agent-a1b2c3",))
    assert agent.facts.addressable


def test_an_agent_file_beside_the_sessions_names_its_parent_in_its_lines(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path, name="agent-a1b2c3d", version="2.0.77")
    transcript.user("count the files", isSidechain=True, sessionId=SESSION, agentId="a1b2c3d")
    transcript.assistant(text("one"), isSidechain=True, sessionId=SESSION, agentId="a1b2c3d")
    facts = transcript.session_read().facts
    assert (facts.session_id, facts.kind, facts.parent) == ("a1b2c3d", "subagent", SESSION)
    assert facts.attributed
    assert [(call.purpose, call.copied) for call in facts.calls] == [("subagent", False)]


def test_warm_up_agents_are_billed_but_belong_to_no_session(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path, name="agent-a1b2c3d", version="2.0.77")
    transcript.user("Warmup", isSidechain=True, sessionId=SESSION)
    transcript.assistant(text("OK, ready."), isSidechain=True, sessionId="another-session")
    facts = transcript.session_read().facts
    assert not facts.attributed
    assert facts.parent is None
    assert [call.purpose for call in facts.calls] == ["warm-up"]
    assert facts.first_prompt is None


def test_a_person_may_begin_a_session_with_the_word_warmup(transcript: Transcript) -> None:
    transcript.user("Warmup")
    facts = transcript.session_read().facts
    assert (facts.attributed, facts.first_prompt) == (True, "Warmup")


def test_a_lost_line_does_not_tear_a_sidechain_apart(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.user("task", isSidechain=True, parentUuid=None)
    transcript.raw(b"{lost")
    transcript.assistant(text("x"), message_id="s1", isSidechain=True, parentUuid="lost-line")
    _, agent = transcript.read()
    assert agent.texts("assistant") == ["x"]
