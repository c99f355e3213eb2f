"""`AmuxStorage`: Strands Agents keeps its snapshots, and other bytes, in an amux store.

    from strands.session.snapshot_session_manager import SnapshotSessionManager
    from amux.integrations.strands_storage import AmuxStorage

    manager = SnapshotSessionManager("user-17", storage=AmuxStorage("~/.myagent"))

Every key is a value of the store, which is replaced and not logged. The bytes are opaque: there is
no list of sessions, no search and no cost. `AmuxSessionRepository` has these.
"""

from __future__ import annotations

import builtins
import copy
import re
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

try:
    from strands.storage.search.keyword import KeywordSearchStrategy
    from strands.storage.storage import StorageSearchResult
    from strands.types.exceptions import StorageError
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "Strands Agents", "strands") from error

from amux.errors import AmuxError
from amux.integrations._common import StoreAddress, open_store
from amux.store.session_store import SessionStore
from amux.workers import run_in_worker

T = TypeVar("T")

try:  # private to the framework: tells it that a storage has its prefix already
    from strands.storage.storage import _NAMESPACED
except ImportError:
    _NAMESPACED = None

_KEY: Final = ("strands", "storage")


class AmuxStorage:
    """Bytes of Strands Agents in a directory, a database or an open store."""

    def __init__(self, store: StoreAddress) -> None:
        self.store = open_store(store)
        self._owns_store = not isinstance(store, SessionStore)
        self._log = self.store.log
        self._prefix = ""
        self._namespaced: object = None

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key in place of those it had."""
        await _call(self._log.put_value, self._key(key), bytes(data))

    async def read(self, key: str) -> bytes | None:
        """Return the bytes of a key; None if there are none."""
        found = await _call(self._log.get_value, self._key(key))
        return None if found is None else found.data

    async def delete(self, key: str) -> None:
        """Delete the bytes of a key, if there are any."""
        await _call(self._log.delete_value, self._key(key))

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys that begin with a text, sorted."""
        prefix = self._prefix + _checked(query).lstrip("/")
        keys = await _call(self._log.list_values, _KEY)
        names = ("/".join(key[len(_KEY) :]) for key in keys)
        return sorted(name.removeprefix(self._prefix) for name in names if name.startswith(prefix))

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Return the keys whose names or contents have words of a query, the best first."""
        return await KeywordSearchStrategy().search(self, query)

    def namespace(self, prefix: str) -> Self:
        """Return a storage of the keys below a prefix, which it leaves out of their names."""
        scoped = copy.copy(self)
        below = _checked(prefix).strip("/")
        name = f"{self._prefix}{below}/" if below else self._prefix
        scoped._prefix = name  # noqa: SLF001  # a copy of our own
        scoped._owns_store = False  # noqa: SLF001
        scoped._namespaced = _NAMESPACED  # noqa: SLF001
        return scoped

    def close(self) -> None:
        """Close the store, if the storage opened it."""
        if self._owns_store:
            self.store.close()

    def _key(self, key: str) -> tuple[str, ...]:
        """Return the key of a value; each segment is a part of it, which an erasure looks for."""
        return *_KEY, *(self._prefix + _clean(key)).split("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _call(function: Callable[..., T], *args: Any) -> T:
    try:
        return await run_in_worker(function, *args)
    except AmuxError as error:
        raise StorageError(error.message) from error


def _clean(key: str) -> str:
    """Return a key without superfluous slashes, as the storages of the framework treat it."""
    clean = _checked(key).strip("/")
    if not clean:
        raise StorageError("Storage key must not be empty")
    return clean


def _checked(key: str) -> str:
    if "\\" in key or ".." in key.split("/"):
        raise StorageError(f"Invalid storage key '{key}': it has a backslash or a '..' segment")
    return re.sub(r"/+", "/", key)
