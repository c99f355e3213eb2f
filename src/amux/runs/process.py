"""The process of an agent without a terminal: its group, its pipes, its time limits and its end.

The agent leads a session and a process group of its own. The group ends with the run: first with
SIGTERM, after a grace period with SIGKILL, also if the agent itself ends and leaves children
behind, if the caller stops reading, and when the interpreter exits. One thread reads; any thread
may interrupt or stop the agent.

Output is read in lines. A line that is longer than `LONGEST_LINE` is cut, so that an agent which
prints garbage without an end fills no memory.
"""

from __future__ import annotations

import atexit
import errno
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO, Final, Literal, cast

from amux.errors import AmuxError, ErrorCode

LONGEST_LINE: Final = 16 * 1024 * 1024
GRACE_S: Final = 5.0
_CHUNK: Final = 256 * 1024
_PIPE_CHUNKS: Final = 64  # more than a pipe holds: a child may write for ever
_STDERR_KEPT: Final = 16 * 1024
_REAPED_S: Final = 0.02  # between two looks at a group that is ending
_GLANCE_S: Final = 0.1  # between two looks at a process without a descriptor for its end
_LEFTOVERS_S: Final = 1.0  # the grace for children that an ended agent left behind

Cause = Literal["timeout", "inactivity", "aborted"]

_running: set[AgentProcess] = set()
_running_lock: Final = Lock()


