"""The generated homes of the benchmarks are reproducible, and their description is correct."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import Truth, make_corpus

from amux.client import Client, create_client

FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cached_tokens",
    "cache_write": "cache_write_tokens",
    "reasoning": "thinking_tokens",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def truth(place: Path) -> Truth:
    return make_corpus(place, "XS")


@pytest.fixture(scope="module")
def client(place: Path, truth: Truth) -> Client:
    return create_client(home=place / "home")


def test_a_corpus_has_the_same_bytes_every_time(place: Path, truth: Truth, tmp_path: Path) -> None:
    again = make_corpus(tmp_path / "again", "XS")
    assert again == truth
    assert contents(tmp_path / "again") == contents(place)


def test_a_corpus_that_is_there_is_not_written_again(place: Path, truth: Truth) -> None:
    before = (place / "truth.json").stat()
    assert make_corpus(place, "XS") == truth
    assert (place / "truth.json").stat() == before


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_amux_counts_the_tokens_that_were_written(client: Client, truth: Truth, agent: str) -> None:
    report = client.sessions.total_cost(agent=agent)
    counted = {name: getattr(report, field) for name, field in FIELDS.items()}
    assert counted == truth["agents"][agent]["tokens"]


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_amux_lists_the_sessions_that_were_written(
    client: Client, truth: Truth, agent: str
) -> None:
    assert len(client.sessions.list(agent, limit=None)) == truth["agents"][agent]["sessions"]


def test_amux_finds_the_words_hidden_in_the_corpus(client: Client, truth: Truth) -> None:
    for needle, count in list(truth["needles"].items())[-3:]:
        assert len(client.sessions.search(f'"{needle}"', limit=None)) == count, needle
