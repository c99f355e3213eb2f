"""Command hooks: programs that are started when hooks run, without a shell.

    {"hooks": [{"name": "notes", "command": ["python3", "/home/me/notes.py"],
                "applies_to": ["startup", "resume"], "priority": 50, "timeout": 5}]}

The program gets the event as one JSON object on its standard input and may print one JSON object
with `messages`, `context` and `watch_paths`, or nothing. Exit code 0 means success; any other code,
or a signal, means that the hook failed, and the first line of the standard error says why. No code
stops the session. When the program has ended, or its time is over, its whole process group is
killed, so it leaves no processes behind (unless they began a session of their own). A program that
still runs when Python exits is killed too.
"""

from __future__ import annotations

import atexit
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from amux.errors import AmuxError, ConfigError, ErrorCode, ValidationError
from amux.host import PROJECT_FOLDER, Host
from amux.lifecycle.hook_results import one_line
from amux.lifecycle.hooks import (
    DEFAULT_PRIORITY,
    DEFAULT_TIMEOUT,
    HookEvent,
    LifecycleHook,
    LifecycleSource,
    source_named,
)

if TYPE_CHECKING:
    from subprocess import Popen

FILE_NAME: Final = "hooks.json"
OTHER_FOLDER: Final = ".amux"
"""The folder that other programs keep their hooks in; it is read as well."""

MAX_FILE: Final = 1_048_576
MAX_OUTPUT: Final = 4_194_304
"""The bytes that a program may print; more of it ends the program."""

EVENT_VERSION: Final = 1
_ENVIRONMENT: Final = (
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR",
    "TZ", "USER", "USERPROFILE",
)  # fmt: skip
_CLOSING_SECONDS: Final = 1.0


class CommandSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a hooks file."""

    name: str
    command: tuple[str, ...]
    applies_to: tuple[str, ...] = tuple(LifecycleSource)
    priority: int = DEFAULT_PRIORITY
    timeout: float = DEFAULT_TIMEOUT
    enabled: bool = True
    env: dict[str, str] = {}


class CommandHook(LifecycleHook):
    """A program as a hook. `env` is its whole environment."""

    cleanup_seconds = 5.0  # for killing the program and reading its last output

    def __init__(self, settings: CommandSettings, *, env: Mapping[str, str]) -> None:
        if not settings.command or not settings.command[0] or "\0" in "".join(settings.command):
            raise ValidationError(
                "the command of a hook is a list of words that begins with a program",
                fields=("command",),
            )
        self.name = settings.name
        self.command = settings.command
        self.applies_to = tuple(source_named(each) for each in settings.applies_to)
        self.priority = settings.priority
        self.timeout = settings.timeout
        self.enabled = settings.enabled
        self.env = {**env, **settings.env}

    def execute(self, event: HookEvent) -> object:
        """Run the program and return the object that it printed; None if it printed nothing.

        Raises:
            AmuxError: The program cannot be started, failed, or printed something else.
            TimeoutError: The time is over; the process group was killed.
        """
        given = msgspec.json.encode(event_fields(event, self.name))
        done = run_command(
            self.command, given, env=self.env, cwd=event.session.state.cwd, timeout=self.timeout
        )
        if done.overflowed:
            raise _failed(f"the program printed more than {MAX_OUTPUT} bytes")
        if done.code != 0:
            how = f"exit code {done.code}" if done.code > 0 else f"signal {-done.code}"
            said = one_line(done.errors.decode("utf-8", "replace"))
            raise _failed(f"the program ended with {how}" + (f": {said}" if said else ""))
        if not done.output.strip():
            return None
        try:
            printed: object = msgspec.json.decode(done.output)
        except msgspec.DecodeError as error:
            raise _failed("the program printed something that is no JSON") from error
        if not isinstance(printed, dict):
            raise _failed("the program printed JSON that is no object")
        return printed  # pyright: ignore[reportUnknownVariableType] - checked by the caller


def event_fields(event: HookEvent, hook: str) -> dict[str, Any]:
    """Return the event as the JSON object that a program is given."""
    session, state = event.session, event.session.state
    return {
        "version": EVENT_VERSION,
        "hook": hook,
        "source": event.source.value,
        "at": event.at,
        "thread_id": session.thread_id,
        "session_id": session.run_session_id,
        "cwd": state.cwd,
        "model": state.effective_model,
        "git_sha": state.git_sha,
        "git_branch": state.git_branch,
        "initial_messages": [dict(each) for each in event.initial_messages],
        "previous": event.previous if isinstance(event.previous, str) else None,
    }


# Hooks files


def read_hooks(
    host: Host, warn: Callable[[str], None], *, project: Path | None = None
) -> dict[str, LifecycleHook]:
    """Return the hooks of the user's hooks files by name; a bad entry is reported with `warn`.

    `hooks.json` in the configuration directory is read first, then `~/.amux/hooks.json`. The
    commands of a project run only if the caller names its directory: a foreign repository must not
    start programs because its directory was entered. A missing file is fine.
    """
    folders = [host.config_dir(), host.home / OTHER_FOLDER]
    if project is not None:
        folders += [project / PROJECT_FOLDER, project / OTHER_FOLDER]
    env = {name: host.env[name] for name in _ENVIRONMENT if name in host.env}
    hooks: dict[str, LifecycleHook] = {}
    for path in dict.fromkeys(folder / FILE_NAME for folder in folders):
        try:
            entries = _entries_of(path)
        except ConfigError as error:
            warn(error.message)
            continue
        for number, entry in enumerate(entries, 1):
            try:
                hook = CommandHook(msgspec.convert(entry, CommandSettings), env=env)
            except (msgspec.ValidationError, ValidationError) as error:
                warn(f"hook {number} of `{path}` is not used: {one_line(str(error))}")
                continue
            if hooks.setdefault(hook.name, hook) is not hook:
                warn(f"hook {number} of `{path}` is not used: `{hook.name}` exists already")
    return hooks


def _entries_of(path: Path) -> Sequence[object]:
    """Return the entries of a hooks file; raise `ConfigError` if it cannot be used."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read ({error.strerror})") from error
    if sys.platform != "win32" and mode & stat.S_IWOTH:
        raise ConfigError(f"`{path}` is not used: every user of this machine can write to it")
    if len(content) > MAX_FILE:
        raise ConfigError(f"`{path}` is not used: it has more than {MAX_FILE} bytes")
    try:
        return msgspec.json.decode(content, type=dict[str, list[Any]])["hooks"]
    except (msgspec.DecodeError, KeyError) as error:
        raise ConfigError(
            f"`{path}` is not used: it is no JSON object with a list `hooks`"
        ) from error


