"""Claude Code: every capture, at the level of one source."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from claude_transcripts import (
    Json,
    Read,
    check_counts,
    identity_keys,
    read_path,
    sessions_of,
)

from amux.adapters._base import SourceRef, Want
from amux.adapters.claude import ADAPTER, FolderMatch
from amux.host import Host
from amux.model.facts import Facts
from amux.model.trace import count_turns
from amux.model.usage import Call

CAPTURES = Path(__file__).parent.parent / "captures"
VERSIONS = sorted(
    path.parent.relative_to(CAPTURES).as_posix()
    for agent in ("claude", "claude-agent-sdk")
    for path in CAPTURES.glob(f"{agent}/*/expected.json")
)


@pytest.fixture(scope="module", params=VERSIONS)
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    original = CAPTURES / cast("str", request.param)
    copy = tmp_path_factory.mktemp("capture")
    shutil.copytree(original, copy, dirs_exist_ok=True)
    return copy


def discovered(capture: Path) -> list[SourceRef]:
    host = Host(capture / "home")
    return [source for root in ADAPTER.roots(host) for source in ADAPTER.discover(root)]


def read_capture(capture: Path, want: Want = "all") -> dict[str, Read]:
    return {
        read.facts.session_id: read
        for source in discovered(capture)
        if source.role != "names"
        for read in sessions_of(ADAPTER.read(source, want=want))
        if read.head is not None
    }


def expected_sessions(capture: Path) -> list[Json]:
    return cast("list[Json]", json.loads((capture / "expected.json").read_text())["sessions"])


def answers(expected: Json, field: str) -> list[Any]:
    """Return the expected values of a field; none if it is not checked."""
    if expected[field] is None:
        return []
    return [expected[field], *expected["accept"].get(field, [])]


def joined(answer: list[str]) -> str:
    return "".join(answer)


def test_prompts_answers_and_thoughts_of_every_capture_are_found_in_order(capture: Path) -> None:
    reads = read_capture(capture)
    for expected in expected_sessions(capture):
        read = reads[expected["session_id"]]
        thoughts = "".join(message.thinking or "" for message in read.messages)
        for field, found in (
            ("user_prompts", joined(read.texts("user"))),
            ("assistant_texts", joined(read.texts("assistant"))),
            ("thinking_texts", thoughts),
        ):
            right = answers(expected, field)
            assert not right or found in map(joined, right), (expected["session_id"], field)


def test_prompts_of_every_capture_are_one_message_each(capture: Path) -> None:
    reads = read_capture(capture)
    for expected in expected_sessions(capture):
        right = answers(expected, "user_prompts")
        assert not right or reads[expected["session_id"]].texts("user") in right


def test_tool_calls_of_every_capture_say_whether_they_failed(capture: Path) -> None:
    reads = read_capture(capture)
    for expected in expected_sessions(capture):
        found = reads[expected["session_id"]].tool_calls
        wanted = [(call["name"], call["ok"]) for call in expected["tool_calls"]]
        known = [
            (name, ok if right is not None else None)
            for (name, ok), (_, right) in zip(found, wanted, strict=True)
        ]
        assert known == wanted


def test_every_tool_result_of_a_capture_names_the_tool_of_its_call(capture: Path) -> None:
    for read in read_capture(capture).values():
        assert not read.problems
        calls = {c.tool_call_id: c for m in read.messages for c in m.tool_calls}
        for message in read.messages:
            if message.tool_result is not None:
                call = calls[message.tool_result.tool_call_id]
                assert message.tool_result.tool_name == call.tool_name
                assert message.tool_result.output == call.output


@pytest.mark.parametrize("field", ["cwd", "turns", "compactions"])
def test_plain_facts_of_every_capture_are_right(capture: Path, field: str) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        facts = reads[expected["session_id"]].facts
        found = {
            "cwd": facts.cwd,
            "turns": count_turns(facts.trace.kinds),
            "compactions": facts.compactions,
        }[field]
        right = answers(expected, field)
        assert not right or found in right, expected["session_id"]


def test_creation_times_of_every_capture_are_within_bounds(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        facts = reads[expected["session_id"]].facts
        assert facts.created_at is not None
        assert facts.updated_at is not None
        if expected["created_between"]:
            first, last = map(datetime.fromisoformat, expected["created_between"])
            assert first <= facts.created_at <= last


def test_tokens_of_captured_sessions_without_copies_are_exact(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        if expected["kind"] in {"session", "subagent"}:
            read = reads[expected["session_id"]]
            assert read.tokens == expected["own_tokens_recoverable"]


def test_the_new_calls_of_captured_copies_are_exact(capture: Path) -> None:
    """The own calls of a copy are those that are in no session it was copied from."""
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        if expected["kind"] not in {"fork", "continuation"}:
            continue
        parent = reads[expected["parent"]].facts
        inherited = {call.key for call in parent.calls}
        calls = reads[expected["session_id"]].facts.calls
        own = Read()
        own.facts = Facts(
            session_id="", calls=tuple(call for call in calls if call.key not in inherited)
        )
        assert own.tokens == expected["own_tokens_recoverable"]


def test_gaps_shown_by_a_capture_are_marked_incomplete(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        read = reads[expected["session_id"]]
        if expected["incomplete_detectable"]:
            assert read.gaps
        if "compaction-call-not-recorded" in expected["incomplete"] and expected["compactions"]:
            assert "compaction-call-not-recorded" in read.gaps


def test_models_of_captured_sessions_are_those_of_their_calls(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        if expected["kind"] == "session" and expected["models"] is not None:
            facts = reads[expected["session_id"]].facts
            assert {call.model for call in facts.calls} == set(expected["models"])


def test_titles_of_a_capture_come_from_its_own_lines_or_a_note(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    notes = [
        note
        for source in discovered(capture)
        for read in sessions_of(ADAPTER.read(source, want="facts"))
        for note in read.facts.notes
    ]
    for expected in expected_sessions(capture):
        facts = reads[expected["session_id"]].facts
        lines = set(facts.trace.key_list())
        noted = [note.text for note in notes if note.entry in lines]
        right = answers(expected, "title")
        found = facts.name or next(reversed(noted), None) or facts.first_prompt
        assert not right or found in right, expected["session_id"]


def test_recorded_costs_of_captured_sessions_are_kept(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        if expected["native_cost_usd"] is None or expected["kind"] != "session":
            continue
        sid = expected["session_id"]
        parts = [
            read.facts for key, read in reads.items() if key == sid or key.startswith(f"{sid}/")
        ]
        by_call = sum(call.native_nusd or 0 for facts in parts for call in facts.calls)
        found = reads[sid].facts.native_nusd
        total = by_call if found is None else found
        assert total / 1e9 == pytest.approx(expected["native_cost_usd"], abs=1e-9)


def test_lineage_that_a_capture_records_is_found(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    expected = {entry["session_id"]: entry for entry in expected_sessions(capture)}
    for session_id, read in reads.items():
        if session_id in expected and read.facts.parent is not None:
            assert read.facts.parent == expected[session_id]["parent"]
        if expected.get(session_id, {}).get("kind") == "subagent":
            assert read.facts.kind == "subagent"
            assert read.facts.parent == expected[session_id]["parent"]


def test_copies_share_the_identity_of_their_parent(capture: Path) -> None:
    reads = read_capture(capture, "facts")
    for expected in expected_sessions(capture):
        if expected["kind"] in {"fork", "continuation"}:
            facts = reads[expected["session_id"]].facts
            parent = reads[expected["parent"]].facts
            shared = set(identity_keys(facts.copy_keys)) & set(identity_keys(parent.copy_keys))
            assert shared
            assert facts.kind in {"session", expected["kind"]}
            assert facts.copy_kind == expected["kind"]


def test_files_that_are_no_sessions_only_hold_notes(capture: Path) -> None:
    totals = json.loads((capture / "expected.json").read_text())["home_totals"]
    for name in totals["not_sessions"]:
        for read in read_path(capture / "home" / name):
            assert not read.facts.attributed


def test_every_billed_call_of_a_capture_is_read_once_by_key(capture: Path) -> None:
    """The sum over all keys, warm-ups and sub-agents included, is what the server billed."""
    totals = json.loads((capture / "expected.json").read_text())["home_totals"]
    calls: dict[str, Call] = {}
    for source in discovered(capture):
        for read in sessions_of(ADAPTER.read(source, want="facts")):
            for call in read.facts.calls:
                best = calls.get(call.key, call)
                calls[call.key] = max(best, call, key=lambda one: one.tokens.output)
    everything = Read()
    everything.facts = Facts(session_id="", calls=tuple(calls.values()))
    assert everything.tokens in [totals["tokens_recoverable"], *totals["accept"]]


def test_facts_are_equal_with_and_without_bodies(capture: Path) -> None:
    for source in discovered(capture):
        bare = sessions_of(ADAPTER.read(source, want="facts"))
        full = sessions_of(ADAPTER.read(source, want="all"))
        assert [read.facts for read in bare] == [read.facts for read in full]
        assert [read.calls for read in bare] == [read.calls for read in full]
        assert not any(read.messages for read in bare)


def test_traces_of_a_capture_count_the_messages_that_are_read(capture: Path) -> None:
    for read in read_capture(capture).values():
        check_counts(read)


def test_message_ids_of_a_capture_are_unique_and_parents_come_before(capture: Path) -> None:
    for read in read_capture(capture).values():
        seen: set[str] = set()
        for message in read.messages:
            assert message.id is not None
            assert message.id not in seen
            assert message.parent_id is None or message.parent_id in seen
            seen.add(message.id)
        assert {call.message_id for call in read.facts.calls} <= seen


def test_reading_a_capture_changes_nothing(capture: Path) -> None:
    before = _snapshot(capture)
    read_capture(capture)
    assert _snapshot(capture) == before


def _snapshot(root: Path) -> dict[str, tuple[str, int]]:
    return {
        path.relative_to(root).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in root.rglob("*")
        if path.is_file()
    }


def test_no_line_type_of_a_capture_is_unknown(capture: Path) -> None:
    for read in read_capture(capture).values():
        assert "unknownTypes" not in read.facts.raw


def test_the_folders_of_a_capture_belong_to_the_directories_in_their_lines(capture: Path) -> None:
    for source in discovered(capture):
        for read in sessions_of(ADAPTER.read(source, want="facts")):
            if read.facts.cwd is not None:
                assert FolderMatch(read.facts.cwd)(source.group)
