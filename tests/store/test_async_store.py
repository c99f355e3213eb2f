"""The asynchronous store does what the synchronous one does, under asyncio and under trio."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trio

from amux import aio
from amux.errors import SessionNotFoundError
from amux.store import session_store, thread, turns
from amux.store.memory import MemoryLog
from amux.workers import run_in_worker

Work = Callable[[], Awaitable[Any]]


def in_asyncio(work: Work) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


@pytest.fixture(params=[in_asyncio, trio.run], ids=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Work], Any]:
    return request.param


@pytest.mark.parametrize(
    ("original", "twin"),
    [
        (session_store.SessionStore, aio.SessionStore),
        (thread.ThreadView, aio.ThreadView),
        (thread.ThreadHandle, aio.ThreadHandle),
        (turns.Turn, aio.Turn),
    ],
)
def test_every_operation_has_a_twin_with_the_same_parameters(original: type, twin: type) -> None:
    for name, member in inspect.getmembers(original):
        if name.startswith("_") or name == "is_running":
            continue
        method: Any = member.fget if isinstance(member, property) else member
        found = getattr(twin, name)
        parameters = inspect.signature(method).parameters
        assert list(inspect.signature(found).parameters.values()) == list(parameters.values())
        assert inspect.getdoc(found) == inspect.getdoc(method)
        if name not in {"items", "follow", "export_all"}:
            assert inspect.iscoroutinefunction(found)


def test_a_thread_is_written_read_forked_and_found(
    tmp_path: Path, run: Callable[[Work], Any]
) -> None:
    async def work() -> None:
        async with aio.SessionStore(tmp_path / "store") as store:
            started = await store.start(cwd="/w", colour="blue")
            async with await started.begin_turn() as turn:
                assert turn.is_running
                await turn.message("user", "hello", mood="good")
            assert [each.payload["content"] async for each in started.items()] == ["hello"]
            assert (await started.meta()).extra == {"colour": "blue"}
            assert (await started.summary()).message_count == 1
            assert (await started.path()).is_file()
            assert (await started.environment()).cwd == "/w"
            assert (await started.cost()) is not None
            copy = await store.fork(started.thread_id)
            assert isinstance(copy, aio.ThreadHandle)
            assert await copy.conversation() == await started.conversation()
            assert isinstance(await store.open(copy.thread_id), aio.ThreadView)
            assert await store.find("n", ("none",)) is None
            assert len(await store.list()) == 2
            assert len(await store.search("hello")) == 2
            assert len([each async for each in store.export_all()]) == 2
            with pytest.raises(SessionNotFoundError):
                await store.resume("nothing")

    run(work)


def test_new_records_are_followed_until_the_reader_leaves(run: Callable[[Work], Any]) -> None:
    async def work() -> list[Any]:
        store = aio.SessionStore("memory:")
        started = await store.start(cwd="/w")
        await started.message("user", "old")
        seen: list[Any] = []
        async with aclosing(started.follow(after=1, poll=0.01)) as records:
            async for record in records:
                seen.append(record.payload["content"])
                if len(seen) == 3:
                    break
                await started.message("user", f"new {len(seen)}")
        return seen

    assert run(work) == ["old", "new 1", "new 2"]


class SlowLog(MemoryLog):
    """A log whose appends wait for permission."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def append(self, *args: Any, **fields: Any) -> Any:
        self.begun.set()
        assert self.may_end.wait(30)
        return super().append(*args, **fields)


def _cancelled_write(log: SlowLog, begin: Callable[[Work, Work], Awaitable[None]]) -> Work:
    async def work() -> None:
        started = await aio.SessionStore(log).start(cwd="/w")

        async def write() -> None:
            await started.message("user", "stored")

        async def begun() -> None:
            await run_in_worker(log.begun.wait, 30)

        await begin(write, begun)
        assert await started.conversation() == [{"role": "user", "content": "stored"}]

    return work


