"""Exercise 2: a SQLite index lists sessions without opening their files, and fills itself.

`python ex2_index.py [directory]` runs it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from amux import SessionStore, SqliteSessionIndex, ThreadSummary

SESSIONS = 150


def make_sessions(base: Path) -> None:
    """Start sessions in two projects."""
    with SessionStore(base, fsync="never") as store:
        for number in range(SESSIONS):
            thread = store.start(cwd=f"/project/{number % 2}", model="opus")
            thread.message("user", f"question {number}")


def list_anew(base: Path) -> list[ThreadSummary]:
    """Remove the index, and list: the first question fills a new one from the files."""
    for path in base.glob("state.db*"):
        path.unlink()
    with SessionStore(base) as store:
        assert not (base / "state.db").exists()  # opening a store scans nothing
        started = time.perf_counter()
        store.list(limit=None)
        filled = time.perf_counter()
        listed = store.list(cwd="/project/1", limit=None)
        done = time.perf_counter()
    print(f"filled in {filled - started:.3f} s, listed in {done - filled:.4f} s")
    return listed


def main() -> None:
    """Print the sessions of one project."""
    base = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="amux-ex2-"))
    make_sessions(base)
    listed = list_anew(base)
    index = SqliteSessionIndex(base / "state.db")
    found = index.find_thread(listed[0].thread_id)
    index.close()
    assert found is not None
    print(f"{len(listed)} threads; the newest says: {found.preview}")
    print(found.thread_id, found.cwd, found.created_at, found.last_message_at)


if __name__ == "__main__":
    main()
