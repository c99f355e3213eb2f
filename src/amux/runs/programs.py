"""Finds the program of an agent and asks it for its version. Imports nothing heavy."""

from __future__ import annotations

import os
import sys

_VERSION_SECONDS = 20


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

    A program that does not end is killed together with its children.
    """
    import re
    import signal
    import subprocess

    try:
        process = subprocess.Popen(  # noqa: S603 - no shell, a program found on the PATH
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=_VERSION_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
    found = re.search(r"\d+\.\d+[\w.-]*", output.decode("utf-8", "replace"))
    return found.group() if found else None
