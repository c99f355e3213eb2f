"""The number of SQL statements for a question is small and does not grow with the home."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from builders import uuid_of, write_claude, write_codex
from counted_statements import counted_statements
from test_work import USED, age, indexed, settle

from amux.client import Client
from amux.errors import SessionNotFoundError
from amux.model.options import SessionListOptions

SMALL, LARGE = 20, 120


def _wrong_id(client: Client) -> None:
    with suppress(SessionNotFoundError):
        client.find("ffffffff-0000")


QUESTIONS: dict[str, Callable[[Client], object]] = {
    "short list": lambda client: client.fast_list(None, limit=10),
    "list": lambda client: client.list_report(None, SessionListOptions(limit=None)),
    "report": lambda client: client.sessions.total_cost(group_by="session"),
    "blocks": lambda client: client.cost_blocks(),
    "id": lambda client: client.find(uuid_of(1)),
    "wrong id": _wrong_id,
    "title": lambda client: client.find("prompt of 1"),
    "word": lambda client: client.sessions.search("needle", limit=5),
    "phrase": lambda client: client.sessions.search('"common needle"', limit=5),
    "part": lambda client: client.sessions.search("eedl", limit=5),
}


def write(home: Path, numbers: range) -> None:
    for number in numbers:
        write_claude(home, number, prompt=f"prompt of {number}", tokens=USED)
        write_codex(home, 1000 + number, prompt="common needle", tokens=USED)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """A small and a large home with their complete indexes."""
    found = {size: tmp_path_factory.mktemp(f"of{size}") / "home" for size in (SMALL, LARGE)}
    for size, home in found.items():
        write(home, range(size))
        settle(home)
        ask_everything(home)
    return found


def ask_everything(home: Path) -> None:
    """Complete the index, so that nothing is left to do for the next question."""
    with indexed(home, home.parent / "cache") as client:
        client.index.update(texts=True)
        for question in QUESTIONS.values():
            question(client)


def statements(home: Path, question: Callable[[Client], object]) -> list[str]:
    with counted_statements() as executed, indexed(home, home.parent / "cache") as client:
        question(client)
        return executed


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("short list", 35), ("list", 37), ("report", 60), ("blocks", 60), ("id", 21),
        ("wrong id", 38), ("title", 38), ("word", 80), ("phrase", 80), ("part", 80),
    ],
)  # fmt: skip
def test_a_question_takes_as_many_statements_in_a_home_of_any_size(
    homes: dict[int, Path], name: str, most: int
) -> None:
    """The bounds were measured and are to shrink."""
    small, large = (statements(homes[size], QUESTIONS[name]) for size in (SMALL, LARGE))
    assert len(small) == len(large)
    assert 0 < len(large) <= most, large


@pytest.mark.parametrize(("name", "most"), [("list", 65), ("report", 85), ("word", 200)])
def test_a_new_session_takes_few_statements(homes: dict[int, Path], name: str, most: int) -> None:
    home = homes[LARGE]
    number = 500 + [*QUESTIONS].index(name)
    age(write_claude(home, number, prompt=f"prompt of {number}", tokens=USED).path)
    executed = statements(home, QUESTIONS[name])
    ask_everything(home)
    assert len(executed) <= most, executed
