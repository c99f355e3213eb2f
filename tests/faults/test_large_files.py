"""A log of a gigabyte and a line of 50 MB cost little memory and give exact figures.

Listing, summing and searching take the same small amount of memory whatever the size of a file or
a line. Exporting holds one message at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from large_logs import AGENTS, MB, NEEDLE, PLACES, SCRIPTS, Agent, Giant, Log, Script, write_log
from peak_memory import run_measured, stream_measured

SMALL, LARGE = 64 * MB, 1024 * MB
SMALL_GIANT, LARGE_GIANT = 16 * MB, 50 * MB

LISTING = {SMALL: 80, LARGE: 150}
STREAMING = {SMALL: 90, LARGE: 200}
"""Most megabytes held, by the size of the log; the interpreter itself takes 25."""

GIANT_LISTING, GIANT_SEARCH = 70, 120
"""Most megabytes held, however long a line is."""

HARDEST: Script = "one emoji"
"""One character makes Python take four bytes for each of the text."""

slow = pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((agent, size), id=f"{agent}-{size // MB}MB", marks=[slow] * (size == LARGE))
        for size in (SMALL, LARGE)
        for agent in AGENTS
    ],
)
def large(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Log, int]]:
    """A home with one large log, removed at once: it may be a gigabyte."""
    agent, size = request.param
    home = tmp_path_factory.mktemp("large")
    yield home, write_log(home, agent, size=size), size
    shutil.rmtree(home)


def test_listing_a_large_log_uses_bounded_memory(large: tuple[Path, Log, int]) -> None:
    home, log, size = large
    listed = run_measured(home, "list", "--json")
    (session,) = listed.json()
    assert session["title"] == "goon0"
    assert (session["turnCount"], session["messageCount"]) == (log.turns, log.messages)
    assert session["cost"]["inputTokens"] == log.input_tokens
    assert session["cost"]["outputTokens"] == log.output_tokens
    assert listed.peak < LISTING[size]


def test_summing_a_large_log_uses_bounded_memory(large: tuple[Path, Log, int]) -> None:
    home, log, size = large
    summed = run_measured(home, "cost", "report", "--json")
    total = summed.json()
    assert (total["inputTokens"], total["outputTokens"]) == (log.input_tokens, log.output_tokens)
    assert summed.peak < LISTING[size]


def test_searching_a_large_log_holds_one_message_in_memory(large: tuple[Path, Log, int]) -> None:
    home, log, size = large
    found = run_measured(home, "search", log.last_prompt, "--json")
    assert [hit["sessionId"] for hit in found.json()] == [log.session_id]
    assert found.peak < LISTING[size]


@pytest.mark.parametrize(
    "words",
    [
        "export --format jsonl",
        *(pytest.param(words, marks=slow) for words in ("show", "show --format html")),
    ],
)
def test_streaming_a_large_session_uses_bounded_memory(
    large: tuple[Path, Log, int], words: str
) -> None:
    home, log, size = large
    written, peak = stream_measured(home, *words.split(), log.session_id)
    assert peak < STREAMING[size]
    assert written > size * 0.9


GIANTS = [
    pytest.param(
        agent,
        Giant(place, size, script),
        id=f"{agent}-{place}-{script}-{size // MB}MB",
        marks=[slow] * (size == LARGE_GIANT),
    )
    for size in (SMALL_GIANT, LARGE_GIANT)
    for agent in AGENTS
    for place in PLACES
    for script in SCRIPTS
    if size == LARGE_GIANT or script == HARDEST
]


@pytest.mark.parametrize(("agent", "giant"), GIANTS)
def test_listing_and_summing_do_not_load_a_giant_line(
    home: Path, agent: Agent, giant: Giant
) -> None:
    log = write_log(home, agent, giant=giant)
    listed = run_measured(home, "list", "--json")
    summed = run_measured(home, "cost", "report", "--json")
    (session,) = listed.json()
    assert (session["turnCount"], session["messageCount"]) == (log.turns, log.messages)
    assert session["cost"]["inputTokens"] == summed.json()["inputTokens"] == log.input_tokens
    assert listed.peak < GIANT_LISTING
    assert summed.peak < GIANT_LISTING


@pytest.mark.parametrize(("agent", "giant"), GIANTS)
def test_the_end_of_a_giant_line_is_found(home: Path, agent: Agent, giant: Giant) -> None:
    log = write_log(home, agent, giant=giant)
    found = run_measured(home, "search", NEEDLE, "--json")
    assert [hit["sessionId"] for hit in found.json()] == [log.session_id]
    assert found.peak < GIANT_SEARCH
