"""A process that writes to a session database: `python session_db_writer.py PATH NAME COUNT`.

It prints a line when a message is stored. The tests start several of these, and kill them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from amux import SessionDB


def main(path: Path, name: str, count: int) -> None:
    with SessionDB(path) as db:
        db.create_session(name, "cli")
        for number in range(count):
            db.append_message(name, "user", f"message {number} of {name}")
            print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
