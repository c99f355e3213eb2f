"""Codex: lineage without a capture, and damaged or unusual files."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest
from codex_any import spoil
from codex_lines import OWN, PARENT, Writer, history, prompts, read
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.model.facts import Facts


@pytest.fixture
def rollout(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


# Lineage


def keys_of(facts: Facts) -> set[int]:
    return set(array("q", facts.copy_keys))


def test_a_backtracked_copy_shares_its_parents_keys_and_nothing_else(tmp_path: Path) -> None:
    name = f"rollout-2026-01-01T00-00-00-{PARENT}.jsonl"
    parent, _, _ = history(Writer(tmp_path, name=name).meta(PARENT)).answer("x").count(40, 4).read()
    copy, _, _ = history(Writer(tmp_path).meta().meta(PARENT)).answer("y").count(41, 4).read()
    assert (copy.kind, copy.parent, copy.session_id) == ("fork", PARENT, OWN)
    shared = {call.key for call in parent.calls} & {call.key for call in copy.calls}
    assert [call.tokens.input for call in copy.calls if call.key not in shared] == [41]
    assert keys_of(parent) < keys_of(copy)
    assert not copy.unnamed_copies


def test_a_migrated_copy_is_known_by_its_content(tmp_path: Path) -> None:
    name = f"rollout-2026-01-01T00-00-00-{PARENT}.jsonl"
    parent, _, _ = history(Writer(tmp_path, name=name).meta(PARENT)).read()
    migrated = Writer(tmp_path)
    migrated.ordinal = 0
    history(migrated.meta())
    item = {"type": "UserMessage", "id": "item-7", "content": [{"type": "text", "text": "New"}]}
    migrated.user("New").event("item_completed", turn_id="rollout-9", item=item)
    copy, messages, _ = migrated.answer("New answer").count(50, 5).read()
    assert copy.unnamed_copies
    assert (copy.kind, copy.parent) == ("session", None)
    assert len(keys_of(copy) & keys_of(parent)) == len(keys_of(parent)) - 1  # but its own history
    assert [call.key for call in copy.calls[:3]] == [call.key for call in parent.calls]
    assert prompts(messages) == ["Go", "More", "New"]


@pytest.mark.parametrize("place", [0, 5000, -1])
def test_long_encrypted_reasoning_marks_its_copies(tmp_path: Path, place: int) -> None:
    """No encryption changes only the middle of a value."""
    content = list("gAAAAA" + "x" * 10_000)
    identities: list[bytes] = []
    for letter in "aab":
        content[place] = letter
        rollout = Writer(tmp_path).meta().item("reasoning", encrypted_content="".join(content))
        identities.append(rollout.read()[0].copy_keys)
    assert identities[0] == identities[1]
    assert (identities[1] == identities[2]) == (place == 5000)


def test_sub_agents_billed_alike_have_keys_of_their_own(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    keys: list[str] = []
    for digit in "34":
        id = OWN.replace("1", digit)
        rollout = Writer(tmp_path, name=f"rollout-2026-01-01T00-00-00-{id}.jsonl")
        rollout.meta(id, source=source, agent_nickname="Sagan").prompt("Task").answer("Done")
        facts, _, _ = rollout.count(10, 1).read()
        assert (facts.kind, facts.parent) == ("subagent", PARENT)
        assert facts.fallback_title == "Sagan"
        keys += [call.key for call in facts.calls]
    assert len(set(keys)) == 2


def test_a_review_without_a_known_parent_is_a_session(rollout: Writer) -> None:
    facts, _, _ = rollout.meta(source={"subagent": "review"}).prompt("Go").read()
    assert (facts.kind, facts.parent) == ("session", None)
    assert facts.raw["source"] == {"subagent": "review"}


def test_only_a_name_for_this_thread_is_its_name(rollout: Writer) -> None:
    rollout.meta().prompt("Go")
    rollout.event("thread_name_updated", thread_id=OWN, thread_name="First")
    rollout.event("thread_name_updated", thread_id=OWN, thread_name="Mine")
    rollout.event("thread_name_updated", thread_id=PARENT, thread_name="Theirs")
    facts, _, _ = rollout.read()
    assert facts.name == "Mine"


def test_a_lost_first_line_does_not_turn_a_copy_into_its_parent(rollout: Writer) -> None:
    rollout.lines.append("{ torn apart")
    facts, _, problems = rollout.meta(PARENT).prompt("Go").read()
    assert (facts.session_id, facts.parent) == (OWN, PARENT)
    assert [problem.code for problem in problems] == ["bad-line"]


def test_reading_up_to_a_key_stops_before_it(rollout: Writer) -> None:
    rollout.ordinal = 5
    rollout.meta().user("First").answer("One").user("Second").answer("Two")
    _, messages, _ = rollout.read(until=8)
    assert [message.content for message in messages] == ["First", "One"]
    facts, _, _ = rollout.read()
    assert list(facts.trace.key_list()) == [5, 6, 7, 8, 9]


# Damage


def test_a_document_cut_anywhere_gives_its_whole_items(tmp_path: Path) -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1"}]},
    ]
    text = json.dumps({"session": {"id": OWN, "timestamp": "2025-06-01T00:00:00Z"}, "items": items})
    path = tmp_path / "sessions" / f"rollout-2025-06-01-{OWN}.json"
    path.parent.mkdir()
    counts: list[int] = []
    for cut in range(len(text) + 1):
        path.write_text(text[:cut])
        facts, messages, problems = read(path)
        assert facts.session_id in {"", OWN}
        assert bool(problems) is (cut < len(text))
        counts.append(len(messages))
    assert counts == sorted(counts)
    assert counts[-1] == 2


@drawn(100)
@given(data=st.data())
def test_any_document_of_any_shape_raises_no_exception(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    message = {"type": "message", "role": "user", "content": [{"type": "t", "text": "Go"}]}
    document = {"session": {"id": OWN, "timestamp": "x"}, "items": [message, call, output]}
    whole = [document]
    spoil(data, whole)
    text = json.dumps(whole[0]) + json.dumps(document)[data.draw(st.integers(0, 200)) :]
    path = tmp_path_factory.mktemp("odd") / f"rollout-2025-06-01-{OWN}.json"
    path.write_text(text)
    read(path)


def test_a_torn_last_line_and_nonsense_cost_one_line_each(rollout: Writer) -> None:
    rollout.meta().prompt("Go").answer("One").count(1, 1)
    rollout.lines.insert(2, "\x00\x01 nonsense")
    rollout.lines.insert(4, '{"type":"response_item","payload":{"type":"message","role":7}}')
    whole = "\n".join(rollout.lines) + '\n{"type":"event_m'
    rollout.path.write_text(whole)
    facts, messages, problems = read(rollout.path)
    assert [p.code for p in problems] == ["bad-line", "bad-record", "torn-tail"]
    assert [p.line for p in problems] == [3, 5, 8]
    assert [message.content for message in messages] == ["Go", "One"]
    assert facts.problem_count == 3


def test_types_of_the_future_are_counted_and_change_nothing(rollout: Writer) -> None:
    rollout.meta().line("future", {"x": 1}).event("brand_new").item("novelty").prompt("Go")
    rollout.line("future", None).line("world_state", {}).answer("One").count(1, 1)
    facts, messages, _ = rollout.read()
    assert facts.raw["unknownTypes"] == {
        "event_msg/brand_new": 1,
        "future": 2,
        "response_item/novelty": 1,
    }
    assert [message.content for message in messages] == ["Go", "One"]


def test_a_file_without_any_record_has_no_session(rollout: Writer) -> None:
    for content in ("", "[]\n", '{"foo": 1}\n{"type": "bar"}\n'):
        rollout.path.write_text(content)
        facts, messages, problems = read(rollout.path)
        assert facts.session_id == ""
        assert messages == []
        assert problems[-1].code == "unknown-format"


@drawn()
@given(data=st.data())
def test_any_field_of_any_shape_raises_no_exception(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rollout = Writer(tmp_path_factory.mktemp("odd"))
    rollout.ordinal = data.draw(st.sampled_from([None, 0]))
    rollout.meta(history_base={"thread_id": PARENT, "end_ordinal_exclusive": 0})
    history(rollout).line("compacted", {"message": "sum"}).record("r", 1, 1)
    rollout.event("item_completed", item={"type": "Reasoning", "id": "i", "summary_text": ["t"]})
    lines = [json.loads(line) for line in rollout.lines]
    for _ in range(data.draw(st.integers(1, 4))):
        spoil(data, lines)
    rollout.lines = [json.dumps(line) for line in data.draw(st.permutations(lines))]
    rollout.read()
