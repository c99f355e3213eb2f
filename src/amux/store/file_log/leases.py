"""Turn leases as files: which process runs the turn of a thread, and until when.

The caller holds the lock of the thread. A lease is lost when it expires, or at once if its process
died on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from amux.errors import TurnInProgressError
from amux.rollout.log import Lease
from amux.rollout.records import new_record_id
from amux.store.file_log.layout import as_store_error, write_file


class LeaseFiles:
    """The leases of a store. All methods are called with the lock of the thread held."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._now = now

    def acquire(self, thread_id: str, owner: str, seconds: float) -> Lease:
        """Write a new lease; raise `TurnInProgressError` while another one is valid."""
        held = self.current(thread_id)
        if held is not None:
            where = f"process {held.pid} on {held.host}"
            raise TurnInProgressError(
                f"a turn of thread `{thread_id}` is running in {where}",
                thread_id=thread_id,
                owner=held.owner,
                hint="wait for its end, interrupt it, or fork the thread",
            )
        lease = Lease(
            thread_id=thread_id,
            token=new_record_id(),
            owner=owner,
            expires_at=self._now() + timedelta(seconds=seconds),
            pid=os.getpid(),
            host=os.uname().nodename,
        )
        self._write(lease)
        return lease

    def renew(self, lease: Lease, seconds: float) -> Lease | None:
        """Extend a lease; return None if it was lost."""
        held = self._read(lease.thread_id)
        if held is None or held.token != lease.token:
            return None
        renewed = msgspec.structs.replace(held, expires_at=self._now() + timedelta(seconds=seconds))
        self._write(renewed)
        return renewed

    def release(self, lease: Lease) -> bool:
        """Remove a lease; return False if it was lost before."""
        held = self._read(lease.thread_id)
        if held is None or held.token != lease.token:
            return False
        return self.remove(lease.thread_id)

    def remove(self, thread_id: str) -> bool:
        """Remove whatever lease a thread has."""
        path = self._path(thread_id)
        try:
            with as_store_error("delete", path):
                path.unlink()
        except FileNotFoundError:
            return False
        return True

    def current(self, thread_id: str) -> Lease | None:
        """Return the valid lease of a thread; None if there is none."""
        held = self._read(thread_id)
        if held is None or held.expires_at <= self._now() or _has_died(held):
            return None
        return held

    def _read(self, thread_id: str) -> Lease | None:
        path = self._path(thread_id)
        try:
            with as_store_error("read", path):
                return msgspec.json.decode(path.read_bytes(), type=Lease)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _write(self, lease: Lease) -> None:
        write_file(self._path(lease.thread_id), msgspec.json.encode(lease))

    def _path(self, thread_id: str) -> Path:
        return self._folder / f"{thread_id}.json"


def _has_died(lease: Lease) -> bool:
    """Return whether the process of a lease is known to be gone."""
    if lease.pid is None or lease.host != os.uname().nodename:
        return False
    try:
        os.kill(lease.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
