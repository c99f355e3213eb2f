"""Lifecycle hooks: code that runs when a session starts, resumes, is cleared or is compacted.

    class Greeting(LifecycleHook):
        applies_to = ("startup",)

        def on_startup(self, event: HookEvent) -> HookResult:
            return HookResult(context=("The user likes short answers.",))

There are exactly four sources. A fork is a startup with initial messages; everything else that may
interest other code is a notice (`LifecycleNotice`), which no hook can answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from amux.errors import ValidationError
from amux.lifecycle.hook_results import HookResult, one_line, quote_context
from amux.lifecycle.live_session import LiveSession, PromptSection

if TYPE_CHECKING:
    from amux.lifecycle.restore_report import RestoreReport

DEFAULT_PRIORITY: Final = 100
DEFAULT_TIMEOUT: Final = 10.0

Trust = Literal["managed", "user", "plugin"]
"""The origin of a hook: the administrator or amux itself, the user, or an installed package."""

TRUSTS: Final[tuple[Trust, ...]] = ("managed", "user", "plugin")

HookStatus = Literal["ok", "failed", "timeout", "running", "disabled", "not_managed"]
"""The course of one hook. "disabled" and "not_managed" hooks did not run."""


class LifecycleSource(StrEnum):
    """The four reasons for which hooks run."""

    STARTUP = "startup"
    RESUME = "resume"
    CLEAR = "clear"
    COMPACT = "compact"


class LifecycleNotice(StrEnum):
    """Events that observers are told about. They are no sources: nothing can answer them."""

    SESSION_ENDED = "session_ended"
    SESSION_FINALISED = "session_finalised"
    SESSION_RESET = "session_reset"
    SUBAGENT_STOPPED = "subagent_stopped"
    FORK = "fork"
    CHECKPOINT = "checkpoint"


def source_named(name: object) -> LifecycleSource:
    """Return one of the four sources by its name; raise `ValidationError` for any other."""
    for source in LifecycleSource:
        if name == source.value:
            return source
    raise ValidationError(
        f"`{one_line(str(name))}` is no lifecycle source",
        fields=("source",),
        hint="the sources are `startup`, `resume`, `clear` and `compact`",
    )


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event that hooks are told about.

    `initial_messages` are the messages that a fork or a conversion starts with, and `previous` is
    the thread that they come from. `prompt_sections` are those of the hooks that run at startup.
    `summarize` and `options` are the arguments of a compaction.
    """

    source: LifecycleSource
    session: LiveSession
    at: datetime
    initial_messages: tuple[Mapping[str, Any], ...] = ()
    previous: Any = None
    prompt_sections: tuple[PromptSection, ...] = ()
    summarize: Any = None
    options: Mapping[str, Any] = {}


class LifecycleHook:
    """A hook. Override the methods of the sources that concern it, or `execute`.

    Hooks run in the order of their `priority`, the lowest first. `timeout` is in seconds.
    `prompt_sections` are parts of the system prompt that are added at startup; they are fixed
    texts, so that adding them runs no code. A hook may return a `HookResult`, a mapping with its
    fields, a text (context), or None.

    A hook runs in a thread of its own. Python cannot stop a thread: if the time is over, amux goes
    on without the hook and drops its result, but its thread continues until it ends by itself or
    the program ends. It keeps no program from ending. Use a command hook for code that must be
    stopped.
    """

    name: str = ""
    applies_to: Iterable[LifecycleSource | str] = tuple(LifecycleSource)
    priority: int = DEFAULT_PRIORITY
    timeout: float = DEFAULT_TIMEOUT
    cleanup_seconds: float = 0.0  # for a hook that ends its own work when its time is over
    prompt_sections: Sequence[PromptSection] = ()
    enabled: bool = True  # of a hook that a loader brings: a disabled one is listed and not run

    def execute(self, event: HookEvent) -> object:
        """Handle an event and return the result; by default the method of its source does it."""
        match event.source:
            case LifecycleSource.STARTUP:
                return self.on_startup(event)
            case LifecycleSource.RESUME:
                return self.on_resume(event)
            case LifecycleSource.CLEAR:
                return self.on_clear(event)
            case LifecycleSource.COMPACT:
                return self.on_compact(event)

    def on_startup(self, event: HookEvent) -> object:
        """Handle the start of a new session, also of a fork; return the result."""

    def on_resume(self, event: HookEvent) -> object:
        """Handle the continuation of a session; return the result."""

    def on_clear(self, event: HookEvent) -> object:
        """Handle that the conversation was emptied; return the result."""

    def on_compact(self, event: HookEvent) -> object:
        """Handle that the conversation is condensed; return the result."""


