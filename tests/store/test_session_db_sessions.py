"""Sessions, their counters, messages, titles and lineage in a session database."""

from __future__ import annotations

from typing import Any

import pytest
from session_databases import START, OpenDB, Ticks, raw

from amux import (
    AmbiguousIdError,
    SessionDB,
    SessionNotFoundError,
    TitleInUseError,
    ValidationError,
)

TOOL_CALLS: list[dict[str, Any]] = [{"id": "c"}]


def session(db: SessionDB, session_id: str = "s") -> dict[str, Any]:
    found = db.get_session(session_id)
    assert found is not None
    return found


def chain(db: SessionDB, *ids: str) -> None:
    """Create sessions, each the continuation of the one before."""
    for parent, child in zip((None, *ids), ids, strict=False):
        db.create_session(child, "cli", parent_session_id=parent)
        db.append_message(child, "user", f"prompt of {child}")
        if child != ids[-1]:
            db.end_session(child, "compression")


# Sessions


def test_creating_a_session_again_fills_only_what_is_missing(db: SessionDB) -> None:
    assert db.create_session("s", "cli", model="m1") == "s"
    started = session(db)["started_at"]
    db.create_session("s", "telegram", model="m2", system_prompt="P", model_config={"a": 1})
    found = session(db)
    assert (found["source"], found["model"], found["started_at"]) == ("cli", "m1", started)
    assert (found["system_prompt"], found["model_config"]) == ("P", '{"a": 1}')


def test_a_start_may_be_given(db: SessionDB) -> None:
    db.create_session("s", "cli", started_at=12.5, cwd="/work")
    assert (session(db)["started_at"], session(db)["cwd"]) == (12.5, "/work")


@pytest.mark.parametrize(("session_id", "source"), [("", "cli"), ("s", ""), (None, "cli")])
def test_a_session_needs_an_id_and_a_source(db: SessionDB, session_id: Any, source: str) -> None:
    with pytest.raises(ValidationError, match="must be a text"):
        db.create_session(session_id, source)


def test_numbers_that_no_file_can_hold_are_refused(db: SessionDB) -> None:
    with pytest.raises(ValidationError, match="`started_at` must be Unix seconds"):
        db.create_session("s", "cli", started_at=float("nan"))
    db.create_session("s", "cli")
    with pytest.raises(ValidationError, match="a number is too large"):
        db.update_token_counts("s", input_tokens=2**63)
    assert session(db)["input_tokens"] == 0


def test_an_id_that_no_file_can_hold_is_refused(db: SessionDB) -> None:
    with pytest.raises(ValidationError, match="not valid Unicode"):
        db.create_session("\ud800", "cli")
    with pytest.raises(ValidationError, match="not valid Unicode"):
        db.get_session("\ud800")


def test_a_parent_must_exist(db: SessionDB) -> None:
    with pytest.raises(SessionNotFoundError, match="no session `p` in the database"):
        db.create_session("s", "cli", parent_session_id="p")
    assert db.get_session("s") is None


