"""What may go wrong with the index. Light: who only has to know of it need not load a database."""

from __future__ import annotations


class IndexUnavailableError(Exception):
    """The index cannot be used now; the sources still can."""


class IndexChangedError(IndexUnavailableError):
    """Somebody else has made anew what was being used; who asks again is answered."""


class UndecodableError(ValueError):
    """What was kept is not what was written."""
