"""The errors of the index. Importing this module loads no database driver.

IndexUnavailableError        the index cannot be used; callers read the sources instead
  IndexChangedError          another process replaced rows in use; the question can be repeated
  TextIndexError             only the text index cannot be used; lists still can
    TextIndexBusyError       another process does not finish writing to it
    TextIndexDamagedError    its file is damaged or of another version: delete and rebuild it
"""

from __future__ import annotations

from amux.errors import AmuxError, ErrorCode


class IndexUnavailableError(AmuxError):
    """The index cannot be used now; the sources still can."""

    code = ErrorCode.STORE_ERROR


class IndexChangedError(IndexUnavailableError):
    """Another process replaced the rows in use; asking again gives an answer."""


class TextIndexError(IndexUnavailableError):
    """The text index cannot be used now: no space, no permission."""


class TextIndexBusyError(TextIndexError):
    """Another process writes to the text index and does not finish."""

    code = ErrorCode.STORE_BUSY
    recoverable = True


class TextIndexDamagedError(TextIndexError):
    """The text index is damaged. It holds only derived data: delete and rebuild it."""


class IndexDecodeError(ValueError):
    """A stored value cannot be decoded."""
