"""A backend on another machine, as a toy: every call goes over a socket to another process.

`python remote_log.py <descriptor>` is the other process, which keeps the threads in its memory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from child_processes import SOURCES, child_env

from amux import errors
from amux.errors import AmuxError
from amux.rollout.log import ThreadLog
from amux.store.memory import MemoryLog

TESTS = str(Path(__file__).parent.parent)
_STREAMS = frozenset({"read", "read_back"})


class RemoteLog:
    """The log protocol over a connection. It has no files and knows no path."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            env = child_env(PYTHONPATH=os.pathsep.join((SOURCES, TESTS)))
            self._process = subprocess.Popen(command, env=env, cwd="/", pass_fds=[theirs.fileno()])
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        self._lock = threading.Lock()
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not hasattr(ThreadLog, name):
            raise AttributeError(name)

        def call(*given: Any, **options: Any) -> Any:
            return self._ask(name, given, options)

        def stream(*given: Any, **options: Any) -> Iterator[Any]:
            yield from self._ask(name, given, options)

        return stream if name in _STREAMS else call

    def _ask(self, name: str, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        with self._lock:
            self.calls.append(name)
            self._connection.send((name, given, options))
            error, answer = self._connection.recv()
        if error is not None:
            kind, fields = error
            raised = cast("type[AmuxError]", getattr(errors, kind)).__new__(getattr(errors, kind))
            raised.__dict__ |= fields
            raised.args = (fields["message"],)
            raise raised
        return answer

    def close(self) -> None:
        """End the other process."""
        self._connection.close()
        self._process.wait()


def open_remote() -> ThreadLog:
    """Return a log whose threads another process keeps."""
    return cast("ThreadLog", RemoteLog())


def serve(connection: Connection[Any, Any]) -> None:
    """Answer calls until the other side is gone."""
    log = MemoryLog()
    while True:
        try:
            name, given, options = connection.recv()
        except EOFError:
            return
        try:
            answer: Any = getattr(log, name)(*given, **options)
            connection.send((None, list(answer) if name in _STREAMS else answer))
        except AmuxError as error:
            connection.send(((type(error).__name__, vars(error)), None))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
