"""Appends records to a thread in PostgreSQL: `python postgres_writer.py <url> <thread> <name> <n>`.

After each append that returned, the number is written to stdout.
"""

from __future__ import annotations

import sys

from amux.rollout.records import NewRecord
from amux.store.postgres.log import PostgresLog


def main() -> None:
    url, thread_id, name, count = sys.argv[1:]
    log = PostgresLog(url)
    for number in range(int(count)):
        log.append(thread_id, [NewRecord(payload={"writer": name, "n": number})])
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    log.close()


if __name__ == "__main__":
    main()