def test_the_first_reason_for_an_end_stays(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.end_session("s", "compression")
    ended = session(db)
    db.end_session("s", "later")
    assert session(db) == ended
    db.reopen_session("s")
    db.end_session("s", "later")
    assert session(db)["end_reason"] == "later"
    db.end_session("missing", "x")
    db.reopen_session("missing")


def test_token_counts_are_added_or_set(db: SessionDB) -> None:
    db.create_session("s", "cli")
    for _ in range(2):
        db.update_token_counts(
            "s",
            input_tokens=5,
            output_tokens=4,
            cache_read_tokens=3,
            cache_write_tokens=2,
            reasoning_tokens=1,
            api_call_count=1,
            estimated_cost_usd=0.25,
            actual_cost_usd=0.5,
            model="m",
            cost_status="estimated",
            billing_provider="p",
        )
    found = session(db)
    assert (found["input_tokens"], found["output_tokens"], found["api_call_count"]) == (10, 8, 2)
    assert (found["estimated_cost_usd"], found["actual_cost_usd"]) == (0.5, 1.0)
    db.update_token_counts("s", input_tokens=7, absolute=True, cost_status="actual", model="n")
    found = session(db)
    assert (found["input_tokens"], found["output_tokens"], found["api_call_count"]) == (7, 0, 0)
    assert (found["estimated_cost_usd"], found["actual_cost_usd"]) == (0.5, 1.0)
    assert (found["model"], found["cost_status"], found["billing_provider"]) == ("m", "actual", "p")
    with pytest.raises(SessionNotFoundError):
        db.update_token_counts("missing", input_tokens=1)


def test_an_id_is_found_by_a_unique_prefix(db: SessionDB) -> None:
    for name in ("abc", "abd", "ab%", "x_1", "xy1"):
        db.create_session(name, "cli")
    assert db.resolve_session_id("abc") == "abc"
    assert db.resolve_session_id("x_") == "x_1"
    assert db.resolve_session_id("ab%") == "ab%"
    assert db.resolve_session_id("AB") is None
    assert db.resolve_session_id("zz") is None
    assert db.resolve_session_id("") is None
    with pytest.raises(AmbiguousIdError) as caught:
        db.resolve_session_id("ab")
    assert {*caught.value.candidates} == {"abc", "abd", "ab%"}


def test_values_are_kept_by_key(db: SessionDB) -> None:
    assert db.get_meta("k") is None
    db.set_meta("k", "1")
    db.set_meta("k", "2")
    assert db.get_meta("k") == "2"


def test_a_system_prompt_is_replaced(db: SessionDB) -> None:
    db.create_session("s", "cli", system_prompt="old")
    db.update_system_prompt("s", "new \ud800")
    assert session(db)["system_prompt"] == "new \ufffd"


# Messages


def test_messages_keep_the_order_in_which_they_were_appended(open_db: OpenDB) -> None:
    ticks = Ticks()
    db = open_db(ticks=ticks)
    db.create_session("s", "cli")
    db.append_message("s", "user", "first")
    ticks.seconds -= 1000  # the clock steps back
    db.append_message("s", "assistant", "second")
    db.append_message("s", "user", "third", timestamp=START)
    assert [row["content"] for row in db.get_messages("s")] == ["first", "second", "third"]
    conversation = db.get_messages_as_conversation("s")
    assert [each["content"] for each in conversation] == ["first", "second", "third"]
    (hit,) = db.search_messages("second")
    assert [each["content"] for each in hit["context"]] == ["first", "second", "third"]


CONTENTS: list[Any] = [
    "text",
    "",
    None,
    [{"type": "text", "text": "日本"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
    {"type": "text", "text": "x"},
    [],
    "\x00json:",
    "\x00json:[broken",
    "with \x00 in it",
    {"huge": 10**30, "nothing": None, "half": 0.5},
]


@pytest.mark.parametrize("content", CONTENTS)
def test_content_comes_back_as_it_was(db: SessionDB, content: Any) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "tool", content)
    assert db.get_messages("s")[0]["content"] == content
    assert db.get_messages_as_conversation("s")[0]["content"] == content


def test_text_that_no_file_can_hold_is_replaced(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "lone \ud800, paired \ud83d\ude00")
    db.append_message("s", "user", ["lone \udc00"])
    assert db.get_messages("s")[0]["content"] == "lone \ufffd, paired \U0001f600"
    assert db.get_messages("s")[1]["content"] == ["lone \ufffd"]


def test_all_fields_of_an_answer_are_replayed(db: SessionDB) -> None:
    db.create_session("s", "cli")
    fields: dict[str, Any] = {
        "finish_reason": "stop",
        "reasoning": "r",
        "reasoning_content": "rc",
        "reasoning_details": [{"a": "é"}],
        "codex_reasoning_items": [{"b": 1}],
        "codex_message_items": [{"c": None}],
    }
    db.append_message("s", "assistant", "  padded \n", **fields)
    db.append_message("s", "user", "  padded \n", **fields)
    db.append_message("s", "tool", "  kept \n", tool_call_id="c", tool_name="t")
    assert db.get_messages_as_conversation("s") == [
        {"role": "assistant", "content": "padded", **fields},
        {"role": "user", "content": "padded"},
        {"role": "tool", "content": "  kept \n", "tool_call_id": "c", "tool_name": "t"},
    ]
    assert db.get_messages("s")[0]["reasoning_details"] == '[{"a": "é"}]'


COUNTED: list[tuple[Any, int]] = [
    (None, 0),
    ([], 0),
    (TOOL_CALLS, 1),
    (TOOL_CALLS * 2, 2),
    ({"id": 1}, 1),
    ("t", 1),
]


@pytest.mark.parametrize(("tool_calls", "count"), COUNTED)
def test_tool_calls_are_counted(db: SessionDB, tool_calls: Any, count: int) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "assistant", tool_calls=tool_calls)
    assert (session(db)["message_count"], session(db)["tool_call_count"]) == (1, count)
    assert db.get_messages("s")[0]["tool_calls"] == (tool_calls or None)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": ""}, "role"),
        ({"content": "no role"}, "role"),
        ({"role": "user", "content": [object()]}, "content"),
        ({"role": "user", "tool_calls": object()}, "tool_calls"),
        ({"role": "user", "timestamp": "now"}, "timestamp"),
        ({"role": "user", "timestamp": float("nan")}, "timestamp"),
        ({"role": "user", "timestamp": 10**400}, "timestamp"),
        ({"role": "user", "token_count": 1.5}, "token_count"),
        ({"role": "user", "token_count": 2**63}, "token_count"),
    ],
)
def test_a_message_that_cannot_be_stored_is_refused_with_its_field(
    db: SessionDB, message: dict[str, Any], field: str
) -> None:
    db.create_session("s", "cli")
    with pytest.raises(ValidationError) as caught:
        db.append_messages("s", [{"role": "user", "content": "good"}, message])
    assert caught.value.fields == (field,)
    assert (db.message_count(), session(db)["message_count"]) == (0, 0)


