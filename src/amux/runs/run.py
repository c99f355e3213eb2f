"""`Run`: an agent that works on one prompt. Iterating yields its events, `wait` its result."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import datetime
from threading import Lock
from typing import Final, Self

import msgspec

from amux.errors import AmuxError, ErrorCode
from amux.model.base import Model
from amux.model.cost import CostRecord
from amux.model.usage import Tokens
from amux.runs.events import AgentEvent, RunStatus
from amux.runs.launch import Launch
from amux.runs.process import GRACE_S, AgentProcess, Cause
from amux.runs.readers import make_reader

_TEXT_KEPT: Final = 1 << 20
_COMPLAINT: Final = 400


class RunResult(Model, frozen=True, kw_only=True):
    """The outcome of a run. `usage` and `cost` are None if the agent did not report them.

    `text` is the answer, of which at most a mebibyte is kept.
    """

    run_id: str
    agent: str
    session_id: str | None = None
    exit_code: int | None = None
    status: RunStatus = "ok"
    text: str = ""
    model: str | None = None
    usage: Tokens | None = None
    cost: CostRecord | None = None
    error: str | None = None
    error_code: ErrorCode | None = None
    warnings: tuple[str, ...] = ()

    def raise_for_status(self) -> None:
        """Raise the error of a run that did not end well.

        Raises:
            AmuxError: AGENT_CRASH, TIMEOUT, INACTIVITY_TIMEOUT, ABORTED or PARSE_ERROR.
        """
        if self.error is not None:
            raise AmuxError(self.error, code=self.error_code or ErrorCode.AGENT_CRASH)


class Run(Iterator[AgentEvent]):
    """One run. One thread may iterate or wait; any thread may interrupt or abort.

    An agent waits as soon as its pipe is full, until its events are read. The agent and its
    children have ended when the iteration is over, when `wait` returns, and when the context is
    left.
    """

    def __init__(
        self,
        launch: Launch,
        process: AgentProcess | None,
        *,
        run_id: str,
        now: Callable[[], datetime],
        session_id: str | None = None,
        model: str | None = None,
        on_end: Callable[[RunResult], RunResult] | None = None,
    ) -> None:
        self.launch = launch
        self.run_id, self.agent = run_id, launch.agent
        self.session_id = session_id
        self.model = model
        self._process, self._now, self._on_end = process, now, on_end
        self._figures = RunFigures()
        self._end: AgentEvent | None = None  # the agent's own end, which may not be its last event
        self._last_error: str | None = None
        self._result: RunResult | None = None
        self._lock = Lock()
        self._events = self._read()

    @property
    def pid(self) -> int | None:
        """The id of the process and of its group; None in a dry run."""
        return None if self._process is None else self._process.pid

    @property
    def figures(self) -> RunFigures:
        """The tokens and the cost so far."""
        return self._figures

    @property
    def is_active(self) -> bool:
        """Whether the agent may still run."""
        return self._process is not None and self._result is None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AgentEvent:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout: float | None = None) -> RunResult:
        """Read all events and return the result; after `timeout` seconds the run is stopped."""
        if timeout is not None and self._process is not None:
            self._process.limit(timeout)
        for _ in self._events:
            pass
        if self._result is None:  # the iteration was closed early
            self._finish()
        assert self._result is not None  # noqa: S101 - `_finish` sets it
        return self._result

    def interrupt(self) -> None:
        """Ask the agent to stop what it does, as Ctrl-C would."""
        if self._process is not None:
            self._process.cause = self._process.cause or "aborted"
            self._process.signal(signal.SIGINT)

    def abort(self, grace: float = GRACE_S) -> None:
        """End the agent and its children: SIGTERM, and SIGKILL after `grace` seconds."""
        if self._process is not None:
            self._process.stop("aborted", grace=grace)

    def request_stop(self) -> None:
        """Ask the agent to end and return at once; a second request kills it.

        The thread that iterates or waits sees the end. Signal handlers may call this.
        """
        if self._process is not None and self._result is None:
            self._process.request_stop()

    def close(self) -> None:
        """End the agent if it still runs, and record the end; there are no events after it."""
        if self._process is not None and self._result is None:
            self._process.close()
            self._events.close()
        self._finish()

    def _read(self) -> Generator[AgentEvent]:
        process = self._process
        if process is None:
            return
        reader = make_reader(
            self.launch.format or "text", action=self.launch.action, version=self.launch.version
        )
        with closing(process.lines()) as lines:
            for line in lines:
                for event in reader.line(line):
                    yield from self._accept(event)
        for event in (*reader.finish(), *reader.errors(process.errors)):
            yield from self._accept(event)
        is_garbage = reader.understood == 0 and process.cause is None
        result = self._finish(reader.answer, is_garbage=is_garbage)
        yield self._stamped(
            AgentEvent(
                type="end",
                status=result.status,
                exit_code=result.exit_code,
                text=result.text or None,
                is_error=result.status != "ok",
                model=result.model,
                tokens=result.usage,
                cost_usd=None if result.cost is None else result.cost.total_usd,
                scope="run",
                raw=None if self._end is None else self._end.raw,
            )
        )

    def _accept(self, event: AgentEvent) -> Iterator[AgentEvent]:
        """Yield an event, except the agent's own end: a run ends with its process."""
        if event.session_id is not None:
            self.session_id = event.session_id
        self.model = event.model or self.model
        if event.type == "end":
            earlier, self._end = self._end, event
            if earlier is not None and earlier.raw is not None:
                yield self._stamped(AgentEvent(type="unknown", raw=earlier.raw))
            return
        if event.type == "error":
            self._last_error = event.text
        self._figures.add(event)
        yield self._stamped(event)

    def _stamped(self, event: AgentEvent) -> AgentEvent:
        return msgspec.structs.replace(
            event, run_id=self.run_id, at=self._now(), session_id=self.session_id
        )

    def _finish(self, answer: str | None = None, *, is_garbage: bool = False) -> RunResult:
        """Create the result and record the end of the run, once."""
        with self._lock:
            if self._result is None:
                result = self._make_result(answer, is_garbage=is_garbage)
                self._result = result if self._on_end is None else self._on_end(result)
            return self._result

    def _make_result(self, answer: str | None, *, is_garbage: bool) -> RunResult:
        process = self._process
        code = None if process is None else process.exit_code
        status, error_code, error = self._judge(is_garbage=is_garbage)
        text = answer if answer is not None else self._figures.text
        return RunResult(
            run_id=self.run_id,
            agent=self.agent,
            session_id=self.session_id,
            exit_code=code,
            status=status,
            text=text[:_TEXT_KEPT],
            model=self.model,
            usage=self._figures.tokens,
            cost=self._figures.cost_record(),
            error=error,
            error_code=error_code,
        )

    def _judge(self, *, is_garbage: bool) -> tuple[RunStatus, ErrorCode | None, str | None]:
        """Return the status of an ended run, and the error if it did not end well."""
        process = self._process
        if process is None:
            return "ok", None, None
        name = self.launch.argv[0]
        if process.cause is not None:
            status, code, what = _STOPPED[process.cause]
            return status, code, f"`{name}` {what}"
        failed = self._end is not None and self._end.is_error
        if process.exit_code != 0 or failed:
            return "failed", ErrorCode.AGENT_CRASH, f"`{name}` {self._failure(process)}"
        if is_garbage:
            message = f"`{name}` printed nothing that amux understands"
            return "failed", ErrorCode.PARSE_ERROR, message
        return "ok", None, None

    def _failure(self, process: AgentProcess) -> str:
        """Describe how the agent failed, in its own words if it said any."""
        said = self._end.text if self._end is not None and self._end.is_error else None
        reason = said or self._last_error or process.errors or self._figures.text
        detail = f": {' '.join(reason.split())[-_COMPLAINT:]}" if reason.strip() else ""
        return f"{_description(process.exit_code)}{detail}"


