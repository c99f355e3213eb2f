"""Hermes: search with the database's own full-text index."""

from __future__ import annotations

from pathlib import Path

import pytest
from hermes_stores import Store, tool_call

from amux.adapters.hermes import ADAPTER
from amux.adapters.hermes.search import search_store
from amux.testing import fingerprint


def found(store: Store, *terms: str, limit: int = 10) -> list[str]:
    return [id for id, _ in ADAPTER.native_search(store.path.parent, terms, limit=limit)]


def talking(folder: Path, *, version: int = 22) -> Store:
    store = Store(folder, version=version)
    store.session("deploy")
    store.talk("deploy", "How do I deploy docker?", "Run docker compose up; docker does the rest.")
    store.session("readme")
    store.talk(
        "readme", "日本語のREADMEを書いて", "docker is not needed here, only words and more words"
    )
    return store


@pytest.mark.parametrize("version", [1, 11, 22])
def test_the_better_match_comes_first_in_every_schema(version: int, tmp_path: Path) -> None:
    store = talking(tmp_path, version=version)
    hits = list(ADAPTER.native_search(tmp_path, ["docker"], limit=10))
    assert [id for id, _ in hits] == ["deploy", "readme"]
    assert hits[0][1] > hits[1][1] > 0
    assert found(store, "docker", "compose") == ["deploy"]
    assert found(store, "docker", "absent") == []


def test_one_match_statement_answers_and_no_content_is_read(tmp_path: Path) -> None:
    store = talking(tmp_path)
    statements: list[str] = []
    with store.connect() as connection:
        connection.set_trace_callback(statements.append)
        assert search_store(connection, ["docker"], limit=5)
    matching = [one for one in statements if "MATCH" in one and not one.startswith("--")]
    assert len(matching) == 1
    assert "bm25" in matching[0]
    outside = [one for one in statements if not one.startswith("--")]  # `--`: FTS5's own reading
    assert not any("content" in one and "MATCH" not in one for one in outside)


def test_a_limit_keeps_the_best(tmp_path: Path) -> None:
    assert found(talking(tmp_path), "docker", limit=1) == ["deploy"]


def test_words_of_scripts_without_spaces_are_found_at_any_length(tmp_path: Path) -> None:
    store = talking(tmp_path)
    assert found(store, "日本語") == ["readme"]
    assert found(store, "日本") == ["readme"]
    assert found(store, "中国") == []


def test_parts_of_words_are_found_and_whole_words_rank_higher(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("part")
    store.talk("part", "dockerfiles everywhere")
    store.session("whole")
    store.talk("whole", "one docker somewhere")
    assert found(store, "docker") == ["whole", "part"]
    assert found(store, "ockerfi") == ["part"]


@pytest.mark.parametrize(
    "text", ['"', "a AND", "NEAR(", "col:x", "100%", "*", "-x", "(", "'; DROP TABLE messages", "_"]
)
def test_no_text_is_a_wrong_query(text: str, tmp_path: Path) -> None:
    store = talking(tmp_path)
    found(store, text)
    assert found(store, "docker") == ["deploy", "readme"]


def test_an_empty_search_finds_nothing(tmp_path: Path) -> None:
    store = talking(tmp_path)
    assert found(store) == []
    assert found(store, "", "  ", "\0") == []


def test_what_tools_were_called_with_is_found_and_what_was_undone_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("s")
    store.say("s", "assistant", "", tool_calls=tool_call("c", "terminal", command="kubectl apply"))
    store.say("s", "user", "a secret mistake", active=0)
    store.say("s", "user", "an old remark", active=0, compacted=1)
    assert found(store, "kubectl") == ["s"]
    assert found(store, "mistake") == []
    assert found(store, "remark") == ["s"]


def test_an_index_of_sessions_answers_where_there_is_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.session("other")
    store.session("550e8400-e29b-41d4-a716-446655440000")
    store.run("CREATE VIRTUAL TABLE sessions_fts USING fts5(content)")
    store.run("INSERT INTO sessions_fts(rowid, content) VALUES (2, 'a whole conversation')")
    assert found(store, "conversation") == ["550e8400-e29b-41d4-a716-446655440000"]


def test_notes_of_the_agent_are_found_but_are_no_sessions(tmp_path: Path) -> None:
    store = talking(tmp_path)
    store.run("CREATE TABLE memories (id INTEGER PRIMARY KEY, content TEXT, session_id TEXT)")
    store.run("INSERT INTO memories VALUES (7, 'prefers tabs', NULL), (8, 'uses zsh', 'readme')")
    store.run("CREATE VIRTUAL TABLE memories_fts USING fts5(content)")
    store.run("INSERT INTO memories_fts(rowid, content) SELECT id, content FROM memories")
    assert found(store, "tabs") == ["memory:7"]
    assert found(store, "zsh") == ["readme"]
    assert set(store.facts()) == {"deploy", "readme"}


def test_the_user_model_is_never_looked_at(tmp_path: Path) -> None:
    store = talking(tmp_path)
    store.run("CREATE TABLE honcho_facts (id INTEGER PRIMARY KEY, content TEXT)")
    store.run("INSERT INTO honcho_facts VALUES (1, 'is afraid of spiders')")
    store.run("CREATE VIRTUAL TABLE honcho_facts_fts USING fts5(content)")
    store.run("INSERT INTO honcho_facts_fts(rowid, content) VALUES (1, 'is afraid of spiders')")
    assert found(store, "spiders") == []
    statements: list[str] = []
    with store.connect() as connection:
        connection.set_trace_callback(statements.append)
        search_store(connection, ["spiders"], limit=5)
    assert not any("honcho" in statement for statement in statements)
    assert "spiders" not in str(store.read().items)


def test_without_fts5_it_is_like_with_a_warning(tmp_path: Path) -> None:
    store = talking(tmp_path)
    for name in ("messages_fts", "messages_fts_trigram"):  # what such a SQLite makes of them
        store.run("DROP TRIGGER " + name + "_insert")
    with store.connect() as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'fts5(', 'fts_gone(')"
            " WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        )
    with pytest.warns(RuntimeWarning, match="no such module"):
        assert found(store, "docker") == ["deploy", "readme"]
    with pytest.warns(RuntimeWarning, match="no such module"):
        assert found(store, "100%") == []


def test_a_damaged_index_is_skipped_with_a_warning(tmp_path: Path) -> None:
    store = talking(tmp_path)
    store.run("DELETE FROM messages_fts_data")
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        assert found(store, "docker") == ["deploy", "readme"]


def test_every_profile_is_searched_and_a_broken_store_stops_nothing(tmp_path: Path) -> None:
    talking(tmp_path)
    other = Store(tmp_path / "profiles" / "work")
    other.session("at-work")
    other.talk("at-work", "docker at work")
    broken = tmp_path / "profiles" / "broken"
    broken.mkdir()
    (broken / "state.db").write_bytes(b"no database" * 100)
    hits = {id for id, _ in ADAPTER.native_search(tmp_path, ["docker"], limit=10)}
    assert hits == {"deploy", "readme", "at-work"}


def test_searching_leaves_no_trace(tmp_path: Path) -> None:
    store = talking(tmp_path)
    before = fingerprint(tmp_path)
    found(store, "docker")
    assert fingerprint(tmp_path) == before
