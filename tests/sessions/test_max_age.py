"""A client with `max_age` may answer from a snapshot of the files that is at most so old."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest
from builders import ClaudeSession, uuid_of, write_claude, write_codex

from amux import create_client
from amux.client import Client
from amux.errors import ValidationError
from amux.index.snapshot_cache import SnapshotCache

LONG = 3600.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for number in (1, 2, 3):
        write_claude(home, number, prompt=f"the fox {number}", answer="a fox it is")
        write_codex(home, 10 + number)
    past = time.time() - 60
    for path in home.rglob("*"):
        os.utime(path, (past, past))
    return home


def open_staying(home: Path, max_age: float = LONG) -> Client:
    cache = home.parent / "cache"
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}, max_age=max_age)


def found(client: Client, text: str = "fox") -> set[str]:
    return {each.session_id for each in client.sessions.search(text)}


def path_of(home: Path, number: int) -> Path:
    return next(home.rglob(f"{uuid_of(number)}.jsonl"))


@pytest.mark.parametrize("age", [-1.0, math.nan])
def test_a_negative_max_age_is_refused(age: float) -> None:
    with pytest.raises(ValidationError):
        create_client(max_age=age)


def test_within_max_age_an_answer_uses_the_last_snapshot(home: Path) -> None:
    with open_staying(home) as client:
        before = client.sessions.search("fox", limit=None), client.sessions.list("claude")
        write_claude(home, 4, prompt="another fox")
        after = client.sessions.search("fox", limit=None), client.sessions.list("claude")
        assert after == before


def test_without_max_age_every_answer_is_current(home: Path) -> None:
    with open_staying(home, max_age=0.0) as client:
        assert len(found(client)) == 3
        write_claude(home, 4, prompt="another fox")
        assert uuid_of(4) in found(client)


def test_after_max_age_the_files_are_checked_again(home: Path) -> None:
    with open_staying(home, max_age=0.05) as client:
        assert len(found(client)) == 3
        write_claude(home, 4, prompt="another fox")
        deadline = time.monotonic() + 30
        while uuid_of(4) not in found(client):
            assert time.monotonic() < deadline


def test_a_write_of_another_client_to_the_index_ends_the_snapshot(home: Path) -> None:
    with open_staying(home) as client:
        assert len(found(client)) == 3
        write_claude(home, 4, prompt="another fox")
        with open_staying(home) as other:
            assert len(found(other)) == 4
        assert len(found(client)) == 4


def test_no_text_of_a_vanished_file_is_shown(home: Path) -> None:
    with open_staying(home) as client:
        assert len(found(client)) == 3
        path_of(home, 2).unlink()
        (gone,) = [s for s in client.sessions.search("fox") if s.session_id == uuid_of(2)]
        assert gone.hits == ()


@pytest.mark.parametrize("text", ["a hen", "no such animal, but a longer text than before"])
def test_no_text_of_a_replacement_file_is_shown(home: Path, text: str) -> None:
    with open_staying(home) as client:
        assert len(found(client)) == 3
        ClaudeSession(home, uuid_of(2)).prompt(text).reply(text).write(path_of(home, 2))
        (other,) = [s for s in client.sessions.search("fox") if s.session_id == uuid_of(2)]
        assert other.hits == ()
        assert text not in (other.snippet or "")


def test_the_remaining_text_of_a_truncated_or_grown_file_is_shown(home: Path) -> None:
    with open_staying(home) as client:
        whole = {each.session_id: each for each in client.sessions.search("fox")}
        cut, grown = path_of(home, 1), path_of(home, 2)
        cut.write_bytes(cut.read_bytes().splitlines(keepends=True)[0])
        grown.write_bytes(grown.read_bytes() + b'{"type":"user"')
        now = {each.session_id: each for each in client.sessions.search("fox")}
        assert now[uuid_of(1)].hits == whole[uuid_of(1)].hits[:1]
        assert now[uuid_of(2)].hits == whole[uuid_of(2)].hits


# Looks


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """A folder with a file in it, both a minute old."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("a")
    age(folder)
    return folder


def age(folder: Path, seconds: float = 60) -> None:
    past = time.time() - seconds
    for path in (*folder.iterdir(), folder):
        os.utime(path, (past, past))


def change(folder: Path) -> None:
    (folder / "a").write_text("another text")
    age(folder, seconds=30)


def test_a_snapshot_expires_after_max_age(settled: Path) -> None:
    clock = Clock()
    looks = SnapshotCache(10.0, clock=clock)
    roots = [str(settled)]
    before = looks.state(roots, ())
    change(settled)
    clock.now += 9.9
    assert looks.state(roots, ()) == before
    clock.now += 0.1
    assert looks.state(roots, ()) != before


def test_a_held_snapshot_lasts_until_the_end_of_the_block(settled: Path) -> None:
    looks = SnapshotCache()
    roots = [str(settled)]
    with looks.frozen():
        before = looks.state(roots, ())
        change(settled)
        assert looks.state(roots, ()) == before
    assert looks.state(roots, ()) != before


def test_a_generation_expires_with_its_oldest_snapshot(settled: Path) -> None:
    clock = Clock()
    looks = SnapshotCache(10.0, clock=clock)
    first = looks.generation()
    clock.now += 8
    looks.state([str(settled)], ())
    assert looks.generation() == first
    clock.now += 2
    assert looks.generation() != first
