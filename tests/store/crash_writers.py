"""Writers that are killed while they append, forked from one process that has imported everything.

`python crash_writers.py <directory> <thread>` forks one writer for each line `start <name>`
that it reads, and prints its pid. A writer appends records and, after each append returned, writes
the record's number to `<directory>/acks/<name>` with one `write`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from amux.rollout.records import NewRecord
from amux.store.file_log.log import FileLog


def write_for_ever(base: Path, thread_id: str, name: str) -> None:
    acks = os.open(base / "acks" / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = FileLog(base / "store")
    number = 0
    while True:
        number += 1
        size = (number * 7919) % 20_000
        batch = [
            NewRecord(payload={"writer": name, "n": number, "part": part, "text": "x" * size})
            for part in range(1 + number % 3)
        ]
        log.append(thread_id, batch)
        os.write(acks, b"%d\n" % number)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead leave nothing behind
    base, thread_id = Path(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        name = line.split()[1]
        pid = os.fork()
        if pid == 0:
            write_for_ever(base, thread_id, name)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
