"""`amux managed list`, `start`, `resume`, `recover`, `stop`, `cleanup` and `delete`."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amux.errors import ValidationError
from amux.faces.cli.confirm import add_confirmation, insist
from amux.faces.cli.context import Context, working_directory
from amux.faces.cli.figures import UNKNOWN, ago, count, rfc3339, short_ids
from amux.faces.cli.filters import add_examples
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from amux.managed.reports import RecoveryOffer
    from amux.managed.sessions import ManagedSessions
    from amux.managed.state import SessionInfo

SESSION_HELP = "an id of a managed session, the beginning of one, or AGENT:ID"
STATUSES = ("created", "active", "idle", "ended", "crashed", "archived")
STRATEGIES = ("always", "resume_or_new", "always_new", "manual")
WAYS = ("resume", "new", "export", "discard")
_INTERRUPTS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def configure_list(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("--status", **one_of(*STATUSES), help="only sessions with this status")
    add_examples(parser, "amux managed list", "amux managed list --agent droid --status idle")


def run_list(context: Context) -> None:
    """List managed sessions."""
    with _open(context) as managed:
        args = context.args
        found = managed.list_sessions(args.agent, args.status)
        if context.is_json:
            context.output.json(found)
        else:
            _write(context, found)
        if not found:
            context.output.note("no managed session matches")


def configure_start(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("agent_name", metavar="AGENT", help="the agent")
    _add_prompts(parser)
    parser.add_argument("--cwd", metavar="DIR", help="working directory (the current one)")
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the agent; may be repeated",
    )
    add_examples(
        parser,
        'amux managed start droid "Fix the flaky test" --option autonomy=low',
        'amux managed start opencode "List the routes" "Now document them"',
    )


def run_start(context: Context) -> None:
    """Start a session and print the answer."""
    with _open(context) as managed:
        args = context.args
        info = managed.create_session(
            args.agent_name,
            args.prompts or None,
            cwd=working_directory(args.cwd or "."),
            model=args.model,
            **_options(args.option),
        )
        _answer(context, info)


def configure_resume(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "session", metavar="SESSION", help=f"{SESSION_HELP}; or an agent, for its last session"
    )
    _add_prompts(parser)
    parser.add_argument(
        "--strategy", **one_of(*STRATEGIES), help="if the agent cannot resume (settings)"
    )
    add_examples(
        parser,
        'amux managed resume 3f2a "Go on"',
        'amux managed resume claude "Go on" --strategy resume_or_new',
    )


def run_resume(context: Context) -> None:
    """Continue a session and print the answer."""
    with _open(context) as managed:
        args = context.args
        agents = {info.name for info in context.client.adapters.list()}
        if args.session in agents:
            info = managed.open_session(
                args.session,
                args.prompts or None,
                strategy=args.strategy,
                cwd=working_directory("."),
            )
        else:
            info = managed.resume_session(
                args.session, args.prompts or None, strategy=args.strategy
            )
        _answer(context, info)


def configure_recover(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("session", metavar="SESSION", nargs="?", help=SESSION_HELP)
    _add_prompts(parser)
    parser.add_argument("--by", **one_of(*WAYS), help="how to recover the session")
    add_confirmation(parser)
    add_examples(
        parser,
        "amux managed recover",
        'amux managed recover 3f2a "Go on" --by resume',
        "amux managed recover 3f2a --by export > session.md",
    )


def run_recover(context: Context) -> None:
    """Show crashed sessions with the ways to recover them, or recover one."""
    with _open(context) as managed:
        args = context.args
        if args.session is None:
            _write_offers(context, managed.recover())
            return
        if args.by is None:
            ways = ", ".join(WAYS)
            raise ValidationError("`--by` is missing", fields=("by",), hint=f"one of {ways}")
        if args.by == "discard":
            state = managed.get(args.session)
            if args.dry_run:
                context.confirm(
                    {"id": state.id, "dryRun": True},
                    f"managed session `{state.id}` would be deleted",
                )
                return
            insist(context, f"delete the record of managed session `{state.id}`")
        report = managed.recover_session(args.session, args.by, args.prompts or None)
        if context.is_json:
            context.output.json(report)
        elif report.export is not None:
            context.output.stream([report.export], is_json=False)
        elif report.session is not None:
            _answer(context, report.session)
        else:
            context.output.note("the record was deleted; the data of the agent are untouched")


def configure_stop(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("sessions", metavar="SESSION", nargs="+", help=SESSION_HELP)
    parser.add_argument("--archive", action="store_true", default=None, help="put it away as well")
    add_examples(parser, "amux managed stop 3f2a", "amux managed stop 3f2a --archive")


def run_stop(context: Context) -> None:
    """Stop agents and end their sessions."""
    with _open(context) as managed:
        args = context.args
        ids = [managed.get(name).id for name in dict.fromkeys(args.sessions)]
        for session_id in ids:
            managed.terminate(session_id, archive=args.archive)
        context.confirm({"ids": ids}, f"{count(len(ids), 'managed session')} ended")


def configure_cleanup(parser: CommandParser) -> None:
    """Add the arguments."""
    add_confirmation(parser)
    add_examples(parser, "amux managed cleanup --dry-run", "amux managed cleanup --yes")


def run_cleanup(context: Context) -> None:
    """Put away ended sessions that are old or too many."""
    with _open(context) as managed:
        report = managed.cleanup(dry_run=True)
        if report.sessions and not context.args.dry_run:
            number = count(len(report.sessions), "managed session")
            insist(context, f"{report.action} {number}")
            report = managed.cleanup()
        if context.is_json:
            context.output.json(report)
            return
        if report.dry_run:
            _write(context, report.sessions)
        done = "archived" if report.action == "archive" else "deleted"
        would = "would be " if report.dry_run else ""
        context.output.note(f"{count(len(report.sessions), 'managed session')} {would}{done}")
        for agent in report.over_limit:
            context.output.warning(f"{agent} has more sessions than `max_sessions_per_agent`")


def configure_delete(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("sessions", metavar="SESSION", nargs="+", help=SESSION_HELP)
    add_confirmation(parser)
    add_examples(parser, "amux managed delete 3f2a", "amux managed delete 3f2a --dry-run")


def run_delete(context: Context) -> None:
    """Delete records of amux; the data of the agents stay."""
    with _open(context) as managed:
        args = context.args
        ids = list(dict.fromkeys(managed.get(name).id for name in args.sessions))
        number = count(len(ids), "managed session")
        if not args.dry_run:
            insist(context, f"delete the record of {number} for good")
            for session_id in ids:
                managed.delete_session(session_id)
        would = "would be " if args.dry_run else ""
        result = {"ids": ids, "dryRun": args.dry_run}
        context.confirm(result, f"{number} {would}deleted; the data of the agents stay")


@contextmanager
def _open(context: Context) -> Generator[ManagedSessions]:
    """Give the managed sessions to the body; afterwards store what waits in memory.

    Ctrl-C, SIGTERM and SIGHUP interrupt the body, so that no agent outlives it.
    """
    managed = context.client.managed
    earlier = {sign: signal.signal(sign, _interrupt) for sign in _INTERRUPTS}
    try:
        yield managed
    finally:
        managed.close()
        for sign, handler in earlier.items():
            signal.signal(sign, handler)


def _interrupt(*_: object) -> None:
    """Interrupt the command once; further signals must not keep it from ending its agent."""
    for sign in _INTERRUPTS:
        signal.signal(sign, signal.SIG_IGN)
    raise KeyboardInterrupt


def _add_prompts(parser: CommandParser) -> None:
    parser.add_argument(
        "prompts",
        metavar="PROMPT",
        nargs="*",
        default=[],
        help="the prompt; several are sent one after the other",
    )


def _options(words: Sequence[str]) -> dict[str, Any]:
    """Return the options of `--option`; `true` and `false` are switches."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.isidentifier()):
            raise ValidationError(f"`{word}` is not NAME=VALUE", fields=("option",))
        found[name] = {"true": True, "false": False}.get(value, value)
    return found


