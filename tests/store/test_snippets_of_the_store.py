"""Snippets mark what a search found, whatever letters it consists of."""

from __future__ import annotations

import pytest

from amux import SessionStore


@pytest.mark.parametrize(
    ("text", "query", "snippet"),
    [
        ("Grüße aus Köln", "grüße", ">>>Grüße<<< aus Köln"),
        ("Grüße aus Köln", "koln", "Grüße aus >>>Köln<<<"),
        ("STRASSE", "straße", ">>>STRASSE<<<"),
        ("ein Café, zwei cafés", "cafe*", "ein >>>Café<<<, zwei >>>café<<<s"),
        ("りんごを食べる", "りんご", ">>>りんご<<<を食べる"),
        ("a b a", "a", ">>>a<<< b >>>a<<<"),
    ],
)
def test_a_snippet_marks_the_letters_of_the_text(text: str, query: str, snippet: str) -> None:
    with SessionStore("memory:") as store:
        store.start(cwd="/").message("user", text)
        [hit] = store.search(query)
        assert hit.snippet == snippet


def test_a_long_text_is_cut_around_the_first_match() -> None:
    with SessionStore("memory:") as store:
        store.start(cwd="/").message("user", "ä " * 500 + "needle" + " ö" * 500)
        [hit] = store.search("needle")
        assert hit.snippet.startswith("...")
        assert hit.snippet.endswith("...")
        assert ">>>needle<<<" in hit.snippet
        assert len(hit.snippet) < 180
