"""Runs blocking code in worker threads, under asyncio and under trio.

Nothing here is bound to an event loop. A cancelled caller waits until the outcome of the call is
known: an append that was under way is stored or not, and never stored behind the caller's back.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")

_BATCH: Final = 64


async def run_in_worker(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Return the result of a call that a worker thread makes."""
    call: Callable[[], T] = partial(function, *args, **kwargs)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        result: T = await _trio().to_thread.run_sync(call)
        return result
    future = loop.run_in_executor(None, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await _settle(future)
        raise


async def acquire_in_worker(acquire: Callable[[], T], release: Callable[[T], object]) -> T:
    """Return what a worker thread acquires; it is released if the caller is cancelled meanwhile.

    Under trio a call that has begun returns its result also to a cancelled caller.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await run_in_worker(acquire)
    future = loop.run_in_executor(None, acquire)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if await _settle(future):
            await run_in_worker(release, future.result())
        raise


async def _settle(future: asyncio.Future[Any]) -> bool:
    """Wait for the end of a call, however often the caller is cancelled; return its success."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    return not future.cancelled() and future.exception() is None


async def wait_in_worker(function: Callable[[], T]) -> T:
    """Return the result of a call that changes nothing; a cancelled caller does not wait for it.

    The caller has to make the call return, for example by closing what it waits for.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        result: T = await _trio().to_thread.run_sync(function, abandon_on_cancel=True)
        return result
    return await loop.run_in_executor(None, function)


async def run_to_end(function: Callable[..., T], *args: Any) -> T:
    """Return the result of a call that is made even if the caller is already cancelled."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _trio().CancelScope(shield=True):
            return await run_in_worker(function, *args)
    return await run_in_worker(function, *args)


async def iterate(make: Callable[[], Iterator[T]], *, batch: int = _BATCH) -> AsyncGenerator[T]:
    """Yield the items of a synchronous iterator, which worker threads read in batches."""
    iterator = await run_in_worker(make)

    def take() -> list[T]:
        return [item for _, item in zip(range(batch), iterator, strict=False)]

    while items := await run_in_worker(take):
        for item in items:
            yield item


def _trio() -> Any:
    """Return the module `trio`, which is imported if its event loop is running."""
    return sys.modules["trio"]
