"""What can be wrong with the index; SQLite's own errors never leave it."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from amux.errors import AmuxError, ErrorCode

REBUILD_HINT: Final = "delete it: nothing is lost, the next search builds a new one"

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NOT_THE_FILES_FAULT: Final = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


class IndexUnusableError(AmuxError):
    """The index cannot be used now: no room, no permission. The agents' files can."""

    code = ErrorCode.STORE_ERROR


class IndexBusyError(IndexUnusableError):
    """Another process writes to the index and does not come to an end."""

    code = ErrorCode.STORE_BUSY
    recoverable = True


class IndexDamagedError(IndexUnusableError):
    """The index is not what was written. It holds nothing of its own: delete and rebuild it."""


@contextmanager
def translated() -> Generator[None]:
    """Errors of SQLite as errors of the index."""
    try:
        yield
    except (sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
        # A mistake of ours, or it was closed meanwhile. It is not the file's fault.
        raise IndexUnusableError(f"the index cannot be used ({error})") from error
    except sqlite3.DatabaseError as error:
        raise _translate(error) from error
    except UnicodeDecodeError as error:
        raise IndexDamagedError(f"the index holds text that is none ({error})") from error


def _translate(error: sqlite3.DatabaseError) -> IndexUnusableError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in _BUSY:
        return IndexBusyError("the index is being written to", hint="try again in a moment")
    if code in _NOT_THE_FILES_FAULT:
        return IndexUnusableError(f"the index cannot be used ({error})")
    return IndexDamagedError(f"the index is damaged ({error})", hint=REBUILD_HINT)
