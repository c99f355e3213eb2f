"""Programs that stand in for agents: real processes which print what the real ones document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from child_processes import child_env

from amux import Client, create_client

_HEAD = """#!{python}
import json, os, signal, subprocess, sys, time
NAME, VERSION, FOLDER = {name!r}, {version!r}, {folder!r}
if sys.argv[1:] == ["--version"]:
    open(os.path.join(FOLDER, "asked"), "a").write("x")
    print(NAME, VERSION, "(test)"); sys.exit()
def say(record): print(json.dumps(record), flush=True)
def note(name, value): open(os.path.join(FOLDER, name), "w").write(str(value))
"""

_ANSWER = """
given = sys.stdin.read() if not sys.stdin.isatty() else ""
open(os.path.join(FOLDER, NAME + ".json"), "w").write(
    json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "stdin": given}))
for record in json.loads(RECORDS): say(record)
"""


class FakeAgents:
    """A directory of programs on the PATH, with a home beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "bin", folder / "home"
        self.folder.mkdir()
        self.home.mkdir()
        self.env = child_env(HOME=str(self.home), PATH=str(self.folder))
        self.env["AMUX_CACHE_DIR"] = str(folder / "cache")

    def add(self, name: str, body: str, *, version: str = "9.9.9") -> Path:
        """A program with this body after a common head."""
        program = self.folder / name
        head = _HEAD.format(
            python=sys.executable, name=name, version=version, folder=str(self.folder)
        )
        program.write_text(head + body, encoding="utf-8")
        program.chmod(0o755)
        return program

    def answering(
        self, name: str, records: Sequence[dict[str, Any]], *, version: str = "9.9.9"
    ) -> Path:
        """A program that records its words and prints these records."""
        return self.add(
            name, f"RECORDS = {json.dumps(list(records))!r}\n{_ANSWER}", version=version
        )

    def given(self, name: str) -> dict[str, Any]:
        """What the program was started with."""
        found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_bytes())
        return found

    @property
    def versions_asked(self) -> int:
        asked = self.folder / "asked"
        return len(asked.read_text()) if asked.exists() else 0

    def noted(self, name: str) -> str:
        return wait_for(lambda: (self.folder / name).read_text() or None)

    def living(self) -> list[int]:
        """The processes that have this home, whoever started them."""
        wanted = f"HOME={self.home}".encode()
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            try:
                is_own = wanted in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if is_own and entry.name.isdigit() and is_alive(int(entry.name)):
                found.append(int(entry.name))
        return found

    def client(self) -> Client:
        return create_client(env=self.env)

    def runs(self) -> list[dict[str, Any]]:
        """The lines of the run index."""
        path = self.home / ".agent-mux" / "run-index.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def amux(
        self, *words: str, stdin: str | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            env=self.env,
            cwd=cwd,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def python(self, script: str) -> str:
        """What a program prints that uses amux; it must complain about nothing."""
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "amux", *words]


def wait_for(look: Callable[[], str | None]) -> str:
    """What `look` returns as soon as it returns something: other processes take their time."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            found = look()
        except OSError:
            found = None
        if found is not None:
            return found
        os.sched_yield()
    raise AssertionError("nothing came")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def group_members(group: int) -> list[int]:
    """The processes of a group that still run."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            try:
                if os.getpgid(int(entry.name)) == group:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


CLAUDE: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-opus-5-5",
     "claude_code_version": "2.1.325"},
    {"type": "assistant", "session_id": "s-1", "message": {
        "id": "m1", "model": "claude-opus-5-5", "role": "assistant",
        "content": [{"type": "thinking", "thinking": "I look first."}],
        "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 100,
                  "cache_creation_input_tokens": 20}}},
    {"type": "assistant", "session_id": "s-1", "message": {
        "id": "m1", "model": "claude-opus-5-5", "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
        "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 100,
                  "cache_creation_input_tokens": 20}}},
    {"type": "user", "session_id": "s-1", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a b"}],
         "is_error": False}]}},
    {"type": "from_the_future", "x": 1},
    {"type": "assistant", "session_id": "s-1", "message": {
        "id": "m2", "model": "claude-opus-5-5", "role": "assistant",
        "content": [{"type": "text", "text": "Two files."}],
        "usage": {"input_tokens": 12, "output_tokens": 7, "cache_read_input_tokens": 130}}},
    {"type": "result", "subtype": "success", "is_error": False, "result": "Two files.",
     "session_id": "s-1", "total_cost_usd": 0.0125,
     "usage": {"input_tokens": 22, "output_tokens": 40, "cache_read_input_tokens": 230,
               "cache_creation_input_tokens": 20}},
]  # fmt: skip
"""A run of Claude Code with a tool, as `--output-format stream-json` prints it."""