class AgentProcess:
    """A started agent. Iterating yields its lines until it ends; then `exit_code` is set.

    `cause` says why the agent was stopped, None if it ended by itself. `errors` is the end of its
    standard error.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        stdin: str | None = None,
        timeout: float | None = None,
        inactivity_timeout: float | None = None,
        grace: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._grace = clock, grace
        self._timeout, self._inactivity = timeout, inactivity_timeout
        self._input = memoryview(b"" if stdin is None else stdin.encode("utf-8", "surrogateescape"))
        self._woken, self._waker = os.pipe()  # wakes the reading thread
        try:
            os.set_blocking(self._waker, False)
            self._popen = _spawn(argv, cwd=cwd, env=env, has_input=stdin is not None)
        except BaseException:
            os.close(self._woken)
            os.close(self._waker)
            raise
        self._begun = self._active = clock()
        self._lock = Lock()  # of the signals: none is sent after the process was reaped
        self._is_reaped = False
        self._kill_at: float | None = None
        self._errors: deque[bytes] = deque()
        self._errors_size = 0
        self.pid = self._popen.pid
        self.cause: Cause | None = None
        self.exit_code: int | None = None
        with _running_lock:
            _running.add(self)

    @property
    def errors(self) -> str:
        """The end of the standard error."""
        return b"".join(self._errors)[-_STDERR_KEPT:].decode("utf-8", "replace").strip()

    def lines(self) -> Generator[bytes]:
        """Yield the lines of the output with their ends; the agent has ended after the last."""
        try:
            yield from self._read()
        finally:
            self.close()

    def signal(self, sign: int) -> bool:
        """Send a signal to the group; return whether the agent still runs."""
        with self._lock:
            if self._is_reaped:
                return False
            return _signal_group(self.pid, sign)

    def limit(self, seconds: float) -> None:
        """Shorten the time limit to so many seconds from now."""
        total = self._clock() - self._begun + seconds
        self._timeout = total if self._timeout is None else min(self._timeout, total)

    def request_stop(self, cause: Cause = "aborted") -> None:
        """Ask the group to end and return at once; the reading thread kills it after the grace.

        A second request kills it without further delay. Signal handlers may call this.
        """
        now = self._clock()
        self.cause = self.cause or cause
        if self._kill_at is None:
            self._kill_at = now + self._grace
            sign = signal.SIGTERM
        else:
            self._kill_at = now
            sign = signal.SIGKILL
        if not self._is_reaped:  # without the lock, which the interrupted thread may hold
            _signal_group(self.pid, sign)
        with suppress(OSError):
            os.write(self._waker, b"!")

    def stop(self, cause: Cause, *, grace: float | None = None) -> None:
        """End the group: SIGTERM, then SIGKILL after the grace period. Returns when it is done."""
        if self.cause is None and not self._is_reaped and not self._has_ended():
            self.cause = cause
        if not self.signal(signal.SIGTERM):
            return
        deadline = time.monotonic() + (self._grace if grace is None else grace)
        while not self._has_ended():
            if time.monotonic() >= deadline:
                self.signal(signal.SIGKILL)
                return
            time.sleep(_REAPED_S)

    def close(self) -> None:
        """End the agent, its children and the pipes; later calls do nothing."""
        if self.exit_code is None:
            self.stop("aborted")
            self._reap()
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if stream is not None:
                with suppress(OSError):  # the rest of a prompt that the agent does not want
                    stream.close()
        with _running_lock:
            if self in _running:
                _running.discard(self)
                waker, self._waker = self._waker, -1
                os.close(self._woken)
                os.close(waker)

    def _read(self) -> Iterator[bytes]:
        """Yield lines until the agent has ended and its pipes are empty."""
        lines = _LineSplitter()
        with selectors.DefaultSelector() as selector:
            ended = self._register(selector)
            try:
                is_over = False
                while not is_over:
                    chunks, is_over = self._poll(selector, ended)
                    for chunk in chunks:
                        yield from lines.feed(chunk)
            finally:
                if ended is not None:
                    os.close(ended)
        yield from lines.rest()

    def _register(self, selector: selectors.BaseSelector) -> int | None:
        """Add the pipes to the selector; return a descriptor for the end of the process."""
        popen = self._popen
        for stream, events in (
            (popen.stdout, selectors.EVENT_READ),
            (popen.stderr, selectors.EVENT_READ),
            (popen.stdin, selectors.EVENT_WRITE),
        ):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, events)
        selector.register(self._woken, selectors.EVENT_READ)
        with suppress(AttributeError, OSError):  # only Linux has it
            ended = os.pidfd_open(self.pid)
            selector.register(ended, selectors.EVENT_READ)
            return ended
        return None

    def _poll(
        self, selector: selectors.BaseSelector, ended: int | None
    ) -> tuple[list[bytes], bool]:
        """Wait for output; return it, and whether it was the last."""
        wait = self._remaining()
        if ended is None:
            wait = _GLANCE_S if wait is None else min(wait, _GLANCE_S)
        ready = selector.select(wait)
        chunks: list[bytes] = []
        for key, _ in ready:
            stream = key.fileobj
            if self._popen.stdin is not None and stream is self._popen.stdin:
                self._write(selector, self._popen.stdin)
            elif stream == self._woken:
                os.read(self._woken, _CHUNK)
            elif stream is not ended and not isinstance(stream, int):
                self._take(selector, cast("IO[bytes]", stream), chunks)
        if self._has_ended():
            chunks += self._drain(selector)
            return chunks, True
        self._enforce_limits()
        return chunks, False

    def _drain(self, selector: selectors.BaseSelector) -> list[bytes]:
        """Return everything that is left in the pipe; a child may still hold it open."""
        chunks: list[bytes] = []
        for stream in (self._popen.stdout, self._popen.stderr):
            for _ in range(_PIPE_CHUNKS):
                if stream is None or stream not in selector.get_map():
                    break
                if not self._take(selector, stream, chunks):
                    break
        self._reap()
        return chunks

    def _take(
        self, selector: selectors.BaseSelector, stream: IO[bytes], chunks: list[bytes]
    ) -> bool:
        """Read a part of the output into `chunks` or of the errors; return whether any came."""
        try:
            chunk = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            selector.unregister(stream)
            return False
        self._active = self._clock()
        if stream is self._popen.stdout:
            chunks.append(chunk)
            return True
        self._errors.append(chunk)
        self._errors_size += len(chunk)
        while self._errors_size - len(self._errors[0]) > _STDERR_KEPT:
            self._errors_size -= len(self._errors.popleft())
        return True

    def _write(self, selector: selectors.BaseSelector, stream: IO[bytes]) -> None:
        """Write a part of the prompt; close the pipe after the last, or if it is broken."""
        try:
            if self._input:
                written = os.write(stream.fileno(), self._input[:_CHUNK])
                self._input = self._input[written:]
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            self._input = memoryview(b"")
        if not self._input:
            selector.unregister(stream)
            stream.close()

    def _remaining(self) -> float | None:
        """Return the seconds until the next limit; None if there is none."""
        if self._kill_at is not None:
            return max(self._kill_at - self._clock(), 0.0)
        limits = [
            start + seconds
            for start, seconds in ((self._begun, self._timeout), (self._active, self._inactivity))
            if seconds is not None
        ]
        return max(min(limits) - self._clock(), 0.0) if limits else None

    def _enforce_limits(self) -> None:
        """Ask the agent to end if its time is up; kill it if it does not. Output is still read."""
        now = self._clock()
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._kill_at = now + _GLANCE_S
                self.signal(signal.SIGKILL)
            return
        if self._timeout is not None and now >= self._begun + self._timeout:
            self.cause = self.cause or "timeout"
        elif self._inactivity is not None and now >= self._active + self._inactivity:
            self.cause = self.cause or "inactivity"
        else:
            return
        self._kill_at = now + self._grace
        self.signal(signal.SIGTERM)

    def _has_ended(self) -> bool:
        """Return whether the agent has ended; it is not reaped, so that its id stays its own."""
        with self._lock:
            if self._is_reaped:
                return True
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            try:
                return os.waitid(os.P_PID, self.pid, flags) is not None
            except ChildProcessError:  # another part of this program has reaped it
                return True

    def _reap(self) -> None:
        """End the children that the agent left behind, and take its exit code."""
        with self._lock:
            if self._is_reaped:
                return
            _signal_group(self.pid, signal.SIGTERM)
            self.exit_code = self._popen.wait()
            self._is_reaped = True
        deadline = time.monotonic() + _LEFTOVERS_S
        while _signal_group(self.pid, 0) and _has_living_members(self.pid):
            if time.monotonic() >= deadline:
                _signal_group(self.pid, signal.SIGKILL)
                return
            time.sleep(_REAPED_S)


class _LineSplitter:
    """Splits chunks into lines; a line that is too long loses everything after the limit."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk completes."""
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield self._with_parts(line) + b"\n"
        room = LONGEST_LINE - self._size
        if last and room > 0:
            self._parts.append(last[:room])
            self._size += len(self._parts[-1])

    def rest(self) -> Iterator[bytes]:
        """Yield the last line if it has no end."""
        if self._parts:
            yield self._with_parts(b"")

    def _with_parts(self, line: bytes) -> bytes:
        if not self._parts:
            return line[:LONGEST_LINE]
        parts, room = self._parts, LONGEST_LINE - self._size
        self._parts, self._size = [], 0
        return b"".join(parts) + line[: max(room, 0)]


