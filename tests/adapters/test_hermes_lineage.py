"""Hermes: branches, compression, sub-agents, undone and repeated rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hermes_stores import Store

from amux.adapters.hermes import ADAPTER
from amux.client import create_client

SUMMARY = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\n## Goal\nGo on."
END = "\n--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"


def kinds(store: Store) -> dict[str, tuple[str, str | None]]:
    return {id: (facts.kind, facts.parent) for id, facts in store.facts().items()}


def compact(store: Store, id: str, *rows: tuple[str, str]) -> None:
    """What compaction in place does: everything so far is flagged, the rows are written anew."""
    store.run("UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ? AND active", id)
    for number, (role, content) in enumerate(rows):
        store.say(id, role, content, timestamp=store.tick(1e-6 if number else 1.0))


@pytest.mark.parametrize("version", [11, 22])
def test_children_are_distinguished_by_how_their_parents_ended(
    version: int, tmp_path: Path
) -> None:
    store = Store(tmp_path, version=version)
    store.session("compressed", ended_at=store.tick(10), end_reason="compression")
    store.session("goes-on", parent_session_id="compressed")
    store.session("branched", ended_at=store.tick(10), end_reason="branched")
    store.session("branch", parent_session_id="branched")
    store.session("busy", ended_at=store.tick(), end_reason="cli_close")
    store.session("helper", parent_session_id="busy")
    store.session("lost", parent_session_id="deleted")
    assert kinds(store) == {
        "compressed": ("session", None),
        "goes-on": ("continuation", "compressed"),
        "branched": ("session", None),
        "branch": ("fork", "branched"),
        "busy": ("session", None),
        "helper": ("subagent", "busy"),
        "lost": ("session", "deleted"),
    }


def test_a_helper_started_before_its_parent_was_compressed_is_no_continuation(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    store.session("parent", ended_at=store.tick(100), end_reason="compression")
    store.session("helper", parent_session_id="parent", started_at=store.tick(-50))
    assert kinds(store)["helper"] == ("subagent", "parent")


def test_marks_in_the_child_win_over_how_the_parent_ended(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("parent")
    branched = json.dumps({"_branched_from": "parent"})
    store.session("branch", parent_session_id="parent", model_config=branched)
    delegated = json.dumps({"_delegate_from": "parent"})
    store.session("helper", parent_session_id="parent", model_config=delegated, source="subagent")
    assert kinds(store)["branch"] == ("fork", "parent")
    assert kinds(store)["helper"] == ("subagent", "parent")


def test_a_compressed_helper_stays_a_helper(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("parent")
    store.session(
        "helper",
        parent_session_id="parent",
        source="subagent",
        ended_at=store.tick(),
        end_reason="compression",
    )
    store.session("helper-2", parent_session_id="helper")
    assert kinds(store)["helper-2"] == ("subagent", "helper")


def test_parents_in_a_circle_end_nowhere_but_do_not_hang(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("a", parent_session_id="b")
    store.session("b", parent_session_id="a")
    store.session("self", parent_session_id="self")
    assert set(kinds(store)) == {"a", "b", "self"}


def test_children_inherit_the_directory(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("parent", cwd="/src/app", ended_at=store.tick(), end_reason="compression")
    store.session("child", parent_session_id="parent", ended_at=store.tick(), end_reason="branched")
    store.session("grandchild", parent_session_id="child")
    assert store.one("grandchild").cwd == "/src/app"


def test_the_list_hides_helpers_and_archived_sessions_and_counts_helpers_in(home: Path) -> None:
    store = Store(home / ".hermes")
    store.session("parent", model="m", input_tokens=5, output_tokens=5)
    store.session("helper", parent_session_id="parent", model="m", input_tokens=2)
    store.session("old", archived=1)
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    assert [one.session_id for one in client.sessions.list("hermes")] == ["parent"]
    parent = client.sessions.get("hermes", "parent")
    assert [child.session_id for child in parent.children] == ["helper"]
    assert parent.cost is not None
    assert parent.cost.input_tokens == 7
    assert client.sessions.get("hermes", "old").archived


def test_undone_rows_are_hidden(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s", rewind_count=1)
    store.talk("s", "first", "answer")
    store.say("s", "user", "a mistake", active=0)
    store.say("s", "assistant", "too late", active=0)
    store.talk("s", "better", "fine")
    assert store.said("s") == ["first", "answer", "better", "fine"]


def test_compaction_in_place_shows_every_message_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s", model="m", input_tokens=1)
    store.talk("s", "one", "1", "two", "2", "three", "3")
    compact(
        store, "s", ("user", "one"), ("assistant", SUMMARY), ("user", "three"), ("assistant", "3")
    )
    store.talk("s", "four", "4")
    assert store.said("s") == ["one", "1", "two", "2", "three", "3", "four", "4"]
    facts = store.one("s")
    assert facts.compactions == 1
    assert facts.gaps == ("compaction-call-not-recorded",)


def test_a_prompt_typed_again_after_a_compaction_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.talk("s", "again", "1", "again", "2")
    compact(store, "s", ("user", "again"), ("assistant", SUMMARY), ("user", "again"))
    store.talk("s", "again", "3")
    assert store.said("s") == ["again", "1", "again", "2", "again", "3"]


def test_two_compactions_in_place_repeat_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.talk("s", "one", "1", "two", "2")
    compact(store, "s", ("user", "one"), ("assistant", SUMMARY), ("assistant", "2"))
    store.talk("s", "three", "3")
    compact(store, "s", ("user", "one"), ("assistant", SUMMARY + " More."), ("assistant", "3"))
    store.talk("s", "four", "4")
    assert store.said("s") == ["one", "1", "two", "2", "three", "3", "four", "4"]
    assert store.one("s").compactions == 2


def test_a_summary_put_in_front_of_a_repeated_message_leaves_the_summary(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.talk("s", "one", "1", "two", "2")
    compact(store, "s", ("user", SUMMARY + END + "\n\ntwo"), ("assistant", "2"))
    assert store.said("s") == ["one", "1", "two", "2"]
    summaries = [m.content for m in store.read().messages if m.compaction]
    assert summaries == [SUMMARY + END]


def test_a_summary_in_front_of_a_new_prompt_is_two_messages(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "user", SUMMARY + END + "\nwhat next?")
    summary, prompt = store.read().messages
    assert (summary.synthetic, summary.compaction) == (True, True)
    assert (prompt.content, prompt.synthetic) == ("what next?", False)
    assert summary.id != prompt.id
    assert store.one("s").first_prompt == "what next?"


@pytest.mark.parametrize("blanks", ["", "\n\t ", " " * 60, "\u00a0"])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_long_summary_makes_as_many_messages_as_are_counted(
    blanks: str, role: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", role, blanks + SUMMARY + " word" * 10_000 + END + "\n\nafter it")
    assert len(store.one("s").trace) == len(store.read().messages)


def test_a_compaction_whose_summary_is_not_recognised_still_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.talk("s", "one", "1")
    compact(store, "s", ("user", "in short: one"))
    assert store.one("s").compactions == 1
