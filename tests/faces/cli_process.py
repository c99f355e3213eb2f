"""Runs the command in a process of its own, on a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


class Cli:
    """The command on one home; nothing of the environment of the tests reaches it."""

    def __init__(self, home: Path, env: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "USERPROFILE": str(home),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "AMUX_CACHE_DIR": str(home.parent / "cache"),
            **(env or {}),
        }

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "amux", *words]

    def __call__(self, *words: str, cwd: Path | None = None) -> Result:
        done = subprocess.run(
            self.command(*words),
            env=self.env,
            cwd=cwd,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def python(self, *words: str) -> Result:
        return run_python(words, self.env)


def run_python(words: Sequence[str], env: Mapping[str, str]) -> Result:
    done = subprocess.run(
        [sys.executable, *words], env=dict(env), capture_output=True, timeout=60, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())