def _spawn(
    argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str], has_input: bool
) -> subprocess.Popen[bytes]:
    if sys.platform == "win32":
        raise AmuxError(
            "agents run without a terminal only on Linux and macOS",
            code=ErrorCode.SPAWN_ERROR,
            hint="start the agent without a prompt",
        )
    try:
        return subprocess.Popen(  # noqa: S603 - no shell: arguments are passed unchanged
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = None
        if isinstance(error, OSError) and error.errno == errno.E2BIG:
            hint = "the prompt is too long for an argument of a program"
        raise AmuxError(
            f"`{argv[0]}` cannot be started: {reason}", code=ErrorCode.SPAWN_ERROR, hint=hint
        ) from error


def _signal_group(group: int, sign: int) -> bool:
    """Send a signal to a group; return False if no process of it is left."""
    try:
        os.killpg(group, sign)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: only processes that have ended are left
        return False
    return True


def _has_living_members(group: int) -> bool:
    """Return whether a process of the group still runs; unknown counts as true.

    A container may lack a process that reaps orphans: these stay in the group after their end.
    """
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - names are enough
    except OSError:
        return True
    for name in entries:
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - thousands of files
                    state, _, of_group = file.read().rpartition(b")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            if of_group == str(group).encode() and state != b"Z":
                return True
    return False


@atexit.register
def _end_all() -> None:
    """End the agents of runs that were never finished."""
    with _running_lock:
        left = list(_running)
    for process in left:
        process.close()
