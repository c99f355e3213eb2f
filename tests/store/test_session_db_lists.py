"""Lists, statistics, searches, exports and removals of a session database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from session_databases import DAY_S, OpenDB, Ticks, raw

from amux import SessionDB, ValidationError
from amux.store.session_db import transfer

TOOL_CALLS: list[dict[str, Any]] = [{"id": "c"}]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


# Lists


@pytest.fixture
def talks(db: SessionDB) -> SessionDB:
    """Sessions of several sources; the first is the one that was used last."""
    db.create_session("a", "cli", cwd="/work/app")
    db.create_session("b", "telegram", cwd="/work/app/sub")
    db.create_session("c", "cli", cwd="/work/apples")
    db.append_message("b", "user", "line one\nline two " + "x" * 60)
    db.append_message("c", "assistant", "no prompt")
    db.append_message("a", "user", [{"type": "text", "text": "of parts"}, {"type": "image"}])
    return db


def test_a_list_has_the_latest_start_or_activity_first(talks: SessionDB) -> None:
    assert ids(talks.list_sessions_rich()) == ["c", "b", "a"]
    assert ids(talks.list_sessions_rich(order_by_last_active=True)) == ["a", "c", "b"]
    assert ids(talks.search_sessions()) == ["a", "c", "b"]
    assert ids(talks.search_sessions("cli", limit=1, offset=1)) == ["c"]
    assert ids(talks.list_sessions_rich(limit=1, offset=1)) == ["b"]


def test_a_list_is_filtered(talks: SessionDB) -> None:
    assert ids(talks.list_sessions_rich("cli")) == ["c", "a"]
    assert ids(talks.list_sessions_rich(exclude_sources=["cli", "tool"])) == ["b"]
    assert ids(talks.list_sessions_rich(exclude_sources=[])) == ["c", "b", "a"]
    assert ids(talks.list_sessions_rich(cwd_prefix="/work/app")) == ["b", "a"]
    assert ids(talks.list_sessions_rich(cwd_prefix="/work/app/")) == ["b", "a"]
    assert talks.session_count(cwd_prefix="/") == 3
    talks.clear_messages("b")
    assert ids(talks.list_sessions_rich(min_message_count=1)) == ["c", "a"]
    assert talks.session_count(min_message_count=1) == 2


def test_previews_are_the_first_prompt(talks: SessionDB) -> None:
    previews = {row["id"]: row["preview"] for row in talks.list_sessions_rich()}
    assert previews == {
        "a": "of parts",
        "b": "line one line two " + "x" * 42 + "...",
        "c": "",
    }
    recent = {row["id"]: row["preview"] for row in talks.recent_sessions()}
    assert recent["b"] == "line one\nline two " + "x" * 45
    assert ids(talks.recent_sessions(2)) == ["c", "b"]


def test_the_recent_sessions_take_one_statement(talks: SessionDB, statements: list[str]) -> None:
    with SessionDB(talks.db_path) as db:
        statements.clear()
        db.recent_sessions()
        assert [each[:6] for each in statements] == ["BEGIN", "SELECT", "ROLLBA"]


def test_a_chain_is_listed_once_by_its_tip(db: SessionDB) -> None:
    db.create_session("root", "cli", model="m1")
    db.set_session_title("root", "T")
    db.append_message("root", "user", "old")
    db.end_session("root", "compression")
    db.create_session("tip", "cli", parent_session_id="root", model="m2")
    db.set_session_title("tip", "T #2")
    db.create_session("other", "cli")
    db.append_message("other", "user", "in between")
    db.append_message("tip", "user", "new")
    other, talk = db.list_sessions_rich()
    assert (other["id"], talk["id"], talk["_lineage_root_id"]) == ("other", "tip", "root")
    assert (talk["title"], talk["model"], talk["preview"]) == ("T #2", "m2", "new")
    root = db.get_session("root")
    assert root is not None
    assert (talk["started_at"], talk["parent_session_id"]) == (root["started_at"], None)
    assert ids(db.list_sessions_rich(order_by_last_active=True)) == ["tip", "other"]
    assert ids(db.list_sessions_rich(project_compression_tips=False)) == ["other", "root"]
    assert ids(db.list_sessions_rich(include_children=True)) == ["other", "tip", "root"]


def test_archived_sessions_are_hidden_with_their_chain(db: SessionDB) -> None:
    db.create_session("root", "cli")
    db.end_session("root", "compression")
    db.create_session("tip", "cli", parent_session_id="root")
    db.create_session("other", "cli")
    assert db.set_session_archived("tip", True)
    assert ids(db.list_sessions_rich()) == ["other"]
    assert ids(db.list_sessions_rich(archived_only=True)) == ["tip"]
    assert ids(db.list_sessions_rich(include_archived=True)) == ["other", "tip"]
    assert db.session_count() == 1
    assert db.session_count(include_archived=True) == 3
    assert db.session_count(archived_only=True) == 2
    assert db.set_session_archived("root", False)
    assert db.session_count() == 3
    assert not db.set_session_archived("missing", True)


def test_ten_thousand_sessions_are_listed_from_one_page_of_rows(
    db: SessionDB, statements: list[str]
) -> None:
    with db.transaction():
        for number in range(300):
            db.create_session(f"s{number}", "cli")
    with SessionDB(db.db_path) as reader:
        statements.clear()
        assert len(reader.list_sessions_rich()) == 20
        (query,) = (each for each in statements if each.startswith("SELECT"))
    with raw(db.db_path) as connection:
        connection.create_function("child_kind", 5, lambda *_: "")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert plan[0].startswith("SCAN s USING INDEX idx_sessions_started")


# Statistics


def test_an_unknown_cost_is_not_zero(db: SessionDB) -> None:
    for name, model, cost, status in (
        ("a", "m", 0.5, "estimated"),
        ("b", "m", None, "unknown"),
        ("c", "n", None, None),
        ("d", "free", 0.0, "included"),
    ):
        db.create_session(name, "cli", model=model)
        db.update_token_counts(
            name, input_tokens=3, output_tokens=1, estimated_cost_usd=cost, cost_status=status
        )
    db.create_session("e", "cli")
    usage = {row["model"]: row for row in db.usage_by_model()}
    assert usage["m"] == {
        "model": "m",
        "session_count": 2,
        "total_input": 6,
        "total_output": 2,
        "total_cost": 0.5,
        "sessions_without_cost": 1,
    }
    assert (usage["n"]["total_cost"], usage["n"]["sessions_without_cost"]) == (None, 1)
    assert (usage["free"]["total_cost"], usage["free"]["sessions_without_cost"]) == (0.0, 0)
    costs = {row["id"]: row["estimated_cost_usd"] for row in db.top_sessions()}
    assert costs == {"a": 0.5, "b": None, "c": None, "d": 0.0, "e": None}
    assert ids(db.top_sessions(1)) == ["d"]


# Search


def test_the_search_index_follows_every_change(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "alpha 日本語テスト")
    assert len(db.search_messages("alpha")) == len(db.search_messages("日本語テ")) == 1
    with raw(db.db_path) as connection:
        connection.execute("UPDATE messages SET content = 'beta 中文搜索', tool_name = 'grep_it'")
    assert db.search_messages("alpha") == db.search_messages("日本語テ") == []
    for query in ("beta", "grep_it", "中文搜索"):
        assert len(db.search_messages(query)) == 1
    with raw(db.db_path) as connection:
        connection.execute("DELETE FROM messages")
    for query in ("beta", "grep_it", "中文搜索", "中文"):
        assert db.search_messages(query) == []


def test_a_search_looks_into_tool_calls_and_structured_content(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "assistant", tool_calls=[{"name": "terminal", "arguments": "搜索文件"}])
    db.append_message("s", "user", [{"type": "text", "text": "Grüße, 東京タワー"}])
    for query in ("terminal", "搜索文件", "搜索"):
        assert [hit["id"] for hit in db.search_messages(query)] == [1]
    for query in ("Grüße", "grüße", "東京タワー", "東京"):
        assert [hit["id"] for hit in db.search_messages(query)] == [2]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ('"日本語 テスト"', [1]),
        ("日本語 AND alpha", [1]),
        ("日本語 NOT alpha", [2]),
        ("日本語*", [1, 2]),
        ("日本語 OR needle", [1, 2, 3]),
        ('日本 "chat-send"', [1, 2, 3]),
        ('"漢" OR', []),
        ('""', []),
        ("日本語 (", [1, 2]),
    ],
)
def test_scripts_without_spaces_are_searched_by_parts(
    db: SessionDB, query: str, ids: list[int]
) -> None:
    db.create_session("s", "cli")
    for text in ("alpha 日本語 テスト", "これは日本語です", "needle chat-send"):
        db.append_message("s", "user", text)
    assert sorted(hit["id"] for hit in db.search_messages(query)) == ids


def test_neighbours_are_shortened_and_empty_ones_shown(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "y" * 300)
    db.append_message("s", "user", "needle")
    db.append_message("s", "assistant", None, tool_calls=TOOL_CALLS)
    db.append_message("s", "user", "far away")
    (hit,) = db.search_messages("needle")
    assert hit["context"] == [
        {"role": "user", "content": "y" * 200},
        {"role": "user", "content": "needle"},
        {"role": "assistant", "content": ""},
    ]


def test_hits_are_sorted_and_read_in_pages(db: SessionDB) -> None:
    db.create_session("s", "cli")
    for text in ("word", "word word word", "word " + "x " * 50):
        db.append_message("s", "user", text)
    assert [hit["id"] for hit in db.search_messages("word", sort="newest")] == [3, 2, 1]
    assert [hit["id"] for hit in db.search_messages("word", sort="oldest")] == [1, 2, 3]
    ranked = [hit["id"] for hit in db.search_messages("word")]
    assert ranked[-1] == 3
    pages = [db.search_messages("word", limit=1, offset=each)[0]["id"] for each in range(3)]
    assert pages == ranked
    with pytest.raises(ValidationError, match="`sort` is `random`"):
        db.search_messages("word", sort="random")


def test_a_long_query_is_cut(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "word")
    assert len(db.search_messages("word " * 409)) == 1
    assert len(db.search_messages("word " * 409 + "   missing")) == 1


# Export and import


def test_an_export_is_imported_into_an_empty_database(open_db: OpenDB) -> None:
    source, target = open_db("a.db"), open_db("b.db")
    source.create_session("p", "cli", model="m", model_config={"x": 1}, cwd="/w")
    source.append_message("p", "user", "alpha")
    source.append_message(
        "p", "assistant", ["b"], tool_calls=TOOL_CALLS, reasoning_details=[{"k": "v"}]
    )
    source.update_token_counts("p", input_tokens=7, estimated_cost_usd=0.5, cost_status="estimated")
    source.set_session_title("p", "T")
    source.end_session("p", "branched")
    source.create_session("c", "cli", parent_session_id="p")
    source.append_message("c", "user", "beta")
    source.rewind_to_message("c", 3)
    exported = source.export_all(include_inactive=True)
    report = target.import_sessions(json.loads(json.dumps(exported)))
    assert report == {
        "ok": True,
        "imported": 2,
        "skipped": 0,
        "detached": 0,
        "imported_ids": ids(exported),
        "skipped_ids": [],
        "errors": [],
    }
    assert without_ids(target.export_all(include_inactive=True)) == without_ids(exported)
    assert len(target.search_messages("alpha")) == 1
    again = target.import_sessions(exported)
    assert (again["imported"], again["skipped"]) == (0, 2)
    assert target.message_count() == 3


def without_ids(exported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "messages": [
                {key: value for key, value in message.items() if key != "id"}
                for message in row["messages"]
            ],
        }
        for row in exported
    ]


def test_an_import_detaches_unknown_parents_and_numbers_taken_titles(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.set_session_title("s", "T")
    report = db.import_sessions(
        [
            {"id": "a", "parent_session_id": "missing", "title": "T"},
            {"id": "b", "parent_session_id": "c", "source": "cli"},  # its parent comes later
            {"id": "c", "source": "cli", "messages": []},
        ]
    )
    assert (report["imported"], report["detached"]) == (3, 1)
    imported = db.get_session("a")
    assert imported is not None
    assert (imported["parent_session_id"], imported["title"]) == (None, "T #2")
    assert (imported["source"], imported["message_count"]) == ("unknown", 0)
    child = db.get_session("b")
    assert child is not None
    assert child["parent_session_id"] == "c"


UNUSABLE: list[tuple[Any, str]] = [
    ("text", "a session must be an object"),
    ({}, "a session needs an `id`"),
    ({"id": 5}, "a session needs an `id`"),
    ({"id": "x", "messages": "text"}, "`messages` must be a list of objects"),
    ({"id": "x", "messages": [1]}, "`messages` must be a list of objects"),
    ({"id": "x", "messages": [{}]}, "a message needs a `role`"),
    ({"id": "x", "source": 5}, "`source` has a value of another type"),
    ({"id": "x", "started_at": "now"}, "`started_at` has a value of another type"),
    ({"id": "x", "input_tokens": 2**63}, "`input_tokens` has a value of another type"),
    ({"id": "x", "started_at": float("nan")}, "`started_at` has a value of another type"),
    ({"id": "x", "title": "x" * 101}, "the title has 101 characters, and 100 are allowed"),
]


@pytest.mark.parametrize(("session", "error"), UNUSABLE)
def test_a_session_that_cannot_be_imported_does_not_stop_the_others(
    db: SessionDB, session: Any, error: str
) -> None:
    report = db.import_sessions([{"id": "a"}, session, {"id": "b"}])
    assert report["imported_ids"] == ["a", "b"]
    assert report["errors"] == [{"index": 1, "error": error}]
    assert not report["ok"]
    assert db.get_session("x") is None


def test_an_import_is_bounded(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MOST_SESSIONS", 2)
    monkeypatch.setattr(transfer, "MOST_MESSAGES", 3)
    monkeypatch.setattr(transfer, "MOST_CHARACTERS", 50)
    with pytest.raises(ValidationError, match="at most 2 sessions"):
        db.import_sessions([{"id": each} for each in "abc"])
    assert db.session_count() == 0
    many = {"id": "many", "messages": [{"role": "user"}] * 4}
    large = {"id": "large", "messages": [{"role": "user", "content": "x" * 60}]}
    report = db.import_sessions([many, large])
    assert [each["error"] for each in report["errors"]] == [
        "the session has more than 3 messages",
        "the session has more than 50 characters",
    ]


def test_a_chain_is_exported_as_one(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "one")
    db.end_session("a", "compression")
    db.create_session("b", "cli", parent_session_id="a")
    db.append_message("b", "user", "two")
    exported = db.export_session_lineage("a")
    assert exported is not None
    assert (exported["id"], exported["lineage_session_ids"]) == ("b", ["a", "b"])
    assert [each["content"] for each in exported["messages"]] == ["one", "two"]
    assert [each["id"] for each in exported["segments"]] == ["a", "b"]
    assert db.export_session_lineage("missing") is None
    assert db.export_session("missing") is None


# Removal


def test_a_deleted_session_takes_its_delegates_and_leaves_its_other_children(db: SessionDB) -> None:
    db.create_session("p", "cli")
    db.append_message("p", "user", "ghost")
    db.create_session("d", "subagent", parent_session_id="p", model_config={"_delegate_from": "p"})
    db.create_session("dd", "subagent", parent_session_id="d", model_config={"_delegate_from": "d"})
    db.create_session("b", "cli", parent_session_id="p", model_config={"_branched_from": "p"})
    db.create_session("bd", "cli", parent_session_id="b", model_config={"_delegate_from": "b"})
    assert db.delete_session("p")
    assert not db.delete_session("p")
    assert {row["id"]: row["parent_session_id"] for row in db.search_sessions()} == {
        "b": None,
        "bd": "b",
    }
    assert db.search_messages("ghost") == []
    assert db.message_count() == 0
    assert db.delete_sessions(["b", "missing"]) == 2


def test_a_prune_leaves_live_sessions_and_children(open_db: OpenDB) -> None:
    ticks = Ticks()
    db = open_db(ticks=ticks)
    for name in ("live", "old"):
        db.create_session(name, "cli")
    db.end_session("old", "done")
    ticks.seconds += 100 * DAY_S
    db.create_session("young", "cli", parent_session_id="old")
    db.end_session("young", "done")
    assert ids(db.list_prune_candidates()) == ["old"]
    assert db.prune_sessions(source="telegram") == 0
    assert db.prune_sessions() == 1
    assert {row["id"]: row["parent_session_id"] for row in db.search_sessions()} == {
        "live": None,
        "young": None,
    }
    assert db.prune_sessions(None) == 1
    with pytest.raises(ValidationError, match="negative"):
        db.prune_sessions(-1)


OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["a", "b", "c"]),
    ({"title": "BUILD"}, ["a"]),
    ({"title": "%"}, []),
    ({"model": "son"}, ["a", "b"]),
    ({"cwd": "/w/x"}, ["b"]),
    ({"end_reason": "crash"}, ["c"]),
    ({"min_messages": 1}, ["a"]),
    ({"max_messages": 0}, ["b", "c"]),
    ({"min_tokens": 10}, ["b"]),
    ({"max_tokens": 9}, ["a", "c"]),
    ({"min_cost": 0.5}, ["b"]),
    ({"max_cost": 0.5}, ["b"]),
    ({"archived": True}, ["c"]),
    ({"archived": False}, ["a", "b"]),
    ({"model": "son", "min_tokens": 10}, ["b"]),
]


@pytest.mark.parametrize(("options", "expected"), OPTIONS)
def test_a_prune_can_be_narrowed(
    db: SessionDB, options: dict[str, Any], expected: list[str]
) -> None:
    db.create_session("a", "cli", model="Sonnet", cwd="/w")
    db.append_message("a", "user", "x")
    db.set_session_title("a", "Fix build")
    db.update_token_counts("a", input_tokens=1)
    db.create_session("b", "cli", model="sonnet-4", cwd="/w/x/y")
    db.update_token_counts("b", input_tokens=10, estimated_cost_usd=0.5, cost_status="estimated")
    db.create_session("c", "cli", model="gpt")
    db.set_session_archived("c", True)
    for name, reason in (("a", "done"), ("b", "done"), ("c", "crash")):
        db.end_session(name, reason)
    assert ids(db.list_prune_candidates(0, **options)) == expected
    assert db.prune_sessions(0, **options) == len(expected)
    assert db.session_count(include_archived=True) == 3 - len(expected)


def test_an_unknown_condition_prunes_nothing(db: SessionDB) -> None:
    options: Any = {"titel": "x"}
    with pytest.raises(ValidationError, match="no condition `titel`"):
        db.prune_sessions(0, **options)


def test_empty_sessions_are_swept(db: SessionDB) -> None:
    for name in ("empty", "live", "titled", "used", "parent", "archived"):
        db.create_session(name, "cli")
    db.set_session_title("titled", "T")
    db.append_message("used", "user", "x")
    db.create_session("child", "cli", parent_session_id="parent")
    db.set_session_archived("archived", True)
    for name in ("empty", "titled", "used", "parent", "archived"):
        db.end_session(name, "done")
    assert db.delete_empty_sessions() == 1
    assert db.get_session("empty") is None


def test_an_export_can_be_written_as_lines(talks: SessionDB, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in talks.export_all()))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert ids(lines) == ["a", "c", "b"]
