"""Opens the backend that an address names."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amux.errors import StoreError, ValidationError
from amux.rollout.log import Fsync, ThreadLog

if TYPE_CHECKING:
    from amux.store.file_log.index import ThreadIndex

_POSTGRES: Final = ("postgresql://", "postgres://")
MEMORY: Final = "memory:"


def connect(
    base: Path | str | ThreadLog,
    *,
    index: ThreadIndex | Path | str | None = None,
    fsync: Fsync = "turn",
    now: Callable[[], datetime],
) -> ThreadLog:
    """Return the backend for a directory, a `postgresql://` URL or "memory:".

    A backend is returned as it is. Nothing is created before the first write.

    Raises:
        ValidationError: The address cannot be that of a store.
        StoreError: A package that the backend needs is missing.
    """
    if fsync not in {"never", "turn", "always"}:
        raise ValidationError(
            f"`fsync` must be never, turn or always, not `{fsync}`", fields=("fsync",)
        )
    if not isinstance(base, str | Path):
        if not hasattr(base, "append_many"):
            raise _no_address(f"an object of type `{type(base).__name__}`")
        return base
    text = str(base)
    if not text or "\0" in text:
        raise _no_address("a text with a NUL" if text else "an empty text")
    if text.startswith(_POSTGRES):
        try:
            from amux.store.postgres.log import PostgresLog
        except ImportError as error:
            raise StoreError(
                f"a store in PostgreSQL needs the package `{error.name}`",
                hint='pip install "agent-mux[postgres]"',
            ) from error
        return PostgresLog(text, fsync=fsync, now=now)
    if "://" in text:
        raise _no_address(f"`{text.partition('://')[0]}://`")
    if text == MEMORY:
        from amux.store.memory import MemoryLog

        return MemoryLog(now=now)
    if os.name != "posix":
        raise StoreError(
            "the file backend needs a POSIX system",
            hint="use a `postgresql://` URL",
        )
    from amux.store.file_log.file_system_rollout import FileSystemRollout

    return FileSystemRollout(text, index=index, fsync=fsync, now=now)


def _no_address(found: str) -> ValidationError:
    return ValidationError(
        f"{found} is not the address of a store",
        fields=("base",),
        hint="give a directory, a postgresql:// URL or `memory:`",
    )
