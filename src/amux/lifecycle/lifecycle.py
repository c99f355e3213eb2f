"""`Lifecycle`: registers hooks and runs them when a session starts, resumes, or is condensed.

    lifecycle = Lifecycle(restore=registry)
    lifecycle.register(remind, applies_to=("startup", "resume"))
    outcome = lifecycle.process("startup", session)

Hooks run one after the other. A hook that fails or hangs is reported and changes nothing for the
others. `process` waits for the built-in hooks, and for other hooks at most as long as the budget;
with `sync` it waits for all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from math import isfinite
from typing import Any, Final, NamedTuple, cast

import msgspec

from amux.errors import AmuxError, ValidationError
from amux.lifecycle.builtin_hooks import SnapshotRegistry, builtin_hooks
from amux.lifecycle.hook_plugins import load_plugins
from amux.lifecycle.hook_results import HookResult, clean_result, cut, one_line, quote_context
from amux.lifecycle.hooks import (
    TRUSTS,
    FunctionHook,
    HookEvent,
    HookInfo,
    HookNotice,
    HookOutcome,
    HookReport,
    HookStatus,
    LifecycleHook,
    LifecycleNotice,
    LifecycleSource,
    Trust,
    source_named,
)
from amux.lifecycle.live_session import LiveSession, PromptSection

STARTUP_BUDGET: Final = 0.2
"""The seconds that the hooks of a startup may take together. Above it, a program feels slow."""

LOAD_TIMEOUT: Final = 5.0
OBSERVER_TIMEOUT: Final = 5.0
MAX_TIMEOUT: Final = 600.0
MAX_CLEANUP: Final = 10.0
MAX_NAME: Final = 100

Warn = Callable[[str], None]
HookLoader = Callable[[Warn], Mapping[str, LifecycleHook]]
"""Returns hooks by name, and calls its argument for each one that cannot be loaded."""

Observer = Callable[[HookNotice], object]


class _Loader(msgspec.Struct):
    name: str
    load: HookLoader
    trust: Trust
    is_loaded: bool = False


class _Attempt(NamedTuple):
    """The course of a call in a thread of its own."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False


