"""Two machines, each with a home and a process of its own, share a store in PostgreSQL."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env

MACHINE = str(Path(__file__).with_name("machine.py"))


class Machine:
    """A home, and programs that run there."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        (home / "project").mkdir(parents=True)

    def begin(self, command: str, thread_id: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, MACHINE, self.url, command, thread_id],
            env=child_env(HOME=str(self.home)),
            cwd=self.home,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str, thread_id: str = "") -> Any:
        with self.begin(command, thread_id) as process:
            output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return json.loads(output.splitlines()[-1])


@pytest.fixture
def machines(tmp_path: Path, store_url: str) -> tuple[Machine, Machine]:
    return Machine(tmp_path / "ann", store_url), Machine(tmp_path / "bob", store_url)


def test_machines_resume_the_threads_of_each_other(machines: tuple[Machine, Machine]) -> None:
    ann, bob = machines
    thread_id = ann.run("start")
    there = bob.run("resume", thread_id)
    assert there["cwd"] == str(bob.home / "project")
    assert (there["model"], there["approval"], there["failed"]) == ("haiku", "auto", [])
    assert there["texts"] == ["first", "first, answered", "bob", "bob, answered"]
    assert there["cost"] == 0.5
    here = ann.run("resume", thread_id)
    assert here["cwd"] == str(ann.home / "project")
    assert here["todos"] == ["from the first machine", "from bob", "from ann"]
    assert here["texts"][2:4] == ["bob", "bob, answered"]
    assert here["cost"] == 0.75
    assert here["run"] != there["run"]
    assert list((ann.home / "project").iterdir()) == []
    assert [path.name for path in bob.home.iterdir()] == ["project"]


def test_the_turn_of_a_dead_machine_is_taken_over_after_its_lease(
    machines: tuple[Machine, Machine],
) -> None:
    ann, bob = machines
    thread_id = ann.run("start")
    with ann.begin("hold", thread_id) as holder:
        assert holder.stdout is not None
        held = json.loads(holder.stdout.readline())
        with bob.begin("take_over", thread_id) as heir:
            assert heir.stdout is not None
            assert json.loads(heir.stdout.readline()) == "refused"
            holder.send_signal(signal.SIGKILL)
            assert holder.wait() == -signal.SIGKILL
            taken = json.loads(heir.stdout.readline())
    assert taken["interrupted"] == [held["turn"]]
    assert taken["texts"][-2:] == ["a question whose machine dies", "taken over"]
