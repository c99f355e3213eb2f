"""Spawned workers: new interpreters, for processes that must not be forked.

A worker gets its work and each task as pickled values. It imports amux from where this process has
it, ignores the environment, and never imports the main module of the program, which may have no
guard against that, as `multiprocessing` would.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final

from amux.index.worker import HEADER, NO_MORE, PATIENCE_S, READY, receive

_CODE: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from amux.index.worker import serve; serve()"
)


class SpawnedWorkers:
    """New interpreters, each with a thread that gives it tasks and collects its results."""

    def __init__(
        self, tasks: Sequence[object], work: object, numbers: Sequence[int], count: int
    ) -> None:
        self._tasks = _pickled(tasks, numbers)
        self._results: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        with suppress(OSError):  # without any worker, all results are missing
            for worker in range(count):
                self._processes.append(_spawn())
                process = self._processes[-1]
                pipes_and_work = process.stdin, process.stdout, pickle.dumps((worker, work))
                self._threads.append(threading.Thread(target=self._serve, args=pipes_and_work))
                self._threads[-1].start()

    def _serve(self, tasks: IO[bytes], results: IO[bytes], work: bytes) -> None:
        try:
            _send(tasks, 0, work)
            while (message := receive(results)) is not None:
                if message[0] != READY:
                    self._results.put(message)
                    continue
                try:
                    _send(tasks, *self._tasks.popleft())
                except IndexError:
                    _send(tasks, NO_MORE)
        except OSError:
            pass  # the worker has died
        finally:
            self._results.put(None)

    def results(self) -> Iterator[tuple[int, bytes]]:
        """Yield results until all workers have ended."""
        running = len(self._threads)
        while running:
            try:
                result = self._results.get(timeout=1)  # Ctrl-C on Windows waits for it
            except Empty:
                continue
            if result is None:
                running -= 1
            else:
                yield result

    def stop(self) -> None:
        """End all workers and wait for them; one that does not end soon is killed."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.__exit__(None, None, None)  # closes the pipes


def _pickled(tasks: Sequence[object], numbers: Sequence[int]) -> deque[tuple[int, bytes]]:
    """Return the tasks that can be pickled: a source may have a function as a field."""
    pickled: deque[tuple[int, bytes]] = deque()
    for number in numbers:
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            pickled.append((number, pickle.dumps(tasks[number])))
    return pickled


def _spawn() -> subprocess.Popen[bytes]:
    own = str(Path(__file__).parents[2])
    utf8 = f"utf8={sys.flags.utf8_mode}"  # file names must be decoded alike
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-I", "-S", "-X", utf8, "-c", _CODE, own, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def _send(stream: IO[bytes], number: int, data: bytes = b"") -> None:
    stream.write(HEADER.pack(number, len(data)) + data)
    stream.flush()
