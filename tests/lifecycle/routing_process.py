"""A process that routes the first message of a chat when it is told to.

`python routing_process.py <store> <words>...` prints "ready", waits for a line, routes one message
per word and prints the ids of the threads and the runs.
"""

from __future__ import annotations

import sys

from amux.lifecycle.message_source import SessionSource
from amux.lifecycle.router import SourceRouter
from amux.store.session_store import SessionStore


def main() -> None:
    address, *words = sys.argv[1:]
    with SessionStore(address) as store:
        router = SourceRouter(store)
        print("ready", flush=True)
        sys.stdin.readline()
        for word in words:
            thread = router.route(SessionSource("telegram", "42", user_id="42"))
            thread.message("user", word)
            print(thread.thread_id, thread.run_session_id)


if __name__ == "__main__":
    main()
