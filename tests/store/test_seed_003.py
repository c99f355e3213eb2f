"""The first two exercises of the comparison of session models, run as a user runs them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from child_processes import child_env

from amux import SessionStore

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run(name: str, base: Path) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), str(base)]
    env = child_env(HOME=str(base))
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_first_line_of_a_session_is_its_meta_data(tmp_path: Path) -> None:
    path, first, *rest = run("ex1_rollout.py", tmp_path / "store")
    meta = json.loads(first)
    assert Path(path).name.startswith("rollout-20")
    assert meta["type"] == "session_meta"
    assert (
        meta["payload"].items()
        >= {
            "cwd": "/project",
            "model": "opus",
            "git_sha": "0123abc",
            "agent_role": "reviewer",
        }.items()
    )
    assert meta["payload"]["created_at"]
    assert [json.loads(line)["payload"]["content"] for line in rest] == ["Hello"]


def test_an_index_fills_itself_and_lists_without_the_files(tmp_path: Path) -> None:
    base = tmp_path / "store"
    *_, counted, _ = run("ex2_index.py", base)
    assert counted == "75 threads; the newest says: question 149"
    with closing(sqlite3.connect(base / "state.db")) as database:
        (count,) = database.execute("SELECT count(*) FROM sessions").fetchone()
    assert count == 150
    with SessionStore(base) as store:
        assert len(store.list(limit=None)) == 150
