"""The real session database, of the package that `make hermes` installs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env

_HERE = Path(__file__).parent
_PYTHON = _HERE.parents[1] / "build" / "hermes" / "bin" / "python"
_TIMEOUT_S = 300

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
Answer = tuple[str, Any]


def start(path: Path, calls: list[Call], *, ticks: bool = True) -> subprocess.Popen[str]:
    """Start the real class on a database."""
    if not _PYTHON.exists():
        pytest.fail("the real session database is not installed: run `make hermes`")
    environment = child_env(HOME=str(path.parent), HERMES_HOME=str(path.parent / "hermes"))
    environment.pop("PYTHONPATH")
    process = subprocess.Popen(
        [str(_PYTHON), str(_HERE / "real_hermes_calls.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"path": str(path), "calls": calls, "ticks": ticks}))
    process.stdin.close()
    process.stdin = None
    return process


def finish(process: subprocess.Popen[str]) -> list[Answer]:
    """Return the answers of a process that was started."""
    output, errors = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0, errors
    answers: list[Answer] = json.loads(output)
    return answers


def ask_real(path: Path, calls: list[Call]) -> list[Answer]:
    """Apply calls to a database with the real class, and return its answers."""
    return finish(start(path, calls))


def call(name: str, *args: Any, **kwargs: Any) -> Call:
    return name, args, kwargs
