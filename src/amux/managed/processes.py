"""Processes of managed sessions: identities, and the ones that an agent left behind.

Every agent gets its session's id in the environment, and its children inherit it. So a process that
outlived its manager is found without a list of process ids, which the system uses again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

MARKER: Final = "AMUX_MANAGED_SESSION"
"""The environment variable with the id of the managed session."""

_PROCESSES: Final = Path("/proc")
_START_FIELD: Final = 19  # of /proc/<pid>/stat, counted after the name of the program
_STATE_FIELD: Final = 0
_POLL_SECONDS: Final = 0.02
_PS_SECONDS: Final = 10


def process_identity(pid: int) -> str:
    """Return a text that no other process has; "" if there is no such process.

    Where the system does not tell when a process began, the text is its id alone.
    """
    fields = _stat(pid)
    if fields is not None:
        return "" if fields[_STATE_FIELD] == "Z" else f"{pid}@{fields[_START_FIELD]}"
    if _PROCESSES.joinpath("self").exists() or not _is_alive(pid):
        return ""
    return str(pid)


def marked_processes(session_id: str) -> list[int]:
    """Return the processes of a managed session, without this one."""
    marker = f"{MARKER}={session_id}"
    found = (
        _marked_in_proc(marker) if _PROCESSES.joinpath("self").exists() else _marked_by_ps(marker)
    )
    return [pid for pid in found if pid != os.getpid()]


def end_processes(session_id: str, *, grace: float = 5.0) -> int:
    """End all processes of a managed session; return their number.

    They get SIGTERM, and SIGKILL if they are still there after `grace` seconds.
    """
    ended = _send(marked_processes(session_id), signal.SIGTERM)
    end = time.monotonic() + grace
    while marked_processes(session_id):
        if time.monotonic() >= end:
            _send(marked_processes(session_id), getattr(signal, "SIGKILL", signal.SIGTERM))
            end = float("inf")
        time.sleep(_POLL_SECONDS)
    return ended


def _send(pids: Sequence[int], number: int) -> int:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(pids)


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _marked_in_proc(marker: str) -> Iterator[int]:
    wanted = marker.encode()
    for entry in os.scandir(_PROCESSES):
        if not entry.name.isdecimal():
            continue
        try:
            variables = Path(entry.path, "environ").read_bytes()
        except OSError:  # it ended, or it belongs to another user
            continue
        if wanted in variables.split(b"\0") and process_identity(int(entry.name)):
            yield int(entry.name)


def _marked_by_ps(marker: str) -> Iterator[int]:
    if sys.platform == "win32":
        return
    command = ["/bin/ps", "-axww", "-E", "-o", "pid=,command="]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, a program of the system
            command, capture_output=True, timeout=_PS_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        pid, _, words = line.strip().partition(" ")
        if pid.isdecimal() and marker in words.split():
            yield int(pid)