class Lifecycle:
    """The hooks and observers of a program.

    `restore` takes and restores the snapshots of the built-in hooks; without it there are none.
    `builtin=False` leaves out the built-in hooks, `plugins=False` the installed packages. `log`
    receives the warnings; by default they go to the logger "amux.lifecycle".
    """

    def __init__(
        self,
        *,
        restore: SnapshotRegistry | None = None,
        now: Callable[[], datetime] | None = None,
        builtin: bool = True,
        plugins: bool = True,
        budget_seconds: float = STARTUP_BUDGET,
        log: Warn | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.budget_seconds = budget_seconds
        self._now = now or (lambda: datetime.now(UTC))
        self._clock = clock
        self._log = log or _log_warning
        self._hooks: list[HookInfo] = list(builtin_hooks(restore)) if builtin else []
        self._disabled: set[str] = set()
        self._loaders: list[_Loader] = []
        self._observers: list[tuple[LifecycleNotice, Observer]] = []
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        if plugins:
            self.add_loader("plugins", load_plugins, trust="plugin")

    # registration

    @property
    def hooks(self) -> tuple[HookInfo, ...]:
        """All registered hooks in the order in which they run; see `load` for those of loaders."""
        with self._lock:
            known = [
                msgspec.structs.replace(each, enabled=each.name not in self._disabled)
                for each in self._hooks
            ]
        return tuple(sorted(known, key=lambda each: each.priority))

    def register(
        self,
        hook: LifecycleHook | Callable[[HookEvent], object],
        *,
        name: str | None = None,
        applies_to: Iterable[LifecycleSource | str] | None = None,
        priority: int | None = None,
        timeout: float | None = None,
        trust: Trust = "user",
        enabled: bool = True,
        origin: str = "program",
    ) -> str:
        """Register a hook, or a function that is given the event; return its name.

        Settings that are not given are those of the hook. A hook without a name gets that of its
        class or function, with a number if there is one already. `origin` tells a list of hooks
        where the hook comes from.

        Raises:
            ValidationError: A setting is invalid, or the given name is taken.
        """
        if isinstance(hook, type) or not (isinstance(hook, LifecycleHook) or callable(hook)):
            raise ValidationError(
                f"`{one_line(repr(hook))}` is no hook",
                fields=("hook",),
                hint="give an instance of `LifecycleHook`, or a function with one argument",
            )
        hook = hook if isinstance(hook, LifecycleHook) else FunctionHook(hook)
        info = _checked(
            hook,
            applies_to=hook.applies_to if applies_to is None else applies_to,
            priority=hook.priority if priority is None else priority,
            timeout=hook.timeout if timeout is None else timeout,
            trust=trust,
        )
        with self._lock:
            name = self._free_name(name, hook)
            self._hooks.append(msgspec.structs.replace(info, name=name, origin=origin))
        if not enabled:
            self.disable(name)
        return name

    def _free_name(self, name: str | None, hook: LifecycleHook) -> str:
        taken = {each.name for each in self._hooks}
        wanted = one_line(str(name or hook.name or type(hook).__name__), MAX_NAME)
        if name is None:
            numbered = (wanted if each == 1 else f"{wanted}#{each}" for each in count(1))
            return next(each for each in numbered if each not in taken)
        if wanted in taken:
            raise ValidationError(
                f"there is a hook `{wanted}` already", fields=("name",), hint="unregister it first"
            )
        return wanted

    def unregister(self, name: str) -> bool:
        """Remove a hook; return False if there is none of that name."""
        with self._lock:
            kept = [each for each in self._hooks if each.name != name]
            found = len(kept) < len(self._hooks)
            self._hooks = kept
        return found

    def disable(self, name: str) -> None:
        """Keep a hook from running, also one that a plugin brings later."""
        with self._lock:
            self._disabled.add(name)

    def enable(self, name: str) -> None:
        """Let a disabled hook run again."""
        with self._lock:
            self._disabled.discard(name)

    def add_loader(self, name: str, loader: HookLoader, *, trust: Trust = "user") -> None:
        """Add a function that brings further hooks; it is called once, when hooks first run."""
        _check_trust(trust)
        with self._lock:
            self._loaders.append(_Loader(name, loader, trust))

    def load(self) -> tuple[str, ...]:
        """Bring the hooks of all loaders now, to list them; return what could not be loaded."""
        warnings: list[str] = []
        self._load(warnings.append)
        return tuple(warnings)

    # running

    def process(
        self,
        source: LifecycleSource | str,
        session: LiveSession,
        *,
        bare: bool = False,
        managed_only: bool = False,
        sync: bool = False,
        initial_messages: Sequence[Mapping[str, Any]] = (),
        previous: Any = None,
        summarize: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> HookOutcome:
        """Run the hooks of a source and return their results.

        With `bare` nothing is loaded and nothing runs, built-in hooks included. With `managed_only`
        only managed hooks run; hooks of plugins and of the user are skipped and not even loaded.
        Without `sync`, hooks that take longer than the budget continue in the background.
        `summarize` and `options` are the arguments of `session.compact`.

        Raises:
            ValidationError: There is no such source.
            AmuxError: The work of the source itself failed: the restore, the clearing, or the
                compaction.
        """
        # NO WARM-UP. This is the startup path of every program that uses amux. Nothing may be
        # prepared here for later: no scan of sessions, no network, no subprocess, no module that
        # this session does not need now. Work that can wait until it is asked for, waits.
        # tests/lifecycle/test_no_warmup.py counts the imports and the files.
        outcome = HookOutcome(source_named(source))
        if bare:
            outcome.finish()
            return outcome
        warn = partial(self._warn, outcome)
        outcome.load_seconds = self._load(warn, managed_only=managed_only)
        due = self._due(outcome, managed_only=managed_only)
        event = HookEvent(
            source=outcome.source,
            session=session,
            at=self._now(),
            initial_messages=tuple(initial_messages),
            previous=previous,
            prompt_sections=_sections_of(due) if outcome.source == LifecycleSource.STARTUP else (),
            summarize=summarize,
            options=options or {},
        )
        waited_for = len(due) if sync else _waited_for(due)
        self._run_all(due[:waited_for], event, outcome)
        if waited_for == len(due):
            self._finish(outcome)
        else:
            self._run_in_background(due[waited_for:], event, outcome)
        return outcome

    def _due(self, outcome: HookOutcome, *, managed_only: bool) -> list[HookInfo]:
        """Return the hooks to run, and report those that apply to the source but may not run."""
        due: list[HookInfo] = []
        for info in self.hooks:
            if outcome.source not in info.applies_to:
                continue
            status: HookStatus = "running"
            if not info.enabled:
                status = "disabled"
            elif managed_only and info.trust != "managed":
                status = "not_managed"
            else:
                due.append(info)
            outcome.set_report(HookReport(name=info.name, trust=info.trust, status=status))
        return due

    def _run_in_background(
        self, due: Sequence[HookInfo], event: HookEvent, outcome: HookOutcome
    ) -> None:
        def run() -> None:
            try:
                self._run_all(due, event, outcome)
            finally:
                self._finish(outcome)

        threading.Thread(target=run, name=f"hooks-{event.source}", daemon=True).start()
        if not outcome.wait(self.budget_seconds):
            running = next((each for each in outcome.reports if each.status == "running"), None)
            if running is not None:
                self._warn_about_budget(
                    outcome, f"the hook `{running.name}` still runs and continues in the background"
                )

    def _run_all(self, due: Sequence[HookInfo], event: HookEvent, outcome: HookOutcome) -> None:
        for info in due:
            started = self._clock()
            if info.is_builtin:
                attempt = _call_builtin(info, event)
            else:
                call = partial(_execute, info, event)
                attempt = _attempt(call, info.timeout + info.cleanup_seconds)
            report = _report(info, attempt, self._clock() - started)
            outcome.set_report(report)
            if report.error is not None:
                self._warn(outcome, f"the hook `{info.name}` {report.error}")

    def _finish(self, outcome: HookOutcome) -> None:
        """Note the end of all hooks, and warn if those of a startup took too long."""
        if outcome.seconds > self.budget_seconds:
            slowest = max(outcome.reports, key=lambda each: each.seconds, default=None)
            which = f"loading hooks took {outcome.load_seconds:.2f} s"
            if slowest is not None and slowest.seconds > outcome.load_seconds:
                which = f"the hook `{slowest.name}` took {slowest.seconds:.2f} s"
            self._warn_about_budget(outcome, which)
        outcome.finish()

    def _warn_about_budget(self, outcome: HookOutcome, which: str) -> None:
        """Warn once, and only about a startup: the other sources have no budget."""
        if outcome.source == LifecycleSource.STARTUP and outcome.report_budget_once():
            budget = f"{self.budget_seconds:.2f} s"
            self._warn(
                outcome, f"the hooks of the startup exceed their budget of {budget}; {which}"
            )

    # loading

    def _load(self, warn: Warn, *, managed_only: bool = False) -> float:
        """Call the loaders that were not called yet; return how many seconds that took."""
        with self._loading:
            due = [
                each
                for each in self._loaders
                if not each.is_loaded and (each.trust == "managed" or not managed_only)
            ]
            started = self._clock()
            for loader in due:
                loader.is_loaded = True
                self._load_one(loader, warn)
            return self._clock() - started if due else 0.0

    def _load_one(self, loader: _Loader, warn: Warn) -> None:
        """Call a loader and register its hooks."""
        attempt = _attempt(lambda: dict(loader.load(warn)), LOAD_TIMEOUT)
        if attempt.timed_out:
            warn(f"the hooks of `{loader.name}` were not loaded within {LOAD_TIMEOUT:g} s")
        elif attempt.error is not None:
            warn(f"the hooks of `{loader.name}` cannot be loaded: {_reason(attempt.error)}")
        found: dict[str, LifecycleHook] = attempt.value or {}
        for name, hook in found.items():
            try:
                self.register(
                    hook, name=name, trust=loader.trust, enabled=hook.enabled, origin=loader.name
                )
            except Exception as error:  # noqa: BLE001 - settings of a plugin may be properties
                warn(f"the hook `{one_line(str(name), MAX_NAME)}` is not used: {_reason(error)}")

    # observers

    def observe(self, kind: LifecycleNotice | str, observer: Observer) -> Callable[[], None]:
        """Call a function at every notice of a kind; return a function that ends this.

        Observers are told after the fact: what they return is ignored, and their errors are logged.
        """
        entry = (_notice_named(kind), observer)
        with self._lock:
            self._observers.append(entry)

        def stop() -> None:
            with self._lock, suppress(ValueError):
                self._observers.remove(entry)

        return stop

    def notify(
        self, kind: LifecycleNotice | str, session: LiveSession | None = None, **details: Any
    ) -> None:
        """Tell the observers of a kind, in the order in which they were added."""
        notice = HookNotice(kind=_notice_named(kind), session=session, details=details)
        with self._lock:
            observers = [each for known, each in self._observers if known == notice.kind]
        for observer in observers:
            attempt = _attempt(partial(observer, notice), OBSERVER_TIMEOUT)
            if attempt.timed_out:
                self._say(f"an observer of `{notice.kind}` still runs after {OBSERVER_TIMEOUT:g} s")
            elif attempt.error is not None:
                self._say(f"an observer of `{notice.kind}` failed: {_reason(attempt.error)}")

    def _warn(self, outcome: HookOutcome, message: str) -> None:
        outcome.add_warning(message)
        self._say(message)

    def _say(self, message: str) -> None:
        with suppress(Exception):  # a log that fails does not stop the session either
            self._log(message)


# One hook


def _execute(info: HookInfo, event: HookEvent) -> HookResult:
    return clean_result(info.hook.execute(event), hook=info.name)


def _call_builtin(info: HookInfo, event: HookEvent) -> _Attempt:
    """Call a built-in hook in this thread; an essential one raises its errors."""
    try:
        return _Attempt(value=info.hook.execute(event) or HookResult())
    except Exception as error:
        if info.is_essential:
            raise
        return _Attempt(error=error)


def _attempt(call: Callable[[], Any], seconds: float) -> _Attempt:
    """Call a function in a thread of its own, and wait for it.

    If the time is over, the thread is left to itself: Python cannot stop it. It is a daemon, so the
    program can end, and its result is dropped.
    """
    done: list[_Attempt] = []

    def run() -> None:
        try:
            done.append(_Attempt(value=call()))
        except TimeoutError as error:
            done.append(_Attempt(error=error, timed_out=True))
        except BaseException as error:  # noqa: BLE001 - even `SystemExit` must not reach the session
            done.append(_Attempt(error=error))

    thread = threading.Thread(target=run, name="hook", daemon=True)
    thread.start()
    thread.join(seconds)
    return done[0] if done else _Attempt(timed_out=True)


def _report(info: HookInfo, attempt: _Attempt, seconds: float) -> HookReport:
    status: HookStatus = "ok"
    error = None
    if attempt.timed_out:
        status, error = "timeout", f"did not end within {info.timeout:g} s"
        if attempt.error is not None:  # the hook noticed it itself
            error = f"timed out: {one_line(str(attempt.error))}"
    elif attempt.error is not None:
        status, error = "failed", f"failed: {_reason(attempt.error)}"
    return HookReport(
        name=info.name,
        trust=info.trust,
        status=status,
        seconds=seconds,
        error=error,
        result=attempt.value or HookResult(),
    )


def _waited_for(due: Sequence[HookInfo]) -> int:
    """Return how many hooks must end before the caller goes on: those up to the last built-in."""
    return max((number for number, info in enumerate(due, 1) if info.is_builtin), default=0)


def _reason(error: BaseException) -> str:
    """Return why something failed, on one line: errors of hooks may contain any text."""
    if isinstance(error, AmuxError):
        return one_line(error.message)
    return f"{type(error).__name__}: {one_line(str(error))}".removesuffix(": ")


def _sections_of(due: Sequence[HookInfo]) -> tuple[PromptSection, ...]:
    """Return the prompt sections of hooks; those of plugins are quoted."""
    sections: list[PromptSection] = []
    for info in due:
        for section in info.prompt_sections:
            origin, text = section.origin, cut(section.text)
            if info.trust == "plugin":
                origin, text = "plugin", quote_context(text, hook=info.name, trust=info.trust)
            name = one_line(section.name, MAX_NAME)
            sections.append(PromptSection(name=name, text=text, origin=origin))
    return tuple(sections)


# Settings


def _checked(
    hook: LifecycleHook,
    *,
    applies_to: Iterable[LifecycleSource | str],
    priority: object,
    timeout: object,
    trust: Trust,
) -> HookInfo:
    """Return the settings of a hook without its name; raise `ValidationError` for a bad one."""
    names = [applies_to] if isinstance(applies_to, str) else list(applies_to)
    sources = frozenset(source_named(each) for each in names)
    if not sources:
        raise ValidationError("the hook applies to no source", fields=("applies_to",))
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ValidationError("the priority of a hook is a whole number", fields=("priority",))
    _check_trust(trust)
    sections = tuple(hook.prompt_sections)
    if not all(isinstance(cast("object", each), PromptSection) for each in sections):
        raise ValidationError(
            "`prompt_sections` has an item that is no `PromptSection`", fields=("prompt_sections",)
        )
    return HookInfo(
        name="",
        hook=hook,
        applies_to=sources,
        trust=trust,
        priority=priority,
        timeout=_checked_seconds(timeout),
        cleanup_seconds=max(0.0, min(float(hook.cleanup_seconds), MAX_CLEANUP)),
        prompt_sections=sections,
    )


def _checked_seconds(timeout: object) -> float:
    if (
        not isinstance(timeout, int | float)
        or isinstance(timeout, bool)
        or not (isfinite(timeout) and 0 < timeout <= MAX_TIMEOUT)
    ):
        raise ValidationError(
            f"the timeout of a hook is a number of seconds up to {MAX_TIMEOUT:g}",
            fields=("timeout",),
        )
    return float(timeout)


def _check_trust(trust: object) -> None:
    if trust not in TRUSTS:
        raise ValidationError(
            f"`{one_line(str(trust))}` is no level of trust",
            fields=("trust",),
            hint="the levels are `managed`, `user` and `plugin`",
        )


def _notice_named(kind: object) -> LifecycleNotice:
    for notice in LifecycleNotice:
        if kind == notice.value:
            return notice
    raise ValidationError(
        f"`{one_line(str(kind))}` is no notice",
        fields=("kind",),
        hint="the notices are " + ", ".join(f"`{each}`" for each in LifecycleNotice),
    )


def _log_warning(message: str) -> None:
    import logging

    logging.getLogger("amux.lifecycle").warning("%s", message)
