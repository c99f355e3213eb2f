"""Hooks are registered, ordered, trusted, isolated and timed; observers are told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest
from live_sessions import (
    MOMENT,
    Calling,
    Raising,
    Recording,
    Returning,
    memory_session,
    plain_lifecycle,
    recording_loader,
)

from amux.errors import ErrorCode, StoreError, ValidationError
from amux.lifecycle.builtin_hooks import builtin_hooks
from amux.lifecycle.hook_results import HookResult
from amux.lifecycle.hooks import (
    HookEvent,
    HookInfo,
    HookNotice,
    LifecycleHook,
    LifecycleNotice,
    LifecycleSource,
)
from amux.lifecycle.lifecycle import Lifecycle
from amux.lifecycle.live_session import LiveSession, PromptSection

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


def named(name: str, calls: list[str], **settings: Any) -> LifecycleHook:
    hook = Recording(name, calls)
    for key, value in settings.items():
        setattr(hook, key, value)
    return hook


# sources


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact"])
def test_a_hook_is_told_the_source_the_session_and_the_time(
    source: str, session: LiveSession
) -> None:
    events: list[HookEvent] = []
    lifecycle = plain_lifecycle(now=lambda: MOMENT)
    lifecycle.register(events.append)
    outcome = lifecycle.process(source, session, sync=True)
    (event,) = events
    assert event.source is LifecycleSource(source)
    assert outcome.source is event.source
    assert event.session is session
    assert event.at == MOMENT
    assert (event.initial_messages, event.previous, event.prompt_sections) == ((), None, ())
    assert (event.summarize, event.options) == (None, {})


def test_without_a_clock_the_time_is_that_of_the_machine(session: LiveSession) -> None:
    events: list[HookEvent] = []
    lifecycle = plain_lifecycle()
    lifecycle.register(events.append)
    before = datetime.now().astimezone()
    lifecycle.process("startup", session, sync=True)
    assert before <= events[0].at <= datetime.now().astimezone()


@pytest.mark.parametrize("source", ["fork", "convert", "session_ended", "", "STARTUP"])
def test_a_fifth_source_is_refused_before_anything_runs(
    source: str, session: LiveSession, calls: list[str]
) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording("a", calls))
    with pytest.raises(ValidationError) as caught:
        lifecycle.process(source, session, sync=True)
    assert caught.value.code is ErrorCode.VALIDATION_ERROR
    assert calls == []


def test_a_fork_is_a_startup_with_initial_messages(session: LiveSession) -> None:
    events: list[HookEvent] = []
    lifecycle = plain_lifecycle()
    lifecycle.register(events.append)
    given = [{"role": "user", "content": "hello"}]
    lifecycle.process("startup", session, initial_messages=given, previous="t1", sync=True)
    assert events[0].source == "startup"
    assert events[0].initial_messages == tuple(given)
    assert events[0].previous == "t1"


def test_a_hook_runs_only_for_its_sources(session: LiveSession, calls: list[str]) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(named("both", calls, applies_to=["startup", "resume"]))
    lifecycle.register(Recording("given", calls), applies_to=("clear",))
    lifecycle.register(Recording("one", calls), applies_to="compact")
    lifecycle.register(Recording("all", calls))
    for source in LifecycleSource:
        lifecycle.process(source, session, sync=True)
    assert calls == [
        "both:startup",
        "all:startup",
        "both:resume",
        "all:resume",
        "given:clear",
        "all:clear",
        "one:compact",
        "all:compact",
    ]


def test_a_hook_for_another_source_is_not_in_the_report(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording(), applies_to=("clear",))
    assert lifecycle.process("startup", session, sync=True).reports == ()


def test_only_a_startup_brings_prompt_sections(session: LiveSession) -> None:
    events: list[HookEvent] = []
    section = PromptSection(name="n", text="t")
    hook = Recording()
    hook.prompt_sections = (section,)
    lifecycle = plain_lifecycle()
    lifecycle.register(hook)
    lifecycle.register(events.append)
    for source in LifecycleSource:
        lifecycle.process(source, session, sync=True)
    assert [each.prompt_sections for each in events] == [(section,), (), (), ()]


def test_a_message_names_the_hook_that_it_comes_from(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Returning({"messages": [{"content": "hi"}]}), name="greeter")
    (message,) = lifecycle.process("startup", session, sync=True).messages
    assert message == {"role": "user", "content": "hi", "synthetic": True, "hook": "greeter"}


# order and settings


def test_hooks_run_by_priority_and_then_in_the_order_of_registration(
    session: LiveSession, calls: list[str]
) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording("default", calls))
    lifecycle.register(named("own", calls, priority=101))
    lifecycle.register(Recording("late", calls), priority=500)
    lifecycle.register(named("given", calls, priority=1000), priority=-1)
    lifecycle.register(Recording("hundred", calls), priority=100)
    lifecycle.register(Recording("first", calls), priority=99)
    lifecycle.process("startup", session, sync=True)
    wanted = ["given", "first", "default", "hundred", "own", "late"]
    assert calls == [f"{name}:startup" for name in wanted]
    assert [each.name for each in lifecycle.hooks] == wanted
    assert [each.name for each in lifecycle.process("clear", session, sync=True).reports] == wanted


def test_the_order_is_the_same_without_waiting(session: LiveSession, calls: list[str]) -> None:
    lifecycle = plain_lifecycle()
    for name, priority in (("c", 300), ("a", 1), ("b", 2)):
        lifecycle.register(Recording(name, calls), priority=priority)
    assert lifecycle.process("startup", session).wait(LONG)
    assert calls == ["a:startup", "b:startup", "c:startup"]


def test_registering_returns_the_name_and_keeps_the_settings() -> None:
    lifecycle = plain_lifecycle()
    hook = Recording("r")
    assert lifecycle.register(hook) == "r"
    assert lifecycle.hooks == (
        HookInfo(name="r", hook=hook, applies_to=frozenset(LifecycleSource), trust="user"),
    )
    named = lifecycle.register(
        hook, name="x", applies_to=["clear"], priority=7, timeout=3, trust="managed", enabled=False
    )
    assert named == "x"
    assert lifecycle.hooks[0] == HookInfo(
        name="x",
        hook=hook,
        applies_to=frozenset({LifecycleSource.CLEAR}),
        trust="managed",
        priority=7,
        timeout=3.0,
        enabled=False,
        is_builtin=False,
        is_essential=False,
    )
    assert HookInfo(name="d", hook=hook, applies_to=frozenset()).priority == 100
    assert HookInfo(name="d", hook=hook, applies_to=frozenset()).timeout == 10.0


def test_unnamed_hooks_get_numbers() -> None:
    lifecycle = plain_lifecycle()
    names = [lifecycle.register(lambda event: None) for _ in range(3)]
    assert names == ["<lambda>", "<lambda>#2", "<lambda>#3"]
    assert lifecycle.register(LifecycleHook()) == "LifecycleHook"
    assert lifecycle.register(Recording("r")) == "r"
    assert lifecycle.register(Recording("r")) == "r#2"


def test_a_given_name_is_taken_once() -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording(), name="mine")
    with pytest.raises(ValidationError, match="there is a hook `mine` already") as caught:
        lifecycle.register(Recording(), name="mine")
    assert caught.value.fields == ("name",)
    assert caught.value.hint == "unregister it first"
    assert lifecycle.unregister("mine") is True
    assert lifecycle.unregister("mine") is False
    lifecycle.register(Recording(), name="mine")


def test_a_hostile_name_is_one_short_line() -> None:
    lifecycle = plain_lifecycle()
    name = lifecycle.register(Recording(), name="a\n\u202eb" + "x" * 1_000_000)
    assert name == "a \\u202eb" + "x" * 91 + "..."


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"applies_to": ["fork"]}, "source", "`fork` is no lifecycle source"),
        ({"applies_to": []}, "applies_to", "the hook applies to no source"),
        ({"priority": 1.5}, "priority", "the priority of a hook is a whole number"),
        ({"priority": True}, "priority", "the priority of a hook is a whole number"),
        ({"priority": "1"}, "priority", "the priority of a hook is a whole number"),
        ({"timeout": 0}, "timeout", "the timeout of a hook is a number of seconds up to 600"),
        ({"timeout": -1}, "timeout", "the timeout of a hook is a number of seconds up to 600"),
        ({"timeout": 600.5}, "timeout", "the timeout of a hook is a number of seconds up to 600"),
        ({"timeout": True}, "timeout", "the timeout of a hook is a number of seconds up to 600"),
        ({"timeout": "5"}, "timeout", "the timeout of a hook is a number of seconds up to 600"),
        (
            {"timeout": float("nan")},
            "timeout",
            "the timeout of a hook is a number of seconds up to 600",
        ),
        (
            {"timeout": float("inf")},
            "timeout",
            "the timeout of a hook is a number of seconds up to 600",
        ),
        ({"trust": "root"}, "trust", "`root` is no level of trust"),
    ],
)
def test_an_invalid_setting_is_refused(settings: dict[str, Any], field: str, message: str) -> None:
    lifecycle = plain_lifecycle()
    with pytest.raises(ValidationError) as caught:
        lifecycle.register(Recording(), **settings)
    assert caught.value.fields == (field,)
    assert caught.value.message == message
    assert lifecycle.hooks == ()


def test_the_levels_of_trust_are_named_in_the_hint() -> None:
    with pytest.raises(ValidationError) as caught:
        plain_lifecycle().add_loader("x", lambda warn: {}, trust="root")  # type: ignore[arg-type]
    assert caught.value.hint == "the levels are `managed`, `user` and `plugin`"


def test_the_longest_timeout_is_ten_minutes() -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording(), timeout=600)
    assert lifecycle.hooks[0].timeout == 600.0


@pytest.mark.parametrize("hook", [3, "text", None, Recording, LifecycleHook])
def test_only_instances_and_functions_are_hooks(hook: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        plain_lifecycle().register(hook)
    assert caught.value.message == f"`{hook!r}` is no hook"
    assert caught.value.fields == ("hook",)
    assert caught.value.hint == (
        "give an instance of `LifecycleHook`, or a function with one argument"
    )


def test_a_prompt_section_must_be_one() -> None:
    hook: Any = Recording()
    hook.prompt_sections = ["text"]
    with pytest.raises(ValidationError) as caught:
        plain_lifecycle().register(hook)
    assert caught.value.message == "`prompt_sections` has an item that is no `PromptSection`"
    assert caught.value.fields == ("prompt_sections",)


def test_a_disabled_hook_is_reported_and_does_not_run(
    session: LiveSession, calls: list[str]
) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Recording("a", calls))
    lifecycle.register(Recording("b", calls), enabled=False)
    lifecycle.disable("a")
    outcome = lifecycle.process("startup", session, sync=True)
    assert [(each.name, each.status) for each in outcome.reports] == [
        ("a", "disabled"),
        ("b", "disabled"),
    ]
    assert [each.enabled for each in lifecycle.hooks] == [False, False]
    lifecycle.enable("a")
    lifecycle.enable("b")
    lifecycle.enable("unknown")
    assert [each.enabled for each in lifecycle.hooks] == [True, True]
    lifecycle.process("startup", session, sync=True)
    assert calls == ["a:startup", "b:startup"]


def test_a_hook_can_be_disabled_before_it_is_loaded(session: LiveSession, calls: list[str]) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.disable("later")
    lifecycle.add_loader("file", lambda warn: {"later": Recording("later", calls)})
    lifecycle.process("startup", session, sync=True)
    assert calls == []
    assert [(each.name, each.enabled) for each in lifecycle.hooks] == [("later", False)]


# trust


def with_all_kinds(calls: list[str], **options: Any) -> Lifecycle:
    lifecycle = plain_lifecycle(**options)
    lifecycle.register(Recording("managed", calls), trust="managed")
    lifecycle.register(Recording("user", calls), trust="user")
    lifecycle.register(Recording("plugin", calls), trust="plugin")
    lifecycle.add_loader("one", recording_loader(calls, "loaded-managed"), trust="managed")
    lifecycle.add_loader("two", recording_loader(calls, "loaded-user"))
    lifecycle.add_loader("three", recording_loader(calls, "loaded-plugin"), trust="plugin")
    return lifecycle


def test_bare_mode_runs_nothing_and_loads_nothing(session: LiveSession, calls: list[str]) -> None:
    lifecycle = with_all_kinds(calls, builtin=True)
    session.message("user", "stays")
    for source in LifecycleSource:
        outcome = lifecycle.process(source, session, bare=True, sync=True)
        assert outcome.is_done
        assert outcome.reports == ()
        assert outcome.load_seconds == 0.0
    assert calls == []
    assert len(session.conversation()) == 1


def test_an_unknown_source_is_refused_in_bare_mode_too(session: LiveSession) -> None:
    with pytest.raises(ValidationError):
        plain_lifecycle().process("fork", session, bare=True)


def test_managed_only_mode_runs_and_loads_only_what_is_managed(
    session: LiveSession, calls: list[str]
) -> None:
    lifecycle = with_all_kinds(calls)
    outcome = lifecycle.process("startup", session, managed_only=True, sync=True)
    assert calls == ["load loaded-managed", "managed:startup", "loaded-managed:startup"]
    assert [(each.name, each.status, each.trust) for each in outcome.reports] == [
        ("managed", "ok", "managed"),
        ("user", "not_managed", "user"),
        ("plugin", "not_managed", "plugin"),
        ("loaded-managed", "ok", "managed"),
    ]


def test_hooks_that_a_policy_held_back_are_loaded_when_it_is_gone(
    session: LiveSession, calls: list[str]
) -> None:
    lifecycle = with_all_kinds(calls)
    lifecycle.process("startup", session, managed_only=True, sync=True)
    calls.clear()
    lifecycle.process("resume", session, sync=True)
    assert calls[:2] == ["load loaded-user", "load loaded-plugin"]
    assert "loaded-plugin:resume" in calls
    assert {each.name: each.trust for each in lifecycle.hooks} == {
        "managed": "managed",
        "user": "user",
        "plugin": "plugin",
        "loaded-managed": "managed",
        "loaded-user": "user",
        "loaded-plugin": "plugin",
    }


def test_hooks_are_loaded_once_and_not_before_they_can_run(
    session: LiveSession, calls: list[str]
) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.add_loader("file", recording_loader(calls, "a"))
    assert calls == []
    lifecycle.process("startup", session, sync=True)
    lifecycle.process("clear", session, sync=True)
    assert calls == ["load a", "a:startup", "a:clear"]


# failures


@pytest.mark.parametrize("sync", [True, False])
def test_a_hook_that_fails_is_reported_and_the_others_run(
    sync: bool, session: LiveSession, calls: list[str]
) -> None:
    logged: list[str] = []
    lifecycle = plain_lifecycle(log=logged.append)
    lifecycle.register(Recording("before", calls))
    lifecycle.register(Raising(RuntimeError("two\nlines \u202e")))
    lifecycle.register(Recording("after", calls))
    outcome = lifecycle.process("startup", session, sync=sync)
    assert outcome.wait(LONG)
    assert calls == ["before:startup", "after:startup"]
    assert [each.status for each in outcome.reports] == ["ok", "failed", "ok"]
    assert outcome.reports[1].error == "failed: RuntimeError: two lines \\u202e"
    assert outcome.reports[0].error is None
    assert outcome.warnings == ("the hook `raising` failed: RuntimeError: two lines \\u202e",)
    assert logged == list(outcome.warnings)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SystemExit(3), "failed: SystemExit: 3"),
        (KeyboardInterrupt(), "failed: KeyboardInterrupt"),
        (StoreError("the disk is full", hint="free some"), "failed: the disk is full"),
        (ValueError(), "failed: ValueError"),
    ],
)
def test_no_error_of_a_hook_reaches_the_session(
    error: BaseException, text: str, session: LiveSession
) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Raising(error))
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.reports[0].error == text


def test_a_result_that_is_none_of_the_allowed_is_a_failure(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(Returning(42))
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.reports[0].status == "failed"
    assert outcome.reports[0].error == "failed: the result of the hook is a `int`"
    assert outcome.reports[0].result == HookResult()


def test_a_log_that_fails_does_not_stop_the_session(session: LiveSession) -> None:
    def broken(message: str) -> None:
        raise OSError(message)

    lifecycle = plain_lifecycle(log=broken)
    lifecycle.register(Raising(RuntimeError("x")))
    assert len(lifecycle.process("startup", session, sync=True).warnings) == 1


def test_without_a_log_warnings_go_to_the_logger(
    session: LiveSession, caplog: pytest.LogCaptureFixture
) -> None:
    lifecycle = Lifecycle(builtin=False, plugins=False)
    lifecycle.register(Raising(RuntimeError("100 %s")))
    with caplog.at_level(logging.WARNING):
        lifecycle.process("startup", session, sync=True)
    (record,) = caplog.records
    assert record.name == "amux.lifecycle"
    assert record.levelname == "WARNING"
    assert record.getMessage() == "the hook `raising` failed: RuntimeError: 100 %s"


# built-in hooks among the others


class Builtin(LifecycleHook):
    def __init__(self, calls: list[str], error: Exception | None = None) -> None:
        self.calls = calls
        self.error = error

    def execute(self, event: HookEvent) -> HookResult | None:
        self.calls.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error
        return None


def with_builtin(
    monkeypatch: pytest.MonkeyPatch, hook: LifecycleHook, *, is_essential: bool = False
) -> Lifecycle:
    info = HookInfo(
        name="builtin",
        hook=hook,
        applies_to=frozenset(LifecycleSource),
        trust="managed",
        priority=10,
        is_builtin=True,
        is_essential=is_essential,
    )

    def only(restore: object) -> tuple[HookInfo, ...]:
        return (info,)

    monkeypatch.setattr("amux.lifecycle.lifecycle.builtin_hooks", only)
    return Lifecycle(plugins=False, log=lambda message: None, budget_seconds=0.02)


def test_a_built_in_hook_runs_in_the_thread_of_the_caller(
    session: LiveSession, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = with_builtin(monkeypatch, Builtin(calls))
    outcome = lifecycle.process("startup", session)
    assert calls == [threading.current_thread().name]
    assert outcome.is_done
    assert outcome.reports[0].status == "ok"


def test_hooks_before_a_built_in_one_are_waited_for(
    session: LiveSession, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    timer = threading.Timer(0.1, gate.set)
    later = threading.Event()
    lifecycle = with_builtin(monkeypatch, Builtin(calls))
    lifecycle.register(
        Calling(lambda: calls.append("early" if gate.wait(LONG) else "never"), "early"),
        priority=9,
        timeout=LONG,
    )
    lifecycle.register(Calling(later.wait, "late"), priority=11, timeout=LONG)
    timer.start()
    outcome = lifecycle.process("clear", session)
    assert calls == ["early", threading.current_thread().name]
    assert [each.status for each in outcome.reports] == ["ok", "ok", "running"]
    assert not outcome.is_done
    later.set()
    assert outcome.wait(LONG)


def test_the_error_of_an_essential_hook_is_raised(
    session: LiveSession, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = StoreError("the disk is full")
    lifecycle = with_builtin(monkeypatch, Builtin(calls, error), is_essential=True)
    with pytest.raises(StoreError) as caught:
        lifecycle.process("startup", session)
    assert caught.value is error


def test_the_error_of_another_built_in_hook_is_reported(
    session: LiveSession, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = with_builtin(monkeypatch, Builtin(calls, ValueError("odd")))
    outcome = lifecycle.process("startup", session)
    assert outcome.is_done
    assert outcome.warnings == ("the hook `builtin` failed: ValueError: odd",)


def test_the_built_in_hooks_are_managed_and_come_first() -> None:
    lifecycle = Lifecycle(plugins=False)
    infos = lifecycle.hooks
    assert [each.name for each in infos] == [
        each.name for each in sorted(builtin_hooks(None), key=lambda each: each.priority)
    ]
    assert all(each.trust == "managed" and each.is_builtin for each in infos)
    assert all(each.priority < 100 for each in infos)
    assert Lifecycle(builtin=False, plugins=False).hooks == ()


def test_hooks_may_register_hooks_and_start_events(session: LiveSession, calls: list[str]) -> None:
    lifecycle = plain_lifecycle()

    def nested(event: HookEvent) -> None:
        lifecycle.register(Recording("inner", calls), applies_to=("clear",))
        lifecycle.process("clear", event.session, sync=True)

    lifecycle.register(nested, applies_to=("startup",))
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.reports[0].status == "ok"
    assert calls == ["inner:clear"]


# observers


def test_observers_are_told_in_order_and_cannot_answer(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    notices: list[HookNotice] = []
    order: list[str] = []

    def first(notice: HookNotice) -> HookResult:
        notices.append(notice)
        order.append("first")
        return HookResult(context=("ignored",))

    lifecycle.observe("session_reset", first)
    lifecycle.observe(LifecycleNotice.SESSION_RESET, lambda notice: order.append("second"))
    lifecycle.observe("fork", lambda notice: order.append("fork"))
    lifecycle.notify("session_reset", session, reason="daily", hour=4)
    assert order == ["first", "second"]
    assert notices == [
        HookNotice(
            kind=LifecycleNotice.SESSION_RESET,
            session=session,
            details={"reason": "daily", "hour": 4},
        )
    ]
    lifecycle.notify("fork")
    assert order == ["first", "second", "fork"]


@pytest.mark.parametrize("kind", list(LifecycleNotice))
def test_every_notice_reaches_its_observers(kind: str) -> None:
    lifecycle = plain_lifecycle()
    kinds: list[str] = []
    lifecycle.observe(kind, lambda notice: kinds.append(f"{notice.kind} {notice.session}"))
    lifecycle.notify(kind)
    assert kinds == [f"{kind} None"]


def test_an_observer_can_be_removed() -> None:
    lifecycle = plain_lifecycle()
    kinds: list[str] = []
    stop = lifecycle.observe("checkpoint", lambda notice: kinds.append("one"))
    lifecycle.observe("checkpoint", lambda notice: kinds.append("two"))
    stop()
    stop()
    lifecycle.notify("checkpoint")
    assert kinds == ["two"]


@pytest.mark.parametrize("kind", ["startup", "reset", ""])
def test_an_unknown_notice_is_refused(kind: str) -> None:
    lifecycle = plain_lifecycle()
    with pytest.raises(ValidationError) as caught:
        lifecycle.observe(kind, lambda notice: None)
    assert caught.value.fields == ("kind",)
    assert caught.value.message == f"`{kind}` is no notice"
    assert caught.value.hint == (
        "the notices are `session_ended`, `session_finalised`, `session_reset`, "
        "`subagent_stopped`, `fork`, `checkpoint`"
    )
    with pytest.raises(ValidationError):
        lifecycle.notify(kind)


def test_an_observer_that_fails_or_hangs_does_not_stop_the_others(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amux.lifecycle.lifecycle.OBSERVER_TIMEOUT", 0.02)
    logged: list[str] = []
    reached: list[str] = []

    def fail(notice: HookNotice) -> None:
        raise SystemExit("now\n!")

    lifecycle = plain_lifecycle(log=logged.append)
    lifecycle.observe("fork", fail)
    lifecycle.observe("fork", lambda notice: gate.wait())
    lifecycle.observe("fork", lambda notice: reached.append("last"))
    lifecycle.notify("fork")
    assert reached == ["last"]
    assert logged == [
        "an observer of `fork` failed: SystemExit: now !",
        "an observer of `fork` still runs after 0.02 s",
    ]


def test_hooks_are_loaded_once_to_be_listed_with_their_origins(session: LiveSession) -> None:
    calls: list[str] = []
    off = Calling(lambda: calls.append("off"))
    off.enabled = False
    logged: list[str] = []

    def load(warn: Any) -> dict[str, Any]:
        calls.append("load")
        warn("one is bad")
        return {"on": Calling(lambda: calls.append("on")), "off": off, "odd": 7}

    lifecycle = plain_lifecycle(builtin=True, log=logged.append)
    lifecycle.register(lambda event: None, name="own")
    lifecycle.add_loader("file", load, trust="plugin")
    assert {(each.origin, each.enabled) for each in lifecycle.hooks if each.is_builtin} == {
        ("built-in", True)
    }
    assert calls == []
    first, second = lifecycle.load()
    assert first == "one is bad"
    assert second.startswith("the hook `odd` is not used: ")
    assert lifecycle.load() == ()
    assert logged == []
    others = [each for each in lifecycle.hooks if not each.is_builtin]
    assert [(each.name, each.origin, each.trust, each.enabled) for each in others] == [
        ("own", "program", "user", True),
        ("on", "file", "plugin", True),
        ("off", "file", "plugin", False),
    ]
    outcome = lifecycle.process("clear", session, sync=True)
    assert calls == ["load", "on"]
    assert outcome.load_seconds == 0.0
    assert {each.name: each.status for each in outcome.reports}["off"] == "disabled"


def test_an_event_cannot_be_changed(session: LiveSession) -> None:
    event = HookEvent(source=LifecycleSource.CLEAR, session=session, at=MOMENT)
    with pytest.raises(AttributeError):
        event.source = LifecycleSource.STARTUP  # type: ignore[misc]
    assert msgspec.structs.replace(event).source == "clear"
