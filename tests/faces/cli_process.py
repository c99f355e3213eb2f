"""Runs the command in a separate process, on a separate home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from child_processes import child_env
from command_server import CommandServer

_FOR_PYTHON = ("PYTHON", "LANG", "LC_")

CAPTURES = Path(__file__).parent.parent / "captures"


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
        self.env = child_env(
            HOME=str(home),
            USERPROFILE=str(home),
            TZ="UTC",
            AMUX_CACHE_DIR=str(home.parent / "cache"),
        )
        self.env.update(env or {})

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "amux", *words]

    def __call__(self, *words: str, cwd: Path | None = None) -> Result:
        if self._is_plain:
            code, out, err = command_server().run(words, self.env, cwd)
            return Result(code, out.decode(), err.decode())
        done = subprocess.run(
            self.command(*words),
            env=self.env,
            cwd=cwd,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def _is_plain(self) -> bool:
        """Whether nothing differs that Python itself looks at when it starts."""
        usual = child_env()
        own = {name: self.env[name] for name in self.env if name.startswith(_FOR_PYTHON)}
        return hasattr(os, "fork") and own.items() <= usual.items()

    def python(self, *words: str) -> Result:
        return run_python(words, self.env)


def run_python(words: Sequence[str], env: Mapping[str, str]) -> Result:
    done = subprocess.run(
        [sys.executable, *words], env=dict(env), capture_output=True, timeout=60, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def copied_home(to: Path, *captures: str) -> Path:
    home = to / "home"
    home.mkdir()
    for capture in captures:
        shutil.copytree(CAPTURES / capture / "home", home, dirs_exist_ok=True)
    return home


@cache
def command_server() -> CommandServer:
    """One for all tests of a process; `conftest` stops it."""
    return CommandServer(child_env())
