"""A key that a deleted thread had belongs to the thread that has it next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amux.store.session_store import SessionStore

Look = Callable[[SessionStore, str], object]

LOOKS: dict[str, Look] = {
    "get": lambda store, thread_id: store.log.get(thread_id),
    "list": lambda store, _: store.list(),
    "search": lambda store, _: store.search("hello"),
}


@pytest.fixture(params=["files", "postgres"])
def address(request: pytest.FixtureRequest) -> str:
    fixture = {"files": "store_folder", "postgres": "store_url"}[request.param]
    return str(request.getfixturevalue(fixture))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_thread_keeps_the_key_that_a_deleted_thread_had(address: str, look: Look) -> None:
    with SessionStore(address) as store, SessionStore(address) as other:
        first = store.start(cwd="", namespace="n", key=("s",))
        assert [each.key for each in other.list()] == [("s",)]
        other.delete(first.thread_id)
        again = other.start(cwd="", namespace="n", key=("s",))
        look(other, again.thread_id)
        look(store, again.thread_id)
        for each in (store, other):
            (found,) = each.list(namespace="n", key_prefix=("s",))
            assert found.thread_id == again.thread_id
        assert store.doctor().is_healthy
        assert other.delete_prefix("n", ("s",)) == 1
        assert store.list() == []
