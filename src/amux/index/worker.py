"""One worker process: takes tasks, does them, and sends the results to the process that started it.

A forked worker is a copy of its parent process (`index.pool`); a spawned one is a new interpreter,
which runs `serve` (`index.spawn`).
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import IO, Any, Final, TypeVar

Task = TypeVar("Task")
Work = Callable[[int, Iterator[Task]], Generator[bytes]]
"""The function of one worker: it gets its number and its tasks, and yields results."""

HEADER: Final = struct.Struct("<IQ")
"""The number of the task that a message belongs to, and the length of the message."""

NO_MORE: Final = (1 << 32) - 1
"""Stands for the number of a task: there is none left."""

READY: Final = NO_MORE - 1
"""Stands for the number of a task: a spawned worker asks for its next one."""

PATIENCE_S: Final = 5.0
"""Seconds for a worker that is told to end to save its work; then it is killed."""


def _send(output: int, number: int, result: bytes = b"") -> None:
    """Send a result to the parent process; raise BrokenPipeError if that has ended."""
    view = memoryview(HEADER.pack(number, len(result)) + result)
    while view:
        view = view[os.write(output, view) :]


def _end(number: int, frame: object) -> None:
    """End this process as by an exception, so that the work can save what it has."""
    del number, frame
    sys.exit(1)


def run_worker(work: Work[Any], worker: int, taken: Iterator[tuple[int, Any]], output: int) -> None:
    """Do tasks in a process of its own until there are none, or until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    signal.signal(signal.SIGTERM, _end)
    gc.disable()  # structs hold no cycles; a worker lives for seconds
    current = 0

    def tasks() -> Iterator[Any]:
        nonlocal current
        for number, task in taken:
            current = number
            yield task

    with closing(work(worker, tasks())) as results:
        for result in results:
            _send(output, current, result)


def serve() -> None:
    """Be a spawned worker: do the tasks that arrive at the standard input."""
    import pickle

    input_, output = sys.stdin.buffer, os.dup(1)
    os.dup2(2, 1)  # no other module may write results

    def taken() -> Iterator[tuple[int, Any]]:
        while True:
            _send(output, READY)
            message = receive(input_)
            if message is None:
                raise EOFError  # the parent process has died
            if message[0] == NO_MORE:
                return
            yield message[0], pickle.loads(message[1])  # noqa: S301 - from our parent process

    first = receive(input_)
    if first is not None:
        worker, work = pickle.loads(first[1])  # noqa: S301 - from our parent process
        run_worker(work, worker, taken(), output)


def receive(stream: IO[bytes]) -> tuple[int, bytes] | None:
    """Return the next message and its number; None if there is none left."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    number, length = HEADER.unpack(header)
    data = stream.read(length)
    return (number, data) if len(data) == length else None
