"""`amux store` on a PostgreSQL server gives the answers that it gives on files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import CAPTURES
from child_processes import child_env


class Commands:
    """The commands on one store."""

    def __init__(self, home: Path, address: str) -> None:
        self._env = child_env(HOME=str(home), AMUX_STORE=address, TZ="UTC")

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "amux", *words],
            env=self._env,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *words: str) -> Any:
        return msgspec.json.decode(self(*words, "--json"))


def answers(amux: Commands, folder: Path) -> list[Any]:
    """What a conversation in a store looks like, without ids and times."""
    thread = amux("store", "new", "--title", "Plan", "--message", "Grüße", "-m", "opus").strip()
    record = amux("store", "append", thread[:13], "eine Antwort", "--role", "assistant").strip()
    amux("store", "tag", "Plan", "x")
    fork = amux("store", "fork", "Plan", "--last", "1").strip()
    amux("store", "archive", fork)
    amux("store", "pack", thread, str(folder / "thread.zip"))
    amux("store", "vacuum", thread, "--erase", record, "--yes")
    amux("store", "delete", thread, "--yes")
    amux("store", "unpack", str(folder / "thread.zip"))
    [hit] = amux.json("store", "search", "grüße")
    stats = amux.json("store", "stats")
    return [
        [(each["title"], each["tags"]) for each in amux.json("store", "list")],
        [each["title"] for each in amux.json("store", "list", "--archived")],
        hit["snippet"].strip(),
        amux.json("store", "resume", thread)["conversation"],
        [each["kind"] for each in amux.json("store", "lineage", thread)["descendants"]],
        (stats["threads"], stats["archived"], stats["messages"]),
        [(m["role"], m["content"]) for m in amux.json("show", f"amux:{thread}")["messages"]],
        amux.json("store", "doctor")["isHealthy"],
        amux.json("store", "optimize")["blobsRemoved"],
    ]


def test_both_backends_give_the_same_answers(tmp_path: Path, store_url: str) -> None:
    found: list[list[Any]] = []
    for name, address in (("files", str(tmp_path / "store")), ("server", store_url)):
        home = tmp_path / name
        home.mkdir()
        found.append(answers(Commands(home, address), home))
    assert found[0] == found[1]
    assert found[0][:4] == [
        [("Plan", ["x"])],
        ["Plan #2"],
        ">>>Grüße<<<",
        [
            {"role": "user", "content": "Grüße"},
            {"role": "assistant", "content": "eine Antwort"},
        ],
    ]


@pytest.mark.parametrize("scheme", ["mysql", "postgresql"])
def test_a_store_that_cannot_be_opened_costs_no_other_agent(tmp_path: Path, scheme: str) -> None:
    capture = next(each for each in CAPTURES if each.agent == "claude")
    home = capture.copy_to(tmp_path / "home")
    here = Commands(home, str(tmp_path / "store"))
    there = Commands(home, f"{scheme}://me:secret@127.0.0.1:1/db")
    assert there.json("list", "claude") == here.json("list", "claude") != []
    done = there.run("cost")
    assert done.returncode == 0
    assert b"the adapter `amux` failed" in done.stderr
    assert b"unreadable-source" in done.stderr
    assert b"secret" not in done.stdout + done.stderr