def _answer(context: Context, info: SessionInfo) -> None:
    """Print the answer of the agent; the session is named on stderr."""
    if context.is_json:
        context.output.json(info)
        return
    if info.text:
        text = info.text if info.text.endswith("\n") else f"{info.text}\n"
        context.output.stream([text], is_json=False)
    sys.stdout.flush()
    for warning in info.warnings:
        context.output.warning(warning)
    how = "new" if info.is_new else "resumed"
    context.output.note(f"managed session {info.id} of {info.agent} is {info.status} ({how})")


def _write(context: Context, found: Sequence[SessionInfo]) -> None:
    """Draw a table on a terminal, else write rows; new columns are added at the end."""
    output = context.output
    if not output.is_terminal:
        output.rows(
            (each.id, each.agent, each.status, each.agent_session_id or UNKNOWN,
             str(each.resume_count), rfc3339(each.updated_at), each.last_prompt or "",
             each.last_error or "")
            for each in found
        )  # fmt: skip
        return
    if not found:
        return
    ids = short_ids(each.id for each in found)
    columns = [
        Column("Session", style="cyan"),
        Column("Agent"),
        Column("Status"),
        Column("Resumed", is_number=True),
        Column("Changed"),
        Column("Last prompt", grows=True),
    ]
    rows = [
        (
            ids[each.id],
            each.agent,
            each.status,
            str(each.resume_count),
            ago(each.updated_at, now=context.now),
            each.last_error or each.last_prompt or UNKNOWN,
        )
        for each in found
    ]
    output.fitted_table(columns, rows, spare=("Resumed", "Changed"))


def _write_offers(context: Context, offers: Sequence[RecoveryOffer]) -> None:
    if context.is_json:
        context.output.json(offers)
        return
    _write(context, [offer.session for offer in offers])
    if offers:
        first = offers[0].session
        context.output.hint(f"`amux managed recover {first.id[:8]} --by {'|'.join(WAYS)}`")
    else:
        context.output.note("no managed session has crashed")
