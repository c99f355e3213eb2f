"""Stands between a client and a PostgreSQL server, and loses answers when it is told to."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_NAME = ".s.PGSQL.5432"


class LossyServer:
    """Forwards connections. The answer to the next request with some words is lost.

    The server has done what it was asked when the connection breaks, so that the client cannot
    know the outcome.
    """

    def __init__(self, server: Path, folder: Path) -> None:
        self.folder = str(folder)
        self._server = server / _NAME
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _NAME))
        self._listener.listen()
        self._lost: list[bytes] = []
        self.losses = 0

    def lose(self, words: str) -> None:
        """Lose the answer to the next request that contains some words."""
        self._lost.append(words.encode())

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._server))
        with client, server, selectors.DefaultSelector() as selector, suppress(OSError):
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            is_lost = False
            while True:
                for key, _ in selector.select():
                    source, target = (client, server) if key.data is server else (server, client)
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is client and any(words in data for words in self._lost):
                        self._lost.clear()
                        is_lost = True
                    if source is server and is_lost:
                        self.losses += 1
                        return
                    target.sendall(data)
