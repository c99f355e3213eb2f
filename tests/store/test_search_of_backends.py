"""All backends find the same messages, parts of words included."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from psycopg import sql

from amux.rollout.log import SearchQuery, ThreadLog
from amux.store.file_log.log import FileLog
from amux.store.memory import MemoryLog
from amux.store.postgres.connection import split_schema
from amux.store.postgres.log import PostgresLog
from amux.testing.backend_suite import message, new_meta

LETTERS = "abcAB12_éÉßäñ日本語かがㄱ한Ａﬁ"
SIGNS = " -%'\"\\/.,\n*"
TEXTS = st.lists(st.text(LETTERS + SIGNS, max_size=24), min_size=1, max_size=5)
PARTS = st.text(LETTERS, min_size=1, max_size=4)


@pytest.fixture
def logs(store_url: str, tmp_path: Path) -> Iterator[dict[str, ThreadLog]]:
    with (
        closing(FileLog(tmp_path / "store")) as files,
        closing(PostgresLog(store_url)) as postgres,
    ):
        yield {"memory": MemoryLog(), "files": files, "postgres": postgres}


def found(log: ThreadLog, texts: list[str], query: str) -> set[str]:
    meta = new_meta()
    log.create(meta, [message(text, id=str(number)) for number, text in enumerate(texts)])
    hits = log.search(SearchQuery(text=query, thread_id=meta.thread_id, limit=100))
    return {hit.record_id for hit in hits}


def plain(text: str) -> str:
    """Return a text without case, accents and ligatures, character by character."""
    return "".join(
        char
        for each in text
        for char in unicodedata.normalize(
            "NFC",
            "".join(c for c in unicodedata.normalize("NFKD", each.casefold())
                    if not unicodedata.category(c).startswith("M")),
        )
    )  # fmt: skip


def words(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores of a text."""
    marked = "".join(char if char.isalnum() or char == "_" else " " for char in plain(text))
    return marked.split()


@drawn(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, PARTS)
def test_a_part_of_a_word_is_found_by_all_backends(
    logs: dict[str, ThreadLog], texts: list[str], part: str
) -> None:
    unspaced = any(char >= "぀" for char in plain(part))
    wanted = {
        str(number)
        for number, text in enumerate(texts)
        if (plain(part) in plain(text) if unspaced else any(plain(part) in w for w in words(text)))
    }
    for name, log in logs.items():
        assert found(log, texts, f"*{part}*") == wanted, name


@drawn(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    TEXTS,
    st.lists(
        st.tuples(st.sampled_from(["", "NOT ", "OR "]), st.sampled_from(["*", ""]), PARTS),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["*", ""]),
)
def test_any_query_with_a_part_is_answered_alike(
    logs: dict[str, ThreadLog], texts: list[str], terms: list[tuple[str, str, str]], end: str
) -> None:
    query = " ".join("".join(term) for term in terms) + f"{end} *{terms[0][2]}"
    answers = {name: found(log, texts, query) for name, log in logs.items()}
    assert answers["files"] == answers["memory"], query
    assert answers["postgres"] == answers["memory"], query


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("*arse*", {"0", "1"}),
        ("*ARSE*", {"0", "1"}),
        ("*arser", {"0"}),
        ("*ed pars*", {"0", "1"}),
        ('"*ked parse*"', {"1"}),
        ("*a*", {"0", "1", "2"}),
        ("*ro*", {"2"}),
        ("*rosse*", {"2"}),
        ("*rosse* OR *xed*", {"0", "2"}),
        ("*arse* NOT *cked*", {"0"}),
        ("*_id*", {"3"}),
        ("*%*", set[str]()),
        ("*'*", set[str]()),
        ("**", set[str]()),
        ("*nothing*", set[str]()),
    ],
)
def test_stars_stand_for_the_rest_of_a_word(
    logs: dict[str, ThreadLog], query: str, wanted: set[str]
) -> None:
    texts = ["fixed the parser", "Cracked parsers", "große Häuser", "user_id: 100%"]
    for name, log in logs.items():
        assert found(log, texts, query) == wanted, name


@pytest.mark.parametrize("query", ["Straße", "STRASSE*", "ﬁx", "größe", "мир", "Σοφός", "ếch", "é"])
def test_a_word_is_found_as_it_is_written(logs: dict[str, ThreadLog], query: str) -> None:
    texts = [query.strip("*"), query.strip("*").upper(), query.strip("*").lower(), "else"]
    for name, log in logs.items():
        assert found(log, texts, query) == {"0", "1", "2"}, name


