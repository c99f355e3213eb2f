"""Properties of a session database that hold for any title, query and content."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from drawn import drawn
from hypothesis import example, given
from hypothesis import strategies as st
from session_databases import raw, ticking_host

from amux import SessionDB, TitleInUseError, ValidationError
from amux.store.session_db import query as queries

BASES = st.sampled_from(["X", "X ", "x", "X #", "100%", "a_b", "日本", "X #2", 'it\'s "q"', "#2"])
NUMBERS = st.just("") | st.integers(0, 30).map(" #{}".format)
TITLES = st.tuples(BASES | st.text(max_size=12), NUMBERS).map("".join)
SYNTAX = st.sampled_from(
    [
        *("AND", "OR", "NOT", "NEAR", "and", "or", '"', '""', "*", "**", "^", "(", ")", "{", "}"),
        *(
            "+",
            "-",
            ":",
            ";",
            "'",
            "--",
            "/*",
            "\\",
            "%",
            "_",
            ".",
            ",",
            "content:",
            "rowid",
            "\x00",
        ),
        *("DROP TABLE messages", "' OR 1=1 --", "NEAR(alpha beta, 5)", "alpha-beta", "a.b_c-d"),
        *("日本", "日本語テスト", "🚀", "alpha", "beta", "e\u0301", "\ud800", "\u202e", "\ufeff"),
    ]
)
QUERIES = st.lists(SYNTAX | st.text(max_size=8), max_size=8).map(" ".join) | st.text(max_size=60)
ENCODABLE = st.text(st.characters(codec="utf-8"), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ENCODABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ENCODABLE, inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
    optional={
        "content": st.none() | ENCODABLE | st.lists(JSON, max_size=3),
        "tool_calls": st.none() | st.lists(JSON, max_size=2),
        "tool_name": ENCODABLE,
        "tool_call_id": ENCODABLE,
        "finish_reason": ENCODABLE,
        "reasoning": ENCODABLE,
        "reasoning_details": st.lists(JSON, max_size=2),
        "codex_message_items": JSON,
        "token_count": st.integers(0, 2**40),
        "timestamp": st.floats(0, 2e9),
    },
)
SESSIONS = st.fixed_dictionaries(
    {"source": st.sampled_from(["cli", "telegram"]), "messages": st.lists(MESSAGES, max_size=4)},
    optional={
        "model": ENCODABLE,
        "cwd": ENCODABLE,
        "model_config": st.dictionaries(st.text(max_size=4), JSON, max_size=2),
        "system_prompt": ENCODABLE,
    },
)


@pytest.fixture(scope="module")
def module_db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionDB]:
    """A database for examples that undo their changes."""
    folder = tmp_path_factory.mktemp("properties")
    with SessionDB(folder / "state.db", host=ticking_host(folder)) as db:
        db.create_session("s", "cli")
        for text in ("alpha beta", "alpha-beta a.b_c-d", "日本語テスト 🚀", '"quoted" it\'s 100%'):
            db.append_message("s", "user", text)
        yield db


@contextmanager
def undone(db: SessionDB) -> Generator[None]:
    """Undo the changes of a block."""
    with suppress(StopIteration), db.transaction():
        yield
        next(iter(()))


# Titles


@drawn(200)
@given(titles=st.lists(TITLES, max_size=8))
def test_the_next_title_of_a_lineage_is_free_and_becomes_its_latest(
    module_db: SessionDB, titles: list[str]
) -> None:
    db = module_db
    with undone(db):
        for number, title in enumerate(titles):
            name = f"t{number}"
            db.create_session(name, "cli")
            stored = SessionDB.sanitize_title(db.get_next_title_in_lineage(title.strip()))
            assert db.get_session_by_title(stored or "") is None
            assert db.set_session_title(name, stored)
            if stored is not None:
                assert db.resolve_session_by_title(stored) == name
                base = re.sub(r" #[0-9]+$", "", stored)
                assert db.resolve_session_by_title(base) == name
                following = db.get_next_title_in_lineage(stored)
                number_of = re.fullmatch(r".* #([0-9]+)", stored, re.DOTALL)
                assert following == f"{base} #{int(number_of[1]) + 1 if number_of else 2}"


@drawn(200)
@given(title=st.text(max_size=120))
@example("a\u2028b\x85c")
def test_a_cleaned_title_stays_as_it_is(title: str) -> None:
    try:
        cleaned = SessionDB.sanitize_title(title)
    except ValidationError:
        cleaned = SessionDB.sanitize_title(title[:100])
    assert SessionDB.sanitize_title(cleaned) == cleaned
    if cleaned is not None:
        assert 0 < len(cleaned) <= 100
        assert cleaned == " ".join(cleaned.split())


@drawn(100)
@given(titles=st.lists(TITLES, min_size=2, max_size=6))
def test_a_title_has_never_two_holders(module_db: SessionDB, titles: list[str]) -> None:
    db = module_db
    with undone(db):
        for number, title in enumerate(titles):
            db.create_session(f"t{number}", "cli")
            with suppress(TitleInUseError):
                db.set_session_title(f"t{number}", title)
        held = [row["title"] for row in db.search_sessions(limit=-1) if row["title"]]
        assert len(held) == len({*held})


# Queries


@drawn(600)
@given(query=QUERIES)
@example('"')
@example("AND OR NOT")
@example("a" * 5000)
@example("'; DROP TABLE sessions; --")
@example('" OR 1=1')
def test_no_query_raises_or_changes_anything(module_db: SessionDB, query: str) -> None:
    db = module_db
    for hit in db.search_messages(query):
        assert hit["session_id"] == "s"
    db.search_messages(query, role_filter=[query], source_filter=[query], exclude_sources=[query])
    assert (db.session_count(), db.message_count()) == (1, 4)


@drawn(300)
@given(query=QUERIES)
def test_a_cleaned_query_stays_as_it_is_and_has_balanced_quotes(query: str) -> None:
    cleaned = queries.sanitize(query)
    assert cleaned.count('"') % 2 == 0
    outside = re.sub(r'"[^"]*"', "", cleaned)
    assert not set("+{}():^\x00") & set(outside)
    assert cleaned == cleaned.strip()
    assert len(cleaned) <= 2048 * 3


@drawn(200)
@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=1, max_size=5))
def test_every_word_of_a_message_finds_it(module_db: SessionDB, words: list[str]) -> None:
    db = module_db
    with undone(db):
        number = db.append_message("s", "user", " ".join(f"w{word}" for word in words))
        for query in (f"w{words[0]}", f'"w{words[-1]}"', " ".join(f"w{word}" for word in words)):
            assert number in {hit["id"] for hit in db.search_messages(query, limit=-1)}


# Content


@drawn(150)
@given(content=JSON, calls=JSON)
def test_any_content_comes_back(module_db: SessionDB, content: Any, calls: Any) -> None:
    db = module_db
    with undone(db):
        number = db.append_message("s", "tool", content, tool_calls=calls)
        (row,) = (row for row in db.get_messages("s") if row["id"] == number)
        if content is None or type(content) in {str, list, dict}:
            assert row["content"] == content
        if calls:
            assert row["tool_calls"] == calls


@drawn(60)
@given(sessions=st.lists(SESSIONS, max_size=4), links=st.lists(st.integers(0, 3), max_size=4))
def test_an_import_of_an_export_is_the_same_database(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[dict[str, Any]], links: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("transfer")
    host = ticking_host(folder)
    with SessionDB(folder / "a.db", host=host) as a, SessionDB(folder / "b.db", host=host) as b:
        for number, session in enumerate(sessions):
            parent = links[number] if number < len(links) and links[number] < number else None
            fields = {key: session[key] for key in session if key != "messages"}
            name = f"s{number}"
            a.create_session(
                name, parent_session_id=None if parent is None else f"s{parent}", **fields
            )
            a.append_messages(name, session["messages"])
            a.set_session_title(name, a.get_next_title_in_lineage("T"))
            prompts = [row["id"] for row in a.get_messages(name) if row["role"] == "user"]
            if number % 2 and prompts:
                a.rewind_to_message(name, prompts[-1])
            if number % 3 == 1:
                a.archive_and_compact(name, [{"role": "user", "content": "summary"}])
        exported = a.export_all(include_inactive=True)
        report = b.import_sessions(json.loads(json.dumps(exported)))
        assert report["errors"] == []
        assert report["detached"] == 0
        assert _comparable(b) == _comparable(a)


def _comparable(db: SessionDB) -> dict[str, Any]:
    """All rows but the ids of messages, which an import gives anew."""
    with raw(db.db_path) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(messages)")][1:]
        columns = ", ".join(names)
        return {
            "sessions": connection.execute("SELECT * FROM sessions ORDER BY id").fetchall(),
            "messages": connection.execute(
                f"SELECT {columns} FROM messages ORDER BY session_id, id"
            ).fetchall(),
        }
