"""A store that is open when its process forks, as in servers with workers, stays usable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_env

from amux.store.session_store import SessionStore

PROGRAM = """
import os, sys
from amux.store.session_store import SessionStore

store = SessionStore(sys.argv[1])
thread = store.start(cwd="").thread_id
store.search("warm")  # connections and the index are open now

def work(name):
    for number in range(10):
        store.thread(thread).append({"role": "user", "content": f"{name}.{number}"})
        assert len(store.list()) == 1
        store.search(f"{name}.{number}")

children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(f"child{number}")
            store.close()
            code = 0
        finally:
            os._exit(code)
    children.append(child)
work("parent")
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
store.close()
"""


@pytest.mark.parametrize("fixture", ["store_folder", "store_url"])
def test_a_forked_process_uses_connections_of_its_own(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    address: Path | str = request.getfixturevalue(fixture)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(address)]
    done = subprocess.run(
        command, env=child_env(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    with SessionStore(address) as store:
        (summary,) = store.list()
        records = store.log.read(summary.thread_id)
        texts = [each.payload["content"] for each in records if each.type == "response_item"]
        names = ("parent", "child0", "child1", "child2")
        assert sorted(texts) == sorted(f"{name}.{each}" for name in names for each in range(10))
        for name in names:
            assert [t for t in texts if t.startswith(name)] == [f"{name}.{n}" for n in range(10)]
        assert store.doctor().is_healthy
