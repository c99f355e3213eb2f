"""Processes many sources on all cores, in forked or spawned workers.

A forked worker inherits the tasks and the adapters, takes one task number after the other from a
shared pipe and writes each result to a pipe of its own. Forking is unsafe while other threads run,
because a lock that one of them holds would never be released in the copy, and on macOS: a worker is
then a new interpreter (`index.spawn`), if the work can be pickled. Otherwise the tasks are done in
this process, in order.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import struct
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amux.index.worker import HEADER, NO_MORE, PATIENCE_S, Task, Work, run_worker

if TYPE_CHECKING:
    from amux.index.spawn import SpawnedWorkers

SPAWN_BYTES: Final = 64 << 20
"""Reading less than this takes no longer than starting interpreters, a quarter second each."""

_FORK_BYTES: Final = 8 << 20
_MAX_WORKERS: Final = 16
_NUMBER: Final = struct.Struct("<I")
_PIPE_BLOCK: Final = 1 << 18
_QUEUE_BLOCK: Final = 64 * _NUMBER.size


def can_fork() -> bool:
    """Return whether this process may be forked: only its main thread is running."""
    if not hasattr(os, "fork") or sys.platform == "darwin":
        return False
    # Python does not count threads it did not start, but shows that this is one of them.
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and threading.active_count() == 1


def can_spawn() -> bool:
    """Return whether the executable of this process is a Python, not a program that embeds one."""
    name = Path(sys.executable or "").name.lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_count(size: int) -> int:
    """Return how many processes should share reading `size` bytes; 1 if this one should do it."""
    is_large = size > (_FORK_BYTES if can_fork() else SPAWN_BYTES)
    return min(core_count(), _MAX_WORKERS) if is_large else 1


def work_through(
    tasks: Sequence[Task],
    work: Work[Task],
    *,
    workers: int,
    portable: Work[Task] | None = None,
    first_here: bool = True,
) -> Generator[tuple[int, bytes]]:
    """Do all tasks and yield (number of the task, result) as they finish, in any order.

    `portable` does the same as `work` and can be pickled; without it no worker is spawned. The
    results of a worker that died are missing, and those of tasks that cannot be pickled. The first
    task is done in this process, so that forked workers inherit the modules it imports, unless
    `first_here` is False.
    """
    numbers = range(len(tasks))
    if first_here:
        yield from _work_here(tasks, work, numbers[:1])
        numbers = numbers[1:]
    # Checked only now: the consumer of the first result may have started a thread.
    count = min(workers, len(tasks), _MAX_WORKERS)
    pool = _start(tasks, work, portable, numbers, count) if count > 1 else None
    if pool is None:
        yield from _work_here(tasks, work, numbers)
        return
    try:
        yield from pool.results()
    finally:
        pool.stop()


def _start(
    tasks: Sequence[Task],
    work: Work[Task],
    portable: Work[Task] | None,
    numbers: Sequence[int],
    count: int,
) -> _ForkedWorkers | SpawnedWorkers | None:
    """Return running workers; None if there cannot be any."""
    if can_fork():
        return _ForkedWorkers(tasks, work, numbers, count)
    if portable is None or not can_spawn():
        return None
    from amux.index.spawn import SpawnedWorkers

    return SpawnedWorkers(tasks, portable, numbers, count)


def _work_here(
    tasks: Sequence[Task], work: Work[Task], numbers: Sequence[int]
) -> Iterator[tuple[int, bytes]]:
    current = 0

    def taken() -> Iterator[Task]:
        nonlocal current
        for current in numbers:
            yield tasks[current]

    if numbers:
        for result in work(0, taken()):
            yield current, result


class _ForkedWorkers:
    """Forked workers and the pipes to them."""

    def __init__(
        self, tasks: Sequence[Any], work: Work[Any], numbers: Sequence[int], count: int
    ) -> None:
        self._queue, self._feed = os.pipe()
        waiting = (*numbers, *[NO_MORE] * count)
        self._waiting = memoryview(b"".join(map(_NUMBER.pack, waiting)))
        self._pids: list[int] = []
        self._pipes: list[int] = []
        for worker in range(count):
            self._fork(tasks, work, worker)
        os.close(self._queue)
        os.set_blocking(self._feed, False)

    def _fork(self, tasks: Sequence[Any], work: Work[Any], worker: int) -> None:
        input_, output = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(input_)
                os.close(self._feed)
                gc.freeze()
                run_worker(work, worker, self._taken(tasks), output)
                code = 0
            finally:
                os._exit(code)
        os.close(output)
        self._pids.append(pid)
        self._pipes.append(input_)

    def _taken(self, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the tasks of one worker and their numbers, as the worker asks for them."""
        while data := os.read(self._queue, _NUMBER.size):
            number: int = _NUMBER.unpack(data)[0]
            if number == NO_MORE:
                return
            yield number, tasks[number]
        raise EOFError  # the parent process has died

    def results(self) -> Iterator[tuple[int, bytes]]:
        """Yield results until all workers have ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._feed, selectors.EVENT_WRITE)
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ, bytearray())
            while selector.get_map():
                for key, _ in selector.select():
                    if key.fd == self._feed:
                        self._feed_queue(selector)
                        continue
                    block = os.read(key.fd, _PIPE_BLOCK)
                    if not block:
                        selector.unregister(key.fd)
                        continue
                    key.data.extend(block)
                    yield from _take_messages(key.data)

    def _feed_queue(self, selector: selectors.BaseSelector) -> None:
        """Write more numbers to the queue; such a small block is written whole or not at all."""
        try:
            os.write(self._feed, self._waiting[:_QUEUE_BLOCK])
            self._waiting = self._waiting[_QUEUE_BLOCK:]
        except BlockingIOError:
            return
        except BrokenPipeError:  # every worker has died
            self._waiting = self._waiting[:0]
        if not self._waiting:
            selector.unregister(self._feed)
            os.close(self._feed)
            self._feed = -1

    def stop(self) -> None:
        """End all workers and wait for them; one that does not end soon is killed."""
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pipe in (*self._pipes, self._feed):
            if pipe >= 0:
                os.close(pipe)
        deadline = time.monotonic() + PATIENCE_S
        for pid in self._pids:
            with suppress(ChildProcessError):
                while os.waitpid(pid, os.WNOHANG)[0] == 0:
                    if time.monotonic() > deadline:
                        os.kill(pid, signal.SIGKILL)
                    time.sleep(0.001)


def _take_messages(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Remove all complete messages from the start of the buffer and yield them."""
    start = 0
    while len(buffer) - start >= HEADER.size:
        number, length = HEADER.unpack_from(buffer, start)
        end = start + HEADER.size + length
        if len(buffer) < end:
            break
        yield number, bytes(buffer[start + HEADER.size : end])
        start = end
    del buffer[:start]
