"""Plans and starts an agent's own program, to begin, resume or fork a session.

The adapter builds the command line for the installed version; no shell is involved. An action that
the agent does not support is refused before anything is started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Literal

from amux.adapters._base import Adapter
from amux.errors import AmuxError, CapabilityError, ErrorCode
from amux.host import Host
from amux.model.base import Model
from amux.model.reports import InstalledAgent

Action = Literal["new", "resume", "fork"]

_VERSION = re.compile(r"\d+\.\d+[\w.-]*")
_VERSION_SECONDS = 20


class Launch(Model, frozen=True, kw_only=True):
    """A command to start an agent, and its working directory."""

    agent: str
    action: Action
    argv: tuple[str, ...]
    cwd: str | None = None
    version: str | None = None  # of the installed program; None if unknown


def plan_launch(
    adapter: Adapter,
    host: Host,
    action: Action,
    *,
    session_id: str | None = None,
    prompt: str | None = None,
    cwd: str | None = None,
) -> Launch:
    """Return the command for an action, as the installed version accepts it.

    Raises:
        CapabilityError: The agent, or its installed version, cannot do that.
        AmuxError: The agent's program is not on the PATH (AGENT_NOT_INSTALLED).
    """
    info = adapter.info
    able = {
        "new": True,
        "resume": info.capabilities.can_resume,
        "fork": info.capabilities.can_fork,
    }
    if not able[action]:
        raise _incapable(info.label, info.name, action, version=None)
    program = _program(info.cli_command, host)
    version = installed_version(program)
    command = adapter.command(
        action, session_id=session_id, prompt=prompt, cwd=cwd, version=version
    )
    if command is None:
        raise _incapable(info.label, info.name, action, version=version)
    directory = cwd if cwd is not None and os.path.isdir(cwd) else None  # noqa: PTH112 - never raises
    return Launch(
        agent=info.name,
        action=action,
        argv=(program, *command.argv[1:]),
        cwd=directory,
        version=version,
    )


def detect(adapter: Adapter, host: Host) -> InstalledAgent | None:
    """Return the installed program, or else Python package, of an agent; None if there is none."""
    info = adapter.info
    program = shutil.which(info.cli_command, path=host.env.get("PATH"))
    if program is not None:
        return InstalledAgent(agent=info.name, program=program, version=installed_version(program))
    if info.python_package is None:
        return None
    from importlib.metadata import PackageNotFoundError, version

    try:
        return InstalledAgent(agent=info.name, version=version(info.python_package))
    except PackageNotFoundError:
        return None


def start(launch: Launch) -> int:  # noqa: RET503 - `execv` does not return
    """Replace this process with the agent; on Windows run it and return its exit code."""
    if launch.cwd is not None:
        os.chdir(launch.cwd)
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":
        return subprocess.run(launch.argv, check=False).returncode  # noqa: S603 - no shell
    os.execv(launch.argv[0], launch.argv)  # noqa: S606 - no shell: arguments are passed unchanged


def installed_version(program: str) -> str | None:
    """Return the version that `--version` prints; None if there is none."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, a program found on the PATH
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return found.group() if found else None


def _program(name: str, host: Host) -> str:
    found = shutil.which(name, path=host.env.get("PATH"))
    if found is None:
        raise AmuxError(
            f"the program `{name}` is not on the PATH",
            code=ErrorCode.AGENT_NOT_INSTALLED,
            hint=f"install it, or make sure that `{name} --version` works",
        )
    return found


def _incapable(label: str, agent: str, action: Action, *, version: str | None) -> CapabilityError:
    which = label if version is None else f"{label} {version}"
    verb = {"new": "start sessions", "resume": "resume sessions", "fork": "fork sessions"}[action]
    return CapabilityError(
        f"{which} cannot {verb}",
        agent=agent,
        capability=f"can_{action}",
        hint="a newer version of the agent may support it" if version else None,
    )