# Running a program


class CommandOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a program: its exit code (negative: a signal) and what it printed."""

    code: int
    output: bytes
    errors: bytes
    overflowed: bool


def run_command(
    command: Sequence[str],
    given: bytes,
    *,
    env: Mapping[str, str],
    cwd: str | None,
    timeout: float,
) -> CommandOutput:
    """Run a program with bytes on its standard input and return what it printed.

    Raises:
        AmuxError: It cannot be started.
        TimeoutError: It did not end in time.
    """
    import subprocess

    def start() -> Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - no shell; the command is the user's
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd if cwd is not None and os.path.isdir(cwd) else None,  # noqa: PTH112 - never raises
            env=dict(env),
            start_new_session=True,
        )

    try:
        process = _running.start(start)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _failed(
            f"the program `{one_line(command[0])}` cannot be started ({reason})"
        ) from error
    pipes = _Pipes(process, given)
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the program did not end within {timeout:g} s") from error
    finally:
        _running.end(process)
        process.wait()
        pipes.close()
    return CommandOutput(
        code=code, output=pipes.output, errors=pipes.errors, overflowed=pipes.overflowed
    )


class _RunningPrograms:
    """The programs that run now, so that none of them outlives Python unsupervised."""

    def __init__(self) -> None:
        self._processes: set[Popen[bytes]] = set()
        self._owner = 0  # the process that they belong to: a fork inherits this object
        self._is_closed = False
        self._lock = threading.Lock()

    def start(self, start: Callable[[], Popen[bytes]]) -> Popen[bytes]:
        """Start a program and return it; raise `AmuxError` if Python is exiting."""
        with self._lock:
            if self._is_closed:
                raise _failed("the program is not started while Python exits")
            if self._owner != os.getpid():
                self._owner = os.getpid()
                self._processes.clear()
                atexit.register(self._close)
            process = start()
            self._processes.add(process)
        return process

    def end(self, process: Popen[bytes]) -> None:
        """Kill the group of a program. While Python exits, the calling daemon thread stays here.

        It would report the end of the program to a log that is being taken down.
        """
        with self._lock:
            self._processes.discard(process)
            _kill_group(process)
            is_closed = self._is_closed
        if is_closed:
            threading.Event().wait()

    def _close(self) -> None:
        if self._owner != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                _kill_group(process)


_running: Final = _RunningPrograms()


class _Pipes:
    """Serves the pipes of a program, each in a thread, so that neither side waits for the other."""

    def __init__(self, process: Popen[bytes], given: bytes) -> None:
        self._process = process
        self._read: dict[str, bytearray] = {"output": bytearray(), "errors": bytearray()}
        self.overflowed = False
        self._threads = [
            threading.Thread(target=work, args=arguments, name="hook-pipe", daemon=True)
            for work, arguments in (
                (self._write_all, (process.stdin, given)),
                (self._read_all, (process.stdout, "output")),
                (self._read_all, (process.stderr, "errors")),
            )
        ]
        for thread in self._threads:
            thread.start()

    @property
    def output(self) -> bytes:
        return bytes(self._read["output"])

    @property
    def errors(self) -> bytes:
        return bytes(self._read["errors"])

    def close(self) -> None:
        """Wait for the rest of the output; a process that left the group may keep a pipe open."""
        for thread in self._threads:
            thread.join(_CLOSING_SECONDS)

    def _write_all(self, pipe: IO[bytes], given: bytes) -> None:
        try:
            with pipe:
                pipe.write(given)
        except OSError:
            pass  # the program does not read its input

    def _read_all(self, pipe: IO[bytes], name: str) -> None:
        kept = self._read[name]
        with pipe:
            while part := os.read(pipe.fileno(), 65_536):
                kept += part
                if len(kept) > MAX_OUTPUT:
                    self.overflowed = True
                    _kill_group(self._process)
                    return


def _kill_group(process: Popen[bytes]) -> None:
    """Kill a program and the processes that it started."""
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of them have ended


def _failed(reason: str) -> AmuxError:
    return AmuxError(reason, code=ErrorCode.PLUGIN_ERROR)