_STOPPED: Final[dict[Cause, tuple[RunStatus, ErrorCode, str]]] = {
    "timeout": ("timeout", ErrorCode.TIMEOUT, "took too long and was stopped"),
    "inactivity": (
        "timeout",
        ErrorCode.INACTIVITY_TIMEOUT,
        "printed nothing for too long and was stopped",
    ),
    "aborted": ("aborted", ErrorCode.ABORTED, "was stopped"),
}


def _description(code: int | None) -> str:
    if code == 0:
        return "reported an error"
    if code is not None and code < 0:
        return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


class RunFigures:
    """The tokens, the cost and the text of a run, from its events so far."""

    def __init__(self) -> None:
        self._by_call: Tokens | None = None
        self._of_run: Tokens | None = None
        self._cost_by_call: float | None = None
        self._cost_of_run: float | None = None
        self._texts: list[str] = []
        self._size = 0

    @property
    def tokens(self) -> Tokens | None:
        """The tokens that the agent reported for the run, else the sum of its calls."""
        return self._of_run or self._by_call

    @property
    def cost_usd(self) -> float | None:
        """The cost that the agent reported for the run, else the sum of its calls."""
        return self._cost_by_call if self._cost_of_run is None else self._cost_of_run

    @property
    def text(self) -> str:
        """The texts of the run."""
        return "".join(self._texts).strip()

    def add(self, event: AgentEvent) -> None:
        """Count an event. A figure of the whole session says nothing about the run."""
        if event.type == "usage" and event.tokens is not None:
            if event.scope == "run":
                self._of_run = event.tokens
            elif event.scope == "call":
                self._by_call = event.tokens + (self._by_call or Tokens())
        elif event.type == "cost" and event.cost_usd is not None:
            if event.scope == "run":
                self._cost_of_run = event.cost_usd
            elif event.scope == "call":
                self._cost_by_call = event.cost_usd + (self._cost_by_call or 0.0)
        elif event.type == "text" and event.text and self._size < _TEXT_KEPT:
            text = event.text if event.is_delta else f"{event.text}\n\n"
            self._texts.append(text)
            self._size += len(text)

    def cost_record(self) -> CostRecord | None:
        """Return the cost with its tokens; None if the agent reported no cost."""
        cost = self.cost_usd
        return None if cost is None else cost_of(cost, self.tokens or Tokens())


def cost_of(usd: float, tokens: Tokens) -> CostRecord:
    """Return an amount with the tokens that it was spent on."""
    return CostRecord(
        total_usd=usd,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thinking_tokens=tokens.thinking,
        cached_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write or None,
    )
