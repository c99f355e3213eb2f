"""Starts an agent for a command: prints the command, hands the terminal over, or shows events.

Without a terminal of its own the agent's answer goes to stdout, with `--json` every event as a line
of JSON. Ctrl-C, SIGTERM and SIGHUP end the agent and its children before amux itself ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from amux.errors import AmuxError, DecisionRequiredError, ErrorCode
from amux.faces.cli.context import Context, usable_path
from amux.faces.cli.live_line import LiveLine
from amux.faces.cli.safety import safe_text

if TYPE_CHECKING:
    from amux.runs.events import AgentEvent
    from amux.runs.launch import Launch
    from amux.runs.run import Run, RunResult


def start(
    context: Context, agent: str | None, prompt: str | None, named: Mapping[str, Any]
) -> None:
    """Run an agent; `named` has the session to resume or fork, and whether to keep one."""
    args = context.args
    is_interactive = prompt is None or args.interactive
    try:
        launch = _plan(context, agent, prompt, named, is_interactive=is_interactive)
    except DecisionRequiredError as error:
        args.cwd = _ask_for_directory(context, error)
        launch = _plan(context, agent, prompt, named, is_interactive=is_interactive)
    if args.dry_run:
        _print(context, launch)
    elif is_interactive:
        _hand_over(context, launch)
    else:
        _show(context, launch, named)


def _plan(
    context: Context,
    agent: str | None,
    prompt: str | None,
    named: Mapping[str, Any],
    *,
    is_interactive: bool,
) -> Launch:
    args = context.args
    runs = context.client.runs
    assigned: str | None = None
    is_new = not any(named.values())
    if is_interactive and args.tags and is_new and agent is not None and runs.assigns_ids(agent):
        from uuid import uuid4

        assigned = str(uuid4())  # the tags belong to this session
    cwd = None if args.cwd is None else usable_path(args.cwd).expanduser()
    with context.busy("looking for the session and the agent"):
        launch = runs.plan(
            agent,
            prompt,
            **named,
            model=args.model,
            cwd=cwd,
            approval_mode=args.approval_mode,
            interactive=is_interactive,
            assigned_id=assigned,
            args=args.args or (),
        )
    if assigned is not None:
        args.assigned_id = assigned
    return launch


def _ask_for_directory(context: Context, error: DecisionRequiredError) -> str:
    """Return the directory that the user names instead of one that is gone."""
    if context.args.dry_run or not _has_terminal():
        raise error
    sys.stdout.flush()
    sys.stderr.write(f"{safe_text(error.message)}\ndirectory to work in [.]: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise error
    return answer.strip() or os.curdir


def _print(context: Context, launch: Launch) -> None:
    if context.is_json:
        context.output.json(launch)
        return
    from amux.faces.cli.commands.run import print_command

    print_command(context, launch.argv, launch.stdin)


def _hand_over(context: Context, launch: Launch) -> None:
    """Replace this process with the agent."""
    if not _has_terminal():
        raise AmuxError(
            f"`{launch.argv[0]}` needs a terminal",
            code=ErrorCode.PTY_NOT_AVAILABLE,
            hint="give a prompt, then it runs without one",
        )
    args = context.args
    session_id = launch.session_id if launch.action == "resume" else None
    session_id = getattr(args, "assigned_id", None) or session_id
    if args.tags and session_id is None:
        context.output.warning(
            "the id of the new session is not known yet: its tags are in the run index only"
        )
    raise SystemExit(context.client.runs.start(launch, tags=args.tags or (), session_id=session_id))


def _show(context: Context, launch: Launch, named: Mapping[str, Any]) -> None:
    """Run the agent, show its events and report how it ended."""
    args = context.args
    runs = context.client.runs
    is_dumb = os.environ.get("TERM") == "dumb"  # noqa: TID251 - a face asks the process
    is_shown = context.output.shows_progress and not context.is_json and not is_dumb
    with _SignalStop() as signals:
        run = runs.run_planned(
            launch,
            model=args.model,
            no_session=bool(named.get("no_session")),
            tags=args.tags or (),
            timeout=args.timeout,
            inactivity_timeout=args.inactivity_timeout,
        )
        with run, LiveLine(launch.agent, is_shown=is_shown) as line:
            signals.watch(run)
            result = _follow(context, run, line)
    _report(context, result)


def _follow(context: Context, run: Run, line: LiveLine) -> RunResult:
    """Show the events of a run and return its result."""
    for event in run:
        if context.is_json:
            context.output.json_line(event)
            sys.stdout.flush()
        else:
            _show_event(context, run, line, event)
    result = run.wait()
    if not context.is_json and result.status == "ok" and not run.figures.text:
        line.write(_shown(context, f"{result.text}\n"))  # an answer without events
    return result


def _show_event(context: Context, run: Run, line: LiveLine, event: AgentEvent) -> None:
    """Write a text; show everything else in the live line."""
    if event.type == "text" and event.text:
        line.write(_shown(context, event.text if event.is_delta else f"{event.text.rstrip()}\n"))
    elif event.type == "tool_call":
        line.tool = event.tool
    elif event.type == "tool_result":
        line.tool = None
    tokens = run.figures.tokens
    line.tokens = None if tokens is None else tokens.total
    line.cost_usd = run.figures.cost_usd


def _shown(context: Context, text: str) -> str:
    return safe_text(text, multiline=True) if context.output.is_terminal else text


def _report(context: Context, result: RunResult) -> None:
    """Write how the run ended; an unsuccessful one ends amux with its exit code."""
    for warning in result.warnings:
        context.output.warning(warning)
    if result.error is not None:
        error = AmuxError(result.error, code=result.error_code)
        context.output.error(error.message)
        raise SystemExit(error.exit_code)
    if context.output.shows_progress and not context.is_json and result.session_id is not None:
        context.output.note(f"session {result.agent}:{result.session_id}")


class _SignalStop:
    """Ends a run on Ctrl-C, SIGTERM and SIGHUP; the second signal kills it at once.

    The signals are caught before the run begins, so that none leaves an agent behind.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._is_stopped = False
        self._earlier: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for sign in (signal.SIGINT, signal.SIGTERM, *_hang_up()):
            self._earlier[sign] = signal.signal(sign, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for sign, handler in self._earlier.items():
            signal.signal(sign, handler)

    def watch(self, run: Run) -> None:
        """Stop this run, at once if a signal came before it."""
        self._run = run
        if self._is_stopped:
            run.request_stop()

    def _stop(self, *_: object) -> None:
        self._is_stopped = True
        if self._run is not None:
            self._run.request_stop()


def _hang_up() -> list[signal.Signals]:
    return [] if sys.platform == "win32" else [signal.SIGHUP]


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
