"""Live sessions for the tests of hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from amux.lifecycle.hooks import HookEvent, LifecycleHook, LifecycleSource
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.live_session import LiveSession
from amux.store.session_store import SessionStore

MOMENT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def start_live(store: SessionStore, *, cwd: str = "/project", **meta: Any) -> LiveSession:
    """Start a thread and return it with an empty state."""
    handle = store.start(cwd=cwd, model="opus", **meta)
    return LiveSession(store.log, handle.thread_id, handle.run_session_id)


def memory_session(**meta: Any) -> LiveSession:
    """Return a session in memory."""
    return start_live(SessionStore("memory:"), **meta)


def event_for(session: LiveSession, source: str = "startup", **fields: Any) -> HookEvent:
    """Return an event at a fixed moment."""
    return HookEvent(source=LifecycleSource(source), session=session, at=MOMENT, **fields)


def plain_lifecycle(**options: Any) -> Lifecycle:
    """Return a lifecycle without built-in hooks and plugins that drops what it logs."""
    given: dict[str, Any] = {"builtin": False, "plugins": False, "log": ignore, **options}
    return Lifecycle(**given)


def ignore(message: str) -> None:
    """Drop a warning; the outcome has it as well."""
    assert isinstance(message, str)


class Recording(LifecycleHook):
    """Records the sources that it is called for."""

    def __init__(self, name: str = "recording", calls: list[str] | None = None) -> None:
        self.name = name
        self.calls: list[str] = [] if calls is None else calls

    def execute(self, event: HookEvent) -> None:
        self.calls.append(f"{self.name}:{event.source}")


class Returning(LifecycleHook):
    """Returns a value that was given to it."""

    def __init__(self, value: object, name: str = "returning") -> None:
        self.name = name
        self.value = value

    def execute(self, event: HookEvent) -> object:
        return self.value


class Raising(LifecycleHook):
    """Raises an error that was given to it."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, event: HookEvent) -> object:
        raise self.error


class Calling(LifecycleHook):
    """Calls a function without arguments."""

    def __init__(self, call: Callable[[], object], name: str = "calling") -> None:
        self.name = name
        self.call = call

    def execute(self, event: HookEvent) -> object:
        return self.call()


class Seconds:
    """A clock of seconds that a hook moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def recording_loader(calls: list[str], name: str) -> Callable[[Any], Mapping[str, LifecycleHook]]:
    """Return a loader that records its call and brings a recording hook."""

    def load(warn: Any) -> Mapping[str, LifecycleHook]:
        calls.append(f"load {name}")
        return {name: Recording(name, calls)}

    return load
