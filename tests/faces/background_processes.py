"""Watches the background indexer: waits for its end, finds its processes, kills it."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from amux.durable import lock
from amux.index.database import index_path
from amux.index.indexer_lock import IndexerLock, IndexerRecord

PROGRAM = b"amux.faces.cli.background"
LONGEST_S = 60


def lock_of(cache: Path) -> Path:
    return cache / "indexer.lock"


def wait_for_indexer(cache: Path) -> None:
    """Return when no indexer holds the lock and none of its processes is left."""
    if lock_of(cache).exists():
        descriptor = os.open(lock_of(cache), os.O_RDWR)
        lock(descriptor)
        os.close(descriptor)
    for pid in processes_of(cache):
        assert ends_within(pid, LONGEST_S), f"{pid} is still there"


def processes_of(cache: Path) -> list[int]:
    """The processes that run the program of the indexer for a cache directory, workers too."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if PROGRAM not in (entry / "cmdline").read_bytes():
                continue
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"AMUX_CACHE_DIR={cache}".encode() in environment:
            found.append(int(entry.name))
    return found


def ends_within(pid: int, seconds: float) -> bool:
    """Whether a process that need not be a child of ours ends so soon."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def running_record(home: Path, cache: Path) -> IndexerRecord:
    """What the running indexer has written about itself, as soon as it has."""
    found = IndexerLock(index_path(cache, home))
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        record = found.record()
        if record is not None and record.ended_at is None:
            return record
    raise AssertionError("no indexer has written its record")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert ends_within(pid, LONGEST_S)