def test_a_message_needs_its_session(db: SessionDB) -> None:
    with pytest.raises(SessionNotFoundError):
        db.append_message("missing", "user", "text")
    with pytest.raises(SessionNotFoundError):
        db.replace_messages("missing", [])


def test_messages_are_read_in_pages(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": str(each)} for each in range(10)])
    page = db.get_messages("s", limit=3, offset=4)
    assert [row["content"] for row in page] == ["4", "5", "6"]
    assert len(db.get_messages("s", offset=8)) == 2


def test_messages_stored_together_have_different_times(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user"}] * 3)
    times = [row["timestamp"] for row in db.get_messages("s")]
    assert len({*times}) == 3
    assert times == sorted(times)


def test_messages_are_replaced_at_once(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "old", tool_calls=TOOL_CALLS)
    db.replace_messages("s", [{"role": "user", "content": "new", "timestamp": 7.0}])
    assert [(row["content"], row["timestamp"]) for row in db.get_messages("s")] == [("new", 7.0)]
    assert (session(db)["message_count"], session(db)["tool_call_count"]) == (1, 0)
    assert db.search_messages("old") == []


def test_a_rewind_hides_messages_until_they_are_restored(db: SessionDB) -> None:
    db.create_session("s", "cli")
    for content in ("first", "answer", "second", "reply"):
        db.append_message("s", "user" if content[-1] in "td" else "assistant", content)
    db.append_message("s", "assistant", "tools", tool_calls=TOOL_CALLS)
    report = db.rewind_to_message("s", 3)
    assert (report["rewound_count"], report["new_head_id"]) == (3, 2)
    assert report["target_message"]["content"] == "second"
    assert [row["content"] for row in db.get_messages("s")] == ["first", "answer"]
    assert len(db.get_messages("s", include_inactive=True)) == 5
    assert db.search_messages("second") == []
    assert len(db.search_messages("second", include_inactive=True)) == 1
    found = session(db)
    assert (found["message_count"], found["tool_call_count"], found["rewind_count"]) == (2, 0, 1)
    assert db.restore_rewound("s", 3) == 3
    assert session(db)["message_count"] == 5
    assert session(db)["tool_call_count"] == 1
    assert len(db.search_messages("second")) == 1


@pytest.mark.parametrize("target", [2, 99])
def test_a_rewind_goes_back_to_a_prompt(db: SessionDB, target: int) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "first")
    db.append_message("s", "assistant", "answer")
    with pytest.raises(ValidationError):
        db.rewind_to_message("s", target)
    assert session(db)["rewind_count"] == 0


def test_compaction_keeps_old_messages_searchable(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "the original prompt")
    db.append_message("s", "assistant", "a long answer", tool_calls=TOOL_CALLS)
    assert db.archive_and_compact("s", [{"role": "user", "content": "summary"}]) == 1
    assert [each["content"] for each in db.get_messages_as_conversation("s")] == ["summary"]
    assert [hit["id"] for hit in db.search_messages("original")] == [1]
    assert (session(db)["message_count"], session(db)["tool_call_count"]) == (1, 0)
    assert db.restore_rewound("s", 1) == 0  # a summary stands for them
    db.replace_messages("s", [{"role": "user", "content": "other"}], active_only=True)
    assert len(db.search_messages("original")) == 1
    assert db.recent_sessions()[0]["preview"] == "the original prompt"


# Titles


def test_a_title_has_one_holder(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.create_session("t", "cli")
    assert db.set_session_title("s", "  Fix \t it ")
    assert db.get_session_title("s") == "Fix it"
    with pytest.raises(TitleInUseError) as caught:
        db.set_session_title("t", "Fix it")
    assert (caught.value.code, caught.value.holder) == ("TITLE_IN_USE", "s")
    assert caught.value.message == "session `s` has the title `Fix it`"
    assert db.set_session_title("s", "Fix it")
    assert db.set_session_title("s", " ")
    assert db.get_session_title("s") is None
    assert db.set_session_title("t", "Fix it")
    assert not db.set_session_title("missing", "x")


@pytest.mark.parametrize(
    ("title", "stored"),
    [
        ("a\u202eb\u2066c\ufeffd\u200de", "abcde"),
        ("a\x85b\xa0c\u3000d", "a b c d"),
        ("x" * 100, "x" * 100),
        ("\x00\x1b[31m", "[31m"),
        ("\u200b \u200b", None),
        (None, None),
    ],
)
def test_a_title_is_cleaned(title: str | None, stored: str | None) -> None:
    assert SessionDB.sanitize_title(title) == stored


def test_a_title_has_at_most_a_hundred_characters(db: SessionDB) -> None:
    db.create_session("s", "cli")
    with pytest.raises(ValidationError, match="101 characters"):
        db.set_session_title("s", "x" * 101)


def test_an_automatic_title_does_not_replace_one(db: SessionDB) -> None:
    db.create_session("s", "cli")
    assert db.set_auto_title_if_empty("s", "automatic")
    assert not db.set_auto_title_if_empty("s", "another")
    assert not db.set_auto_title_if_empty("missing", "x")
    assert db.get_session_title("s") == "automatic"


def test_a_title_stands_for_the_session_of_its_lineage_that_started_last(db: SessionDB) -> None:
    for name, title in (("a", "X"), ("b", "X #3"), ("c", "X #2")):
        db.create_session(name, "cli")
        db.set_session_title(name, title)
    assert db.resolve_session_by_title("X") == "c"
    assert db.get_next_title_in_lineage("X") == "X #4"


def test_wildcards_in_titles_are_literal(db: SessionDB) -> None:
    for name, title in (("a", "100%"), ("b", "100% #2"), ("c", "1000 #9"), ("d", "a_b #5")):
        db.create_session(name, "cli")
        db.set_session_title(name, title)
    assert db.resolve_session_by_title("100%") == "b"
    assert db.get_next_title_in_lineage("100%") == "100% #3"
    assert db.resolve_session_by_title("100_") is None
    assert db.get_next_title_in_lineage("aXb") == "aXb"
    assert db.get_next_title_in_lineage("a_b") == "a_b #6"
    assert db.get_next_title_in_lineage("a_b #2") == "a_b #6"


def test_a_title_moves_to_the_continuation_of_its_holder(db: SessionDB) -> None:
    chain(db, "root", "middle", "tip")
    db.set_session_title("root", "Long talk")
    assert db.set_session_title("tip", "Long talk")
    assert db.get_session_title("root") is None
    db.create_session("other", "cli", parent_session_id="tip")  # a delegate: not the same talk
    with pytest.raises(TitleInUseError):
        db.set_session_title("other", "Long talk")


# Lineage


def kinds(db: SessionDB) -> dict[str, str | None]:
    return {row["id"]: row["kind"] for row in db.descendants("root")}


def test_three_kinds_of_children_are_told_apart(db: SessionDB) -> None:
    db.create_session("root", "cli")
    db.create_session("early", "cli", parent_session_id="root")
    db.end_session("root", "compression")
    db.create_session("next", "cli", parent_session_id="root")
    db.create_session("copy", "cli", parent_session_id="root", model_config={"_branched_from": "r"})
    db.create_session("sub", "cli", parent_session_id="root", model_config={"_delegate_from": "r"})
    db.create_session("agent", "subagent", parent_session_id="root")
    db.end_session("next", "branched")
    db.create_session("branch", "cli", parent_session_id="next")
    assert kinds(db) == {
        "root": None,
        "early": "delegate",
        "next": "continuation",
        "copy": "branch",
        "sub": "delegate",
        "agent": "delegate",
        "branch": "branch",
    }
    assert db.get_compression_tip("root") == "next"
    assert db.resolve_resume_session_id("root") == "next"
    assert db.resolve_resume_session_id("branch") == "branch"
    assert db.get_conversation_root("branch") == "root"
    listed = {row["id"]: row.get("_lineage_root_id") for row in db.list_sessions_rich()}
    assert listed == {"next": "root", "copy": None, "branch": None}
    assert db.session_count(exclude_children=True) == 3


def test_a_long_chain_is_followed(db: SessionDB) -> None:
    ids = [f"s{number}" for number in range(50)]
    chain(db, *ids)
    assert [row["id"] for row in db.ancestors("s49")] == ids[::-1]
    assert [row["id"] for row in db.descendants("s0")] == ids
    assert db.get_compression_tip("s0") == "s49"
    assert db.get_compression_lineage("s25") == ids
    assert db.get_conversation_root("s49") == "s0"
    assert len(db.list_sessions_rich()) == 1


def test_a_cycle_ends(db: SessionDB) -> None:
    chain(db, "a", "b", "c")
    with raw(db.db_path) as connection:
        connection.execute("UPDATE sessions SET parent_session_id = 'c' WHERE id = 'a'")
        connection.execute("UPDATE sessions SET end_reason = 'compression', started_at = 9e9")
    assert [row["id"] for row in db.ancestors("a")] == ["a", "c", "b"]
    assert {row["id"] for row in db.descendants("a")} == {"a", "b", "c"}
    assert db.get_compression_tip("a") in {"a", "b", "c"}
    assert db.list_sessions_rich() == []
    assert len(db.list_sessions_rich(include_children=True)) == 3


def test_a_session_that_does_not_exist_has_no_lineage(db: SessionDB) -> None:
    assert db.ancestors("x") == db.descendants("x") == db.get_compression_lineage("x") == []
    assert db.get_compression_tip("x") == db.get_conversation_root("x") == "x"


def test_an_open_continuation_is_preferred_to_a_closed_one(db: SessionDB) -> None:
    chain(db, "root", "open")
    db.create_session("closed", "cli", parent_session_id="root")
    db.end_session("closed", "reaped")
    assert db.get_compression_tip("root") == "open"


def test_a_conversation_includes_its_ancestors_without_a_repeated_prompt(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "question")
    db.end_session("a", "compression")
    db.create_session("b", "cli", parent_session_id="a")
    for role, content in (("user", "question"), ("assistant", "answer"), ("user", "question")):
        db.append_message("b", role, content)
    conversation = db.get_messages_as_conversation("b", include_ancestors=True)
    assert [each["content"] for each in conversation] == ["question", "answer", "question"]
    assert len(db.get_messages_as_conversation("b")) == 3