def test_a_cancelled_write_is_waited_for_under_asyncio() -> None:
    log = SlowLog()

    async def begin(write: Work, begun: Work) -> None:
        task = asyncio.ensure_future(write())
        await begun()
        task.cancel()
        asyncio.get_running_loop().call_soon(log.may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    in_asyncio(_cancelled_write(log, begin))


def test_a_write_that_is_cancelled_twice_is_waited_for_under_asyncio() -> None:
    log = SlowLog()

    async def begin(write: Work, begun: Work) -> None:
        task = asyncio.ensure_future(write())
        await begun()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        log.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_asyncio(_cancelled_write(log, begin))


def test_a_cancelled_write_that_fails_is_reported_by_nobody_else() -> None:
    """An error that no caller waits for must not reach the event loop's handler."""
    may_end, reported = threading.Event(), list[dict[str, Any]]()

    def fail() -> None:
        assert may_end.wait(30)
        raise SessionNotFoundError("gone")

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, given: reported.append(given))
        task = asyncio.ensure_future(run_in_worker(fail))
        await asyncio.sleep(0)
        task.cancel()
        asyncio.get_running_loop().call_soon(may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
        await asyncio.sleep(0)

    in_asyncio(work)
    assert reported == []


def test_a_cancelled_write_is_waited_for_under_trio() -> None:
    log = SlowLog()

    async def begin(write: Work, begun: Work) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await begun()
            nursery.cancel_scope.cancel()
            log.may_end.set()

    trio.run(_cancelled_write(log, begin))


def test_a_turn_whose_beginning_is_cancelled_is_given_back(run: Callable[[Work], Any]) -> None:
    """The turn begins in a worker thread although nobody waits for it any more."""
    log = SlowLog()

    async def work() -> None:
        started = await aio.SessionStore(log).start(cwd="/w")

        async def checkpoint() -> None:
            if run is in_asyncio:
                await asyncio.sleep(0)
            else:
                await trio.lowlevel.checkpoint()

        async def hold() -> None:
            async with await started.begin_turn():
                await checkpoint()

        if run is in_asyncio:
            task = asyncio.ensure_future(hold())
            await run_in_worker(log.begun.wait, 30)
            task.cancel()
            asyncio.get_running_loop().call_soon(log.may_end.set)
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                await run_in_worker(log.begun.wait, 30)
                nursery.cancel_scope.cancel()
                log.may_end.set()
        assert log.lease_of(started.thread_id) is None
        assert not [each for each in threading.enumerate() if each.name.startswith("turn-")]
        kinds = [each.payload.get("type") async for each in started.items(raw=True)]
        assert kinds.count("turn_interrupted") == 1

    run(work)


def test_a_cancelled_turn_is_given_back(run: Callable[[Work], Any]) -> None:
    async def work() -> None:
        started = await aio.SessionStore("memory:").start(cwd="/w")

        async def hold(checkpoint: Work, scope: trio.CancelScope | None = None) -> None:
            async with await started.begin_turn() as turn:
                await turn.message("user", "hello")
                held = scope or asyncio.current_task()
                assert held is not None
                held.cancel()
                await checkpoint()

        if run is in_asyncio:
            task = asyncio.ensure_future(hold(lambda: asyncio.sleep(0)))
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with trio.CancelScope() as scope:
                await hold(trio.lowlevel.checkpoint, scope)
        async with await started.begin_turn():
            pass
        kinds = [each.payload.get("type") async for each in started.items(raw=True)]
        assert kinds.count("turn_interrupted") == 1

    run(work)


def test_the_store_of_an_asynchronous_client_is_asynchronous(
    tmp_path: Path, run: Callable[[Work], Any]
) -> None:
    async def work() -> int:
        async with aio.create_client(home=tmp_path) as client:
            await client.store.start(cwd="/w")
            return len(await client.store.list())

    assert run(work) == 1
