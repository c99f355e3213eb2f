"""Many sources at once, on all cores, by forked workers.

A worker inherits the work and the adapters as they are, takes one number after the other from a
shared pipe and writes what it made of it to a pipe of its own. Where forking is impossible or would
be unsafe, the work is done here, in order. It is unsafe while other threads run: a lock that one of
them holds would never be given up in the copy.
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
_MOST_WORKERS: Final = 16


def can_fork() -> bool:
    """Whether this process may be copied: nothing runs in it but its main thread."""
    if not hasattr(os, "fork") or sys.platform == "darwin":
        return False
    # Threads that Python did not start are not counted; being one of them is noticed.
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and threading.active_count() == 1


def core_count() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_through(
    tasks: Sequence[Task], work: Callable[[Task], bytes], *, workers: int
) -> Iterator[tuple[int, bytes]]:
    """Do all tasks and yield (number of the task, result) as they are done, in any order."""
    for task in tasks[:1]:
        yield 0, work(task)  # here: what it loads, the workers inherit
    count = min(workers, len(tasks), _MOST_WORKERS)
    # Asked only now: who took the first result may have started a thread.
    if count < 2 or not can_fork():  # noqa: PLR2004 - one worker has nobody to share with
        for number, task in enumerate(tasks[1:], 1):
            yield number, work(task)
        return
    crew = _Crew(tasks, work, count)
    try:
        yield from crew.results()
    finally:
        crew.dismiss()


class _Crew:
    """Forked workers and the pipes to them."""

    def __init__(self, tasks: Sequence[Task], work: Callable[[Task], bytes], count: int) -> None:
        self._queue, self._feed = os.pipe()
        self._waiting = memoryview(b"".join(map(_NUMBER.pack, range(1, len(tasks)))))
        self._pids: list[int] = []
        self._pipes: list[int] = []
        for _ in range(count):
            self._hire(tasks, work)
        os.close(self._queue)
        os.set_blocking(self._feed, False)

    def _hire(self, tasks: Sequence[Task], work: Callable[[Task], bytes]) -> None:
        inlet, outlet = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who hired us decides
                os.close(inlet)
                os.close(self._feed)
                _serve(self._queue, outlet, tasks, work)
                code = 0
            finally:
                os._exit(code)
        os.close(outlet)
        self._pids.append(pid)
        self._pipes.append(inlet)

    def results(self) -> Iterator[tuple[int, bytes]]:
        """What comes back, until all is done. A worker that died leaves its task undone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._feed, selectors.EVENT_WRITE)
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ, bytearray())
            while selector.get_map():
                for key, _ in selector.select():
                    if key.fd == self._feed:
                        self._hand_out(selector)
                        continue
                    block = os.read(key.fd, _PIPE_BLOCK)
                    if not block:
                        selector.unregister(key.fd)
                        continue
                    key.data.extend(block)
                    yield from _take_messages(key.data)

    def _hand_out(self, selector: selectors.BaseSelector) -> None:
        """Put more numbers into the queue; a block that small is written whole or not at all."""
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

    def dismiss(self) -> None:
        """End whoever is still there and collect all of them."""
        for pipe in (*self._pipes, self._feed):
            if pipe >= 0:
                os.close(pipe)
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _serve(queue: int, outlet: int, tasks: Sequence[Task], work: Callable[[Task], bytes]) -> None:
    gc.freeze()
    gc.disable()  # structs hold no cycles; a worker lives for seconds
    while number := os.read(queue, _NUMBER.size):
        index: int = _NUMBER.unpack(number)[0]
        result = work(tasks[index])
        _write_all(outlet, _HEADER.pack(index, len(result)) + result)


def _write_all(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


def _take_messages(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Cut whole messages off the front of what has arrived."""
    start = 0
    while len(buffer) - start >= _HEADER.size:
        number, length = _HEADER.unpack_from(buffer, start)
        end = start + _HEADER.size + length
        if len(buffer) < end:
            break
        yield number, bytes(buffer[start + _HEADER.size : end])
        start = end
    del buffer[:start]
