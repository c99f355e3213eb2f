"""Exercise 1: the first line of a session's file says where, when and for whom it was started.

`python ex1_rollout.py [directory]` runs it.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from amux import FileSystemRollout, SessionMeta, new_run_session_id, new_thread_id


def record_session(base: Path) -> Path:
    """Open a session, record one message and return its file."""
    meta = SessionMeta(
        thread_id=new_thread_id(),
        session_id=new_run_session_id(),
        created_at=datetime.now(UTC),
        cwd="/project",
        model="opus",
        git_sha="0123abc",
        agent_role="reviewer",
    )
    storage = FileSystemRollout(base)
    with storage.record(meta) as recorder:
        recorder.append_event({"type": "message", "role": "user", "content": "Hello"})
    path = storage.path_of(meta.thread_id)
    storage.close()
    return path


def main() -> None:
    """Print the lines of a new session."""
    base = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="amux-ex1-")
    path = record_session(Path(base))
    print(path)
    print(path.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
