"""Finds the program of an agent and asks it for its version. Imports nothing heavy."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

_VERSION_SECONDS = 20
_VERSION_BYTES = 64 * 1024
_GLANCE_SECONDS = 0.05  # between two looks at a program whose child may hold the pipe open


def find_program(name: str, path: str | None) -> str | None:
    """Return the program with that name in the directories of a PATH; None if there is none."""
    if sys.platform == "win32":
        import shutil

        return shutil.which(name, path=path)
    for folder in (path or "").split(os.pathsep):
        candidate = os.path.join(folder, name)  # noqa: PTH118 - pathlib would be most of the time
        if folder and os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
            return candidate
    return None


def installed_version(program: str, env: dict[str, str] | None = None) -> str | None:
    """Return the version that `--version` prints; None if there is none.

    A program that does not end, or prints without end, is killed. So are its children.
    """
    import re
    import subprocess

    try:
        process = subprocess.Popen(  # noqa: S603 - no shell, a program found on the PATH
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            bufsize=0,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output = _first_output(process)
        finally:
            _kill_group(process)
    found = re.search(r"\d+\.\d+[\w.-]*", output.decode("utf-8", "replace"))
    return found.group() if found else None


def _first_output(process: Popen[bytes]) -> bytes:
    """Return the output of a program until it ends, at most `_VERSION_BYTES`."""
    import selectors
    import time

    assert process.stdout is not None  # noqa: S101 - opened as a pipe
    if sys.platform == "win32":  # where only sockets can be waited for
        return process.stdout.read(_VERSION_BYTES)
    output = b""
    end = time.monotonic() + _VERSION_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(output) < _VERSION_BYTES and time.monotonic() < end:
            has_ended = process.poll() is not None
            if selector.select(0 if has_ended else _GLANCE_SECONDS):
                chunk = os.read(process.stdout.fileno(), _VERSION_BYTES)
                output += chunk
                if not chunk:
                    break
            elif has_ended:
                break
    return output


def _kill_group(process: Popen[bytes]) -> None:
    """Kill a program that still runs, and the children that it left behind."""
    import signal
    from contextlib import suppress

    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
