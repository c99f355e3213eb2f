"""A hook that hangs is left behind, and the time of the hooks is bounded and measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from live_sessions import (
    Calling,
    Raising,
    Recording,
    Returning,
    Seconds,
    memory_session,
    plain_lifecycle,
)

from amux.lifecycle.hooks import (
    HookEvent,
    LifecycleHook,
)
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.live_session import LiveSession

LONG = 60.0


@pytest.fixture
def session() -> LiveSession:
    return memory_session()


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return an event that a hook hangs on until the test ends."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize(("wanted", "given"), [(3, 3.0), (10.5, 10.0), (-1, 0.0), (0, 0.0)])
def test_the_time_for_cleaning_up_is_bounded(wanted: float, given: float) -> None:
    hook = Recording()
    hook.cleanup_seconds = wanted
    lifecycle = plain_lifecycle()
    lifecycle.register(hook)
    assert lifecycle.hooks[0].cleanup_seconds == given


@pytest.mark.parametrize("sync", [True, False])
def test_a_hook_that_hangs_is_left_behind(
    sync: bool, session: LiveSession, calls: list[str], gate: threading.Event
) -> None:
    lifecycle = plain_lifecycle(budget_seconds=LONG)
    lifecycle.register(Calling(gate.wait, "hanging"), timeout=0.02)
    lifecycle.register(Recording("after", calls))
    outcome = lifecycle.process("startup", session, sync=sync)
    assert outcome.is_done
    assert not gate.is_set()
    assert [each.status for each in outcome.reports] == ["timeout", "ok"]
    assert outcome.reports[0].error == "did not end within 0.02 s"
    assert outcome.warnings == ("the hook `hanging` did not end within 0.02 s",)
    assert calls == ["after:startup"]


def test_the_late_result_of_a_hook_is_dropped(session: LiveSession, gate: threading.Event) -> None:
    ended = threading.Event()

    def hang() -> str:
        gate.wait()
        ended.set()
        return "too late"

    lifecycle = plain_lifecycle()
    lifecycle.register(Calling(hang), timeout=0.01)
    outcome = lifecycle.process("startup", session, sync=True)
    gate.set()
    assert ended.wait(LONG)
    assert outcome.context == ()
    assert outcome.reports[0].status == "timeout"


def test_a_hook_that_hangs_does_not_keep_the_program_from_ending(
    session: LiveSession, gate: threading.Event
) -> None:
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        gate.wait()

    lifecycle = plain_lifecycle()
    lifecycle.register(Calling(hang), timeout=0.05)
    lifecycle.process("startup", session, sync=True)
    assert [each.daemon for each in threads] == [True]
    assert threads[0] is not threading.main_thread()


def test_a_timeout_of_the_hook_itself_counts_as_one(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Raising(TimeoutError("mine")), timeout=3)
    (report,) = lifecycle.process("startup", session, sync=True).reports
    assert report.status == "timeout"
    assert report.error == "timed out: mine"


def test_a_hook_gets_its_time_for_cleaning_up(session: LiveSession) -> None:
    class Patient(LifecycleHook):
        timeout = 0.001
        cleanup_seconds = 10.0

        def on_startup(self, event: HookEvent) -> str:
            threading.Event().wait(0.02)  # longer than the timeout, shorter than the cleanup
            return "cleaned"

    lifecycle = plain_lifecycle()
    lifecycle.register(Patient())
    assert lifecycle.process("startup", session, sync=True).context == ("cleaned",)


def test_a_slow_hook_continues_after_the_budget(
    session: LiveSession, calls: list[str], gate: threading.Event
) -> None:
    lifecycle = plain_lifecycle(budget_seconds=0.02)
    lifecycle.register(Recording("fast", calls))
    lifecycle.register(Calling(lambda: gate.wait() and "late", "slow"), timeout=LONG)
    outcome = lifecycle.process("startup", session)
    assert not outcome.is_done
    assert [each.status for each in outcome.reports] == ["ok", "running"]
    (warning,) = outcome.warnings
    assert warning == (
        "the hooks of the startup exceed their budget of 0.02 s; "
        "the hook `slow` still runs and continues in the background"
    )
    gate.set()
    assert outcome.wait(LONG)
    assert outcome.context == ("late",)
    assert [each.status for each in outcome.reports] == ["ok", "ok"]
    assert len(outcome.warnings) == 1


def test_a_single_slow_hook_is_not_waited_for(session: LiveSession, gate: threading.Event) -> None:
    lifecycle = plain_lifecycle(budget_seconds=0.0)
    lifecycle.register(Calling(lambda: gate.wait() and "late"), timeout=LONG)
    outcome = lifecycle.process("clear", session)
    assert not outcome.is_done
    assert outcome.warnings == ()
    gate.set()
    assert outcome.wait(LONG)


def test_the_threads_of_hooks_have_names_and_end_with_the_program(session: LiveSession) -> None:
    threads: list[tuple[str, bool]] = []

    def note() -> None:
        found = (threading.current_thread(), *threading.enumerate())
        threads.extend((each.name, each.daemon) for each in found if "hook" in each.name)

    lifecycle = plain_lifecycle(budget_seconds=LONG)
    lifecycle.register(Calling(note))
    lifecycle.process("resume", session)
    assert threads[0] == ("hook", True)
    assert ("hooks-resume", True) in threads


def test_the_synchronous_mode_waits_for_every_hook(session: LiveSession) -> None:
    gate = threading.Event()
    timer = threading.Timer(0.05, gate.set)
    lifecycle = plain_lifecycle(budget_seconds=0.0)
    lifecycle.register(Calling(lambda: gate.wait() and "waited for"), timeout=LONG)
    timer.start()
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.is_done
    assert outcome.context == ("waited for",)


def test_fast_hooks_have_ended_when_the_session_goes_on(session: LiveSession) -> None:
    lifecycle = plain_lifecycle(budget_seconds=LONG)
    lifecycle.register(Returning("quick"))
    outcome = lifecycle.process("startup", session)
    assert outcome.is_done
    assert outcome.context == ("quick",)


def test_the_budget_is_a_fifth_of_a_second() -> None:
    assert Lifecycle().budget_seconds == 0.2


def test_a_hook_that_exceeds_the_budget_is_named(session: LiveSession) -> None:
    clock = Seconds()
    lifecycle = plain_lifecycle(clock=clock, budget_seconds=0.5)
    lifecycle.register(Calling(lambda: clock.spend(0.125), "quick"))
    lifecycle.register(Calling(lambda: clock.spend(0.5), "slow"))
    lifecycle.register(Calling(lambda: clock.spend(0.25), "last"))
    outcome = lifecycle.process("startup", session, sync=True)
    assert [each.seconds for each in outcome.reports] == [0.125, 0.5, 0.25]
    assert outcome.seconds == 0.875
    assert outcome.warnings == (
        "the hooks of the startup exceed their budget of 0.50 s; the hook `slow` took 0.50 s",
    )


def test_hooks_within_the_budget_are_not_named(session: LiveSession) -> None:
    clock = Seconds()
    lifecycle = plain_lifecycle(clock=clock, budget_seconds=0.5)
    lifecycle.register(Calling(lambda: clock.spend(0.5)))
    assert lifecycle.process("startup", session, sync=True).warnings == ()


@pytest.mark.parametrize("source", ["resume", "clear", "compact"])
def test_the_budget_is_that_of_the_startup(source: str, session: LiveSession) -> None:
    clock = Seconds()
    lifecycle = plain_lifecycle(clock=clock)
    lifecycle.register(Calling(lambda: clock.spend(10)))
    assert lifecycle.process(source, session, sync=True).warnings == ()


def test_loading_is_measured_and_part_of_the_budget(session: LiveSession) -> None:
    clock = Seconds()

    def load(warn: Any) -> Mapping[str, LifecycleHook]:
        clock.spend(0.75)
        return {"a": Calling(lambda: clock.spend(0.25))}

    lifecycle = plain_lifecycle(clock=clock)
    lifecycle.add_loader("file", load)
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.load_seconds == 0.75
    assert outcome.seconds == 1.0
    assert outcome.warnings == (
        "the hooks of the startup exceed their budget of 0.20 s; loading hooks took 0.75 s",
    )
    assert lifecycle.process("startup", session, sync=True).load_seconds == 0.0


def test_loading_is_named_even_if_it_brings_nothing(session: LiveSession) -> None:
    clock = Seconds()

    def load(warn: Any) -> Mapping[str, LifecycleHook]:
        clock.spend(0.75)
        return {}

    lifecycle = plain_lifecycle(clock=clock)
    lifecycle.add_loader("file", load)
    (warning,) = lifecycle.process("startup", session, sync=True).warnings
    assert warning.endswith("loading hooks took 0.75 s")
