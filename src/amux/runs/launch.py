"""Plans and starts an agent's own program, to begin, resume or fork a session.

The launcher of the agent, else its adapter, builds the command line for the installed version; no
shell is involved. Anything that the agent does not support is refused before anything is started,
and the program is asked for its version only if the command line depends on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Literal

from amux.adapters._base import Adapter
from amux.errors import AmuxError, CapabilityError, ErrorCode, ValidationError
from amux.host import Host
from amux.launchers import (
    LAUNCHERS,
    LONGEST_ARGUMENT,
    CommandPlan,
    LaunchRequest,
    UnsupportedError,
)
from amux.model.base import Model
from amux.model.reports import InstalledAgent
from amux.runs.programs import find_program, installed_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Action = Literal["new", "resume", "fork"]

_INABILITIES = {
    "new": "start sessions",
    "resume": "resume sessions",
    "fork": "fork sessions",
    "opening": "begin with a prompt in a terminal",
    "model": "be told which model to use",
    "no_session": "run without recording a session",
    "approval_mode": "skip its own questions",
    "assigned_id": "be told the id of a new session",
    "misread_prompt": "take a prompt that looks like an option",
}
_CAPABILITIES = {"new": "can_new", "resume": "can_resume", "fork": "can_fork"}


class Launch(Model, frozen=True, kw_only=True):
    """A command to start an agent, and its working directory.

    `stdin` is the text for its standard input. `format` is the format of its output; None for a
    command that needs a terminal.
    """

    agent: str
    action: Action
    argv: tuple[str, ...]
    session_id: str | None = None  # of the session that is resumed or forked
    cwd: str | None = None
    version: str | None = None  # of the installed program; None if unknown or of no importance
    stdin: str | None = None
    format: str | None = None


def plan_launch(
    adapter: Adapter,
    host: Host,
    request: LaunchRequest,
    *,
    cwd: str | None = None,
    asks_version: bool = False,
) -> Launch:
    """Return the command for a request, as the installed version accepts it.

    Raises:
        CapabilityError: The agent, or its installed version, cannot do that.
        ValidationError: The prompt is too long for the agent, or the id looks like an option.
        AmuxError: The agent's program is not on the PATH (AGENT_NOT_INSTALLED).
    """
    info = adapter.info
    able = {
        "new": True,
        "resume": info.capabilities.can_resume,
        "fork": info.capabilities.can_fork,
    }
    if not able[request.action]:
        raise _incapable(adapter, request.action, version=None)
    if request.session_id is not None and request.session_id.startswith("-"):
        raise ValidationError(  # ids come from files that anyone may have written
            f"`{request.session_id}` is not the id of a session", fields=("session",)
        )
    newest = _plan(adapter, request, version=None)
    program = find_program(info.cli_command, host.env.get("PATH"))
    if program is None:
        raise AmuxError(
            f"the program `{info.cli_command}` is not on the PATH",
            code=ErrorCode.AGENT_NOT_INSTALLED,
            hint=f"install it, or make sure that `{info.cli_command} --version` works",
        )
    launcher = LAUNCHERS.get(info.name)
    version, plan = None, newest
    if asks_version or launcher is None or launcher.depends_on_version(request):
        version = installed_version(program, dict(host.env))
        plan = _plan(adapter, request, version=version)
    directory = cwd if cwd is not None and os.path.isdir(cwd) else None  # noqa: PTH112 - never raises
    return Launch(
        agent=info.name,
        action=request.action,
        argv=(program, *plan.argv[1:]),
        session_id=request.session_id,
        cwd=directory,
        version=version,
        stdin=plan.stdin,
        format=plan.format,
    )


def detect(adapter: Adapter, host: Host) -> InstalledAgent | None:
    """Return the installed program, or else Python package, of an agent; None if there is none."""
    info = adapter.info
    program = find_program(info.cli_command, host.env.get("PATH"))
    if program is not None:
        version = installed_version(program, dict(host.env))
        return InstalledAgent(agent=info.name, program=program, version=version)
    if info.python_package is None:
        return None
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return InstalledAgent(agent=info.name, version=version_of(info.python_package))
    except PackageNotFoundError:
        return None


def start(launch: Launch, env: Mapping[str, str] | None = None) -> int:  # noqa: RET503 - `exec` does not return
    """Replace this process with the agent; on Windows run it and return its exit code."""
    if launch.cwd is not None:
        os.chdir(launch.cwd)
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":
        return subprocess.run(launch.argv, check=False, env=env).returncode  # noqa: S603 - no shell
    if env is None:
        os.execv(launch.argv[0], launch.argv)  # noqa: S606 - no shell: arguments are passed unchanged
    os.execve(launch.argv[0], launch.argv, dict(env))  # noqa: S606 - likewise


def _plan(adapter: Adapter, request: LaunchRequest, *, version: str | None) -> CommandPlan:
    """Return the command line of the launcher, or of the adapter if there is no launcher."""
    launcher = LAUNCHERS.get(adapter.info.name)
    try:
        if launcher is not None:
            return launcher.plan(request, version)
        return _adapter_plan(adapter, request, version)
    except UnsupportedError as error:
        if error.what == "long_prompt":
            raise _too_long(adapter.info.label, request.prompt or "") from error
        raise _incapable(adapter, error.what, version=version) from error


def _adapter_plan(adapter: Adapter, request: LaunchRequest, version: str | None) -> CommandPlan:
    """Return the command line of an adapter, which knows neither models nor events."""
    wishes: Sequence[tuple[str, bool]] = (
        ("model", request.model is not None),
        ("no_session", request.no_session),
        ("approval_mode", request.skips_approval),
        ("assigned_id", request.assigned_id is not None),
        ("opening", request.is_interactive and request.prompt is not None),
    )
    for what, is_wished in wishes:
        if is_wished:
            raise UnsupportedError(what)
    prompt = request.prompt
    if prompt is not None and len(prompt.encode("utf-8", "surrogateescape")) > LONGEST_ARGUMENT:
        raise UnsupportedError("long_prompt")
    command = adapter.command(
        request.action, session_id=request.session_id, prompt=prompt, version=version
    )
    if command is None:
        raise UnsupportedError(request.action)
    format = None if request.is_interactive else "text"
    return CommandPlan((*command.argv, *request.args), None, format)


def _too_long(label: str, prompt: str) -> ValidationError:
    size = len(prompt.encode("utf-8", "surrogateescape"))
    return ValidationError(
        f"the prompt has {size} bytes, and {label} takes it as an argument of at most "
        f"{LONGEST_ARGUMENT}",
        fields=("prompt",),
        hint="write it to a file and name the file in the prompt",
    )


def _incapable(adapter: Adapter, what: str, *, version: str | None) -> CapabilityError:
    info = adapter.info
    which = info.label if version is None else f"{info.label} {version}"
    return CapabilityError(
        f"{which} cannot {_INABILITIES[what]}",
        agent=info.name,
        capability=_CAPABILITIES.get(what, what),
        hint="a newer version of the agent may support it" if version else None,
    )
