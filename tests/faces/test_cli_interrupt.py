"""Ctrl-C prints one correct sentence, and the next run continues the work."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from builders import write_claude
from cli_process import Cli

from amux.model.usage import Tokens


def count_kept(cache: Path) -> int:
    """How many sources an index holds; its writer may be at work."""
    found = [*cache.glob("index-*.db")]
    if not found:
        return 0
    with closing(sqlite3.connect(f"{found[0].as_uri()}?mode=ro", uri=True)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM source").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0


def test_an_interrupted_command_is_continued_by_the_next_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for number in range(300):
        write_claude(home, number, tokens=Tokens(input=1))
    for number in range(300, 304):  # seconds of work, after the first are kept
        write_claude(home, number, answer="a long story " * 500_000)
    for path in home.rglob("*.jsonl"):
        os.utime(path, (1e9, 1e9))  # nobody is writing to it
    cli = Cli(home)
    process = subprocess.Popen(
        cli.command("index", "update", "--texts"),
        env=cli.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        while not count_kept(tmp_path / "cache"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == (
            "note: interrupted; the index holds what was read, the next run continues there\n"
        )
    (claude,) = cli("index", "--json").json()["agents"]
    assert claude["kept"] > 0
    assert claude["stale"] == claude["sources"] - claude["kept"]
    assert cli("index", "update", "--texts", "-q").code == 0
    (claude,) = cli("index", "--json").json()["agents"]
    assert (claude["stale"], claude["texts"]) == (0, 304)
