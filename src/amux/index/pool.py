"""Processes many sources on all cores, in forked workers.

A worker inherits the tasks and the adapters, takes one task number after the other from a shared
pipe and writes each result to a pipe of its own. If forking is impossible or unsafe, the tasks are
done in this process, in order. Forking is unsafe while other threads run: a lock that one of them
holds would never be released in the copy.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

Task = TypeVar("Task")

_NUMBER: Final = struct.Struct("<I")
_HEADER: Final = struct.Struct("<IQ")
_PIPE_BLOCK: Final = 1 << 18
_QUEUE_BLOCK: Final = 64 * _NUMBER.size
_MAX_WORKERS: Final = 16


def can_fork() -> bool:
    """Return whether this process may be forked: only its main thread is running."""
    if not hasattr(os, "fork") or sys.platform == "darwin":
        return False
    # Python does not count threads it did not start, but shows that this is one of them.
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and threading.active_count() == 1


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_through(
    tasks: Sequence[Task], work: Callable[[Task], bytes], *, workers: int
) -> Iterator[tuple[int, bytes]]:
    """Do all tasks and yield (number of the task, result) as they finish, in any order."""
    for task in tasks[:1]:
        yield 0, work(task)  # in this process: workers inherit the modules it imports
    count = min(workers, len(tasks), _MAX_WORKERS)
    # Checked only now: the consumer of the first result may have started a thread.
    if count < 2 or not can_fork():  # noqa: PLR2004 - a single worker gains nothing
        for number, task in enumerate(tasks[1:], 1):
            yield number, work(task)
        return
    forked = _Workers(tasks, work, count)
    try:
        yield from forked.results()
    finally:
        forked.stop()


class _Workers:
    """Forked workers and the pipes to them."""

    def __init__(self, tasks: Sequence[Task], work: Callable[[Task], bytes], count: int) -> None:
        self._queue, self._feed = os.pipe()
        self._waiting = memoryview(b"".join(map(_NUMBER.pack, range(1, len(tasks)))))
        self._pids: list[int] = []
        self._pipes: list[int] = []
        for _ in range(count):
            self._fork(tasks, work)
        os.close(self._queue)
        os.set_blocking(self._feed, False)

    def _fork(self, tasks: Sequence[Task], work: Callable[[Task], bytes]) -> None:
        input_, output = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
                os.close(input_)
                os.close(self._feed)
                _work(self._queue, output, tasks, work)
                code = 0
            finally:
                os._exit(code)
        os.close(output)
        self._pids.append(pid)
        self._pipes.append(input_)

    def results(self) -> Iterator[tuple[int, bytes]]:
        """Yield results until all tasks are done; the task of a worker that died is missing."""
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
        """End all workers and wait for them."""
        for pipe in (*self._pipes, self._feed):
            if pipe >= 0:
                os.close(pipe)
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _work(queue: int, output: int, tasks: Sequence[Task], work: Callable[[Task], bytes]) -> None:
    gc.freeze()
    gc.disable()  # structs hold no cycles; a worker lives for seconds
    while number := os.read(queue, _NUMBER.size):
        index: int = _NUMBER.unpack(number)[0]
        result = work(tasks[index])
        view = memoryview(_HEADER.pack(index, len(result)) + result)
        while view:
            view = view[os.write(output, view) :]


def _take_messages(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Remove all complete messages from the start of the buffer and yield them."""
    start = 0
    while len(buffer) - start >= _HEADER.size:
        number, length = _HEADER.unpack_from(buffer, start)
        end = start + _HEADER.size + length
        if len(buffer) < end:
            break
        yield number, bytes(buffer[start + _HEADER.size : end])
        start = end
    del buffer[:start]