class FunctionHook(LifecycleHook):
    """A function as a hook."""

    def __init__(self, function: Callable[[HookEvent], object]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function

    def execute(self, event: HookEvent) -> object:
        """Call the function and return its result."""
        return self._function(event)


class HookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered hook with its settings.

    `origin` is "built-in", "program" for a hook that the program itself registered, or the name of
    the loader that brought it, such as "hooks.json" and "plugins". The work of an `is_builtin` hook
    belongs to the source itself: it runs in the thread of the caller. If an `is_essential` one
    fails, its error is raised.
    """

    name: str
    hook: LifecycleHook
    applies_to: frozenset[LifecycleSource]
    origin: str = "program"
    trust: Trust = "user"
    priority: int = DEFAULT_PRIORITY
    timeout: float = DEFAULT_TIMEOUT
    cleanup_seconds: float = 0.0
    prompt_sections: tuple[PromptSection, ...] = ()
    enabled: bool = True
    is_builtin: bool = False
    is_essential: bool = False


class HookReport(msgspec.Struct, frozen=True, kw_only=True):
    """The course of one hook: its status, its time, and its result or its error."""

    name: str
    trust: Trust
    status: HookStatus
    seconds: float = 0.0
    error: str | None = None
    result: HookResult = HookResult()


class HookNotice(msgspec.Struct, frozen=True, kw_only=True):
    """The message to an observer; `session` is None if there is none in memory."""

    kind: LifecycleNotice
    session: Any = None
    details: Mapping[str, Any] = {}


class HookOutcome:
    """The results of the hooks of one event, in the order of the hooks.

    Hooks that take longer than the caller waits continue, and their results appear here when they
    end: `wait` waits for them.
    """

    def __init__(self, source: LifecycleSource) -> None:
        self.source = source
        self.load_seconds = 0.0  # the time that loading hooks took
        self._reports: dict[str, HookReport] = {}
        self._warnings: list[str] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._budget_reported = False

    @property
    def is_done(self) -> bool:
        """Whether all hooks have ended."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all hooks have ended; return False if `timeout` seconds were too short."""
        return self._done.wait(timeout)

    @property
    def reports(self) -> tuple[HookReport, ...]:
        """The course of every hook that applies to the source."""
        with self._lock:
            return tuple(self._reports.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about hooks that failed, hung, or took too long."""
        with self._lock:
            return tuple(self._warnings)

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The messages of all hooks; each names its hook and is marked as synthetic."""
        return tuple(each for report in self.reports for each in report.result.messages)

    @property
    def context(self) -> tuple[str, ...]:
        """The texts for the prompt, as the hooks returned them; see `context_prompt`."""
        return tuple(each for report in self.reports for each in report.result.context)

    @property
    def watch_paths(self) -> tuple[str, ...]:
        """The paths to watch, each one once."""
        paths = (each for report in self.reports for each in report.result.watch_paths)
        return tuple(dict.fromkeys(paths))

    @property
    def restored(self) -> RestoreReport | None:
        """The report of the restore; None if nothing was restored."""
        found = (each.result.restored for each in self.reports)
        return next((each for each in found if each is not None), None)

    @property
    def compacted(self) -> str | None:
        """The id of the record with the summary; None if nothing was compacted."""
        found = (each.result.compacted for each in self.reports)
        return next((each for each in found if each is not None), None)

    @property
    def seconds(self) -> float:
        """The time that loading and running the hooks took together."""
        return self.load_seconds + sum(report.seconds for report in self.reports)

    def context_prompt(self) -> str:
        """Return the texts for the prompt as quotations that name their hook; "" without any."""
        return "\n".join(
            quote_context(text, hook=report.name, trust=report.trust)
            for report in self.reports
            for text in report.result.context
        )

    def set_report(self, report: HookReport) -> None:
        """Set the report of one hook; the first one of a name decides about the order."""
        with self._lock:
            self._reports[report.name] = report

    def add_warning(self, message: str) -> None:
        """Add a sentence about a hook."""
        with self._lock:
            self._warnings.append(message)

    def report_budget_once(self) -> bool:
        """Return True for the first caller that wants to warn about the budget, False later."""
        with self._lock:
            first, self._budget_reported = not self._budget_reported, True
        return first

    def finish(self) -> None:
        """Note that all hooks have ended."""
        self._done.set()
