"""Hermes: search finds what a naive matcher finds, even if the agent's own index misses it."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from drawn import drawn
from hermes_stores import Store, tool_call
from hypothesis import given
from hypothesis import strategies as st

from amux import create_client
from amux.adapters.hermes.search import FOLDED
from amux.model.words import fold

ODD = "Résumé … Café ÜBERGRÖSSE straße \uff21\uff22\uff23"


def naive(text: str) -> str:
    """Lower case, no accents, wide letters as narrow ones: by the book, a character at a time."""
    plain = unicodedata.normalize("NFKD", text)
    return "".join(c for c in plain if not "\u0300" <= c <= "\u036f").casefold()


def found(home: Path, query: str, *, cache: Path | None = None) -> set[str]:
    env = {} if cache is None else {"AMUX_CACHE_DIR": str(cache)}
    with create_client(home=home, env=env) as client:
        return {hit.session_id for hit in client.sessions.search(query, limit=None)}


def say(store: Store, session: str, kind: str, text: str) -> None:
    """A text in one of the places where the agent keeps some."""
    cells: dict[str, Any] = {}
    match kind:
        case "parts":
            store.say(session, "user", "\0json:" + json.dumps([{"type": "text", "text": text}]))
            return
        case "result":
            store.say(session, "tool", json.dumps({"output": text}))
            return
        case "call":
            cells["tool_calls"] = tool_call("c", "terminal", command=text)
        case "reasoning" | "reasoning_content":
            cells[kind] = text
        case "reasoning_details":
            cells[kind] = json.dumps([{"type": "summary", "text": text}])
        case _:
            store.say(session, kind, text)
            return
    store.say(session, "assistant", "", **cells)


PLACES = (
    *("user", "assistant", "tool", "parts", "result", "call"),
    *("reasoning", "reasoning_content", "reasoning_details"),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home/.hermes")


@pytest.mark.parametrize("place", PLACES)
def test_folded_words_are_found_wherever_they_stand(
    store: Store, place: str, tmp_path: Path
) -> None:
    store.session("odd", title="a title")
    say(store, "odd", place, ODD)
    store.session("plain", title="another")
    say(store, "plain", place, "nothing of the kind")
    home = tmp_path / "home"
    for word in ("straße", "strasse", "abc", "afe", "bergros", "ésumé", "RESUME"):
        for cache in (None, tmp_path / "cache"):
            assert found(home, word, cache=cache) == {"odd"}, (word, cache)


def test_thinking_is_found_beside_what_the_index_has(store: Store, tmp_path: Path) -> None:
    store.session("both", title="a title")
    store.say("both", "assistant", "the answer", reasoning="because of entropy")
    store.session("indexed", title="another")
    store.talk("indexed", "what is entropy, and what is the answer?")
    home = tmp_path / "home"
    for cache in (None, tmp_path / "cache"):
        assert found(home, "entropy answer", cache=cache) == {"both", "indexed"}
        assert found(home, "role:thinking entropy", cache=cache) == {"both"}


def test_what_stands_in_no_index_yet_is_found(store: Store, tmp_path: Path) -> None:
    store.session("late", title="a title")
    store.run("DROP TRIGGER messages_fts_trigram_insert")
    store.run("DROP TRIGGER messages_fts_insert")
    store.talk("late", "written while the triggers were gone")
    assert found(tmp_path / "home", "trigger") == {"late"}


@pytest.mark.slow
def test_every_character_that_folds_to_ascii_is_known() -> None:
    known = re.compile(f"[{FOLDED}]")
    unknown = [
        hex(code)
        for code in range(0x80, 0x110000)
        if not 0xD800 <= code < 0xE000
        and (re.search("[a-z0-9_]", fold(chr(code))) or not fold(chr(code)))
        and not known.match(chr(code))
    ]
    assert unknown == []


LETTERS = st.sampled_from(
    [*"abcdeABCDE12_ .-\"\\/\n", "é", "É", "ß", "ﬁ", "\uff21", "\u0131", "İ", "\u017f", "\u212a",
     "ª", "日", "本", "語", "—", "…", "й", "가", "\u0301", "\U0001d400", "\0"]
)  # fmt: skip
TEXTS = st.text(LETTERS, max_size=14) | st.lists(
    st.sampled_from(["Café", "deadline", "abcde", "日本語", "cab", "ABBÉ", "\\u0041bc"]), max_size=3
).map(" ".join)
SAID = st.tuples(st.sampled_from(PLACES), TEXTS.map(lambda text: text.removeprefix("\0")))


@drawn(120)
@given(
    sessions=st.lists(st.lists(SAID, max_size=3), min_size=1, max_size=4),
    data=st.data(),
)
def test_what_a_naive_matcher_finds_is_found(
    sessions: list[list[tuple[str, str]]], data: st.DataObject
) -> None:
    texts = [text for said in sessions for _, text in said]
    words = [word for text in texts for word in re.findall(r"\w+", text)] or ["abc"]
    word = data.draw(st.sampled_from(words))
    start = data.draw(st.integers(0, len(word) - 1))
    word = word[start : data.draw(st.integers(start + 1, len(word)))]
    wanted = naive(word)
    with TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        store = Store(home / ".hermes")
        for number, said in enumerate(sessions):
            store.session(f"s{number}", title="-")
            for place, text in said:
                say(store, f"s{number}", place, text)
        expected = {
            f"s{number}"
            for number, said in enumerate(sessions)
            if any(wanted in naive(text) for _, text in said)
        }
        if wanted:
            hits = found(home, word)
            assert hits >= expected
            assert hits == found(home, word, cache=Path(folder) / "cache")
            assert hits == found(home, f"/(?s)./ {word}"), "no index answers this"
