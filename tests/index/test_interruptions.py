"""Ctrl-C while the text index is built keeps the finished part and leaves nothing half-written."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Self

import pytest
from builders import uuid_of, write_claude

from amux import create_client
from amux.client import Client
from amux.index.text.engine import TextIndex
from amux.model.usage import Tokens

pytestmark = pytest.mark.no_cover  # the plain tests reach the same lines

SESSIONS = 16
STATEMENTS_PER_SOURCE = 16


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than is added without a bulk load."""
    home = tmp_path_factory.mktemp("interrupted") / "home"
    for number in range(SESSIONS):
        words = " ".join(f"word{number}x{each}" for each in range(20))
        session = write_claude(
            home, number, prompt=words, answer=f"{words} " * 1600, tokens=Tokens(input=1)
        )
        os.utime(session.path, (1e9, 1e9))  # nobody is writing to it
    return home


def indexed(home: Path, cache: Path) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache), "HOME": str(home)})


def texts_of(client: Client) -> int | None:
    (claude,) = client.index.status().agents
    return claude.texts


def found_by(client: Client, word: str) -> list[str]:
    return [session.session_id for session in client.sessions.search(word)]


class Statements:
    """Counts the SQL statements of this process, and interrupts it after a given one."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.count = 0
        self._stop_after = stop_after
        self._process = os.getpid()  # workers are forked, and left alone

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.setprofile(None)
        return kind is KeyboardInterrupt

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "c_return" or os.getpid() != self._process:
            return
        if isinstance(getattr(argument, "__self__", None), sqlite3.Connection):
            self.count += 1
            if self.count == self._stop_after:
                raise KeyboardInterrupt


def test_sources_read_before_an_interrupt_are_not_read_again(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path) as client:
        client.index.update()
        client.watch(stopping_at(0.5))
        with pytest.raises(KeyboardInterrupt):
            client.index.update(texts=True)
        kept = texts_of(client)
        assert kept is not None
        assert SESSIONS // 4 < kept < SESSIONS
    seen: list[int] = []
    with indexed(home, tmp_path) as client:
        assert texts_of(client) == kept
        client.watch(lambda done, total, what: seen.append(total))
        client.index.update(texts=True)
        assert texts_of(client) == SESSIONS
    whole = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    assert 0 < max(seen) < whole * 0.75


def test_an_interrupted_load_is_finished_by_the_next_one(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path) as client:
        client.index.update()
        client.watch(stopping_at(0.97))
        with pytest.raises(KeyboardInterrupt):
            client.index.update(texts=True)
    (path,) = tmp_path.glob("texts-*.db")
    for is_unfinished in (True, False):
        with closing(TextIndex.open(path)) as texts:
            assert texts.is_unfinished == is_unfinished
        with indexed(home, tmp_path) as client:
            client.index.update(texts=True)


def stopping_at(share: float) -> Callable[[int, int, str], None]:
    def report(done: int, total: int, what: str) -> None:
        if done > total * share:
            raise KeyboardInterrupt

    return report


def test_an_interrupt_after_any_statement_leaves_nothing_half_written(
    home: Path, tmp_path: Path
) -> None:
    with indexed(home, tmp_path / "whole") as client:
        client.index.update()
        with Statements() as all_of_them:
            client.index.update(texts=True)
    middle = all_of_them.count // 2
    for moment in range(middle, middle + STATEMENTS_PER_SOURCE):
        cache = tmp_path / str(moment)
        with indexed(home, cache) as client:
            client.index.update()
            with Statements(moment) as stopped:
                client.index.update(texts=True)
            assert stopped.count < all_of_them.count
            assert found_by(client, "word9x7") == [uuid_of(9)], "nothing is left locked"
        with indexed(home, cache) as client:
            assert texts_of(client) == SESSIONS
            for number in range(SESSIONS):
                assert found_by(client, f"word{number}x19") == [uuid_of(number)]