@pytest.mark.parametrize("query", ["_", "_*", "__*", "a _*", '"a _"', "_ OR a", "b NOT _"])
def test_underscores_are_letters_of_a_word(logs: dict[str, ThreadLog], query: str) -> None:
    texts = ["_", "__", "a _b", "a _", "b", "a-b"]
    answers = {name: found(log, texts, query) for name, log in logs.items()}
    assert answers["files"] == answers["memory"] != set()
    assert answers["postgres"] == answers["memory"]


def test_the_input_of_a_tool_is_searched_for_parts(logs: dict[str, ThreadLog]) -> None:
    calls: list[dict[str, Any]] = [
        {"id": "1", "name": "read_file", "arguments": {"path": "/src/größe\npretty.py", "n": 1}}
    ]
    for name, log in logs.items():
        meta = new_meta()
        log.create(meta, [message("I look", "assistant", tool_calls=calls), message("nothing")])
        for query in ("*retty*", "*ross*", "*ad_fil*", "*OOK"):
            hits = log.search(SearchQuery(text=query, thread_id=meta.thread_id))
            assert [hit.role for hit in hits] == ["assistant"], (name, query)


def test_a_text_with_too_many_parts_is_found(logs: dict[str, ThreadLog]) -> None:
    text = " ".join(
        f"{number:x}".translate(str.maketrans("0123", "ghij")) for number in range(10**5)
    )
    for name, log in logs.items():
        assert found(log, [text, "none"], "*ge9a*") == {"0"}, name


def test_a_search_uses_the_index_as_soon_as_many_texts_are_indexed(store_url: str) -> None:
    texts = [" ".join(f"word{number * 37 + each}" for each in range(30)) for number in range(1500)]
    with closing(PostgresLog(store_url)) as log:
        log.create(new_meta(), [message(text) for text in texts])
        assert len(log.search(SearchQuery(text="*ord777", limit=100))) == 1
    url, schema = split_schema(store_url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        for column, given in (("parts @>", ["ord", "777"]), ("words @@", "'word777'")):
            query = f"EXPLAIN SELECT body FROM texts WHERE {column} %s".encode()
            plan = "\n".join(row[0] for row in connection.execute(query, (given,)))
            assert "Bitmap Index Scan on texts_" in plan, plan


def test_texts_of_the_second_version_are_indexed_again(store_url: str) -> None:
    with closing(PostgresLog(store_url)) as log:
        meta = new_meta()
        log.create(meta, [message("the parser"), message("日本語")])
        assert len(log.search(SearchQuery(text="parser"))) == 1
    url, schema = split_schema(store_url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        connection.execute("ALTER TABLE texts DROP COLUMN parts, ADD COLUMN pairs text[]")
        connection.execute("CREATE INDEX texts_pairs ON texts USING gin (pairs)")
        connection.execute("UPDATE schema_version SET version = 2")
    with closing(PostgresLog(store_url)) as log:
        for query in ("parser", "*arse*", "日本"):
            assert len(log.search(SearchQuery(text=query))) == 1, query


@drawn(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("abA1éÉñ_ -%'.\n", max_size=16), min_size=1, max_size=5),
    st.lists(
        st.tuples(
            st.sampled_from(["", "NOT ", "OR "]), st.text("abA1éñß_-", min_size=1, max_size=3)
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["*", ""]),
)
def test_words_and_their_beginnings_are_found_alike(
    logs: dict[str, ThreadLog], texts: list[str], terms: list[tuple[str, str]], end: str
) -> None:
    query = " ".join("".join(term) for term in terms) + end
    answers = {name: found(log, texts, query) for name, log in logs.items()}
    assert answers["files"] == answers["memory"], query
    assert answers["postgres"] == answers["memory"], query


HOSTILE = (
    "*a." * 600, "*a* OR " * 300, "*a* " * 500, "a OR " * 400, "*abc* OR " * 220, "abc* " * 400,
    "日 OR " * 400, "日本 " * 600, '"*' * 900, "*" * 2000, "NOT " * 500, '*"a" OR' * 300,
    "abc NOT " * 250, "x'--;DROP TABLE messages", "%s %(a)s {0} $1 ?", "\0*abc*\0", "\ud800*abc",
)  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_is_answered_alike(logs: dict[str, ThreadLog], query: str) -> None:
    texts = ["a", "abc 日本", "x drop table messages", "a\0b c", "1 0 s", "日"]
    answers = {name: found(log, texts, query) for name, log in logs.items()}
    assert answers["files"] == answers["memory"]
    assert answers["postgres"] == answers["memory"]
