"""`amux store doctor`, `rebuild` and `optimize`: check and maintain the session store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from amux.errors import StoreError
from amux.faces.cli.commands.store_list import THREAD_HELP
from amux.faces.cli.context import Context
from amux.faces.cli.figures import count, size
from amux.faces.cli.filters import add_examples
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser
from amux.faces.cli.thread_rows import as_json

if TYPE_CHECKING:
    from amux.lifecycle.restore_report import FieldCheck, RestoreReport
    from amux.store.reports import RepairReport

_LONGEST_VALUE: Final = 60


def configure_doctor(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("thread", metavar="THREAD", nargs="?", help=f"{THREAD_HELP} (all threads)")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="write the whole records of damaged threads to new files, and keep the originals",
    )
    add_examples(parser, "amux store doctor", "amux store doctor 29c5cee3 --repair")


def run_doctor(context: Context) -> None:
    """Read threads completely and show what is wrong, and what resuming one would bring back."""
    output, store = context.output, context.client.store
    with context.busy("reading every thread"):
        report = store.doctor(context.args.thread)
    repairs: list[RepairReport] = []
    for each in report.threads if context.args.repair else ():
        try:
            repairs.append(store.repair(each.thread_id))
        except StoreError as error:  # of a newer format; the others can be repaired all the same
            output.warning(error.message)
    thread = context.args.thread
    restored = None if thread is None else context.client.restore_report(thread)
    if context.is_json:
        repaired = {"repairs": as_json(repairs)} if repairs else {}
        resumed = {} if restored is None else {"restore": _restore_json(restored)}
        output.json({**as_json(report), "isHealthy": report.is_healthy, **repaired, **resumed})
    else:
        if restored is not None:
            _write_restore(context, restored)
        output.rows(
            (f"amux:{each.thread_id}", problem.code, str(problem))
            for each in report.threads
            for problem in each.problems
        )
        output.rows(("", problem.code, str(problem)) for problem in report.problems)
    for repair in repairs:
        output.note(
            f"amux:{repair.thread_id}: {count(repair.records, 'record')} kept;"
            f" the original is `{repair.damaged}`"
        )
    checked = count(report.checked, "thread")
    if report.is_healthy:
        output.note(f"{checked} checked, nothing is wrong")
    elif not repairs:
        hint = "; `--repair` keeps what can be read" if report.threads else ""
        output.warning(f"{checked} checked, {len(report.threads):,} damaged{hint}")


def _restore_json(report: RestoreReport) -> dict[str, Any]:
    return {**as_json(report), "isComplete": report.is_complete}


def _write_restore(context: Context, report: RestoreReport) -> None:
    """Write what a resume brings back: each value as it was recorded and as it would be."""
    rows = [_restore_row("premise", each) for each in report.premises]
    for subsystem in report.subsystems:
        if not subsystem.fields:
            rows.append((subsystem.name, subsystem.status, "", "", subsystem.error or ""))
        rows += [_restore_row(subsystem.name, each) for each in subsystem.fields]
    if context.output.is_terminal:
        columns = ("Part", "State", "Value", "Recorded", "Restored")
        context.output.fitted_table([Column(name) for name in columns], rows)
    else:
        context.output.rows(rows)
    for line in (*report.notes, *report.warnings):
        context.output.note(line)
    for problem in report.undecided:
        context.output.warning(f"{problem.message}: {' or '.join(problem.choices)}")


def _restore_row(part: str, field: FieldCheck) -> tuple[str, str, str, str, str]:
    status = "restored" if field.is_equal else "changed"
    return part, status, field.name, _short(field.expected), _short(field.actual)


def _short(value: object) -> str:
    """Return a value as one short line of JSON."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def configure_rebuild(parser: CommandParser) -> None:
    """Add examples; the command has no arguments."""
    add_examples(parser, "amux store rebuild")


def run_rebuild(context: Context) -> None:
    """Derive the index from the threads again."""
    with context.working("reading threads") as report_progress:
        report = context.client.store.rebuild_index(
            progress=lambda done, total: report_progress(done, total, "threads")
        )
    threads, messages = count(report.threads, "thread"), count(report.messages, "message")
    context.confirm(as_json(report), f"the index holds {threads} and {messages}")
    context.report_problems(report.problems)


def configure_optimize(parser: CommandParser) -> None:
    """Add examples; the command has no arguments."""
    add_examples(parser, "amux store optimize")


def run_optimize(context: Context) -> None:
    """Make the index small and fast."""
    with context.busy("optimizing"):
        report = context.client.store.optimize()
    before, after = size(report.bytes_before), size(report.bytes_after)
    removed = count(report.blobs_removed, "unused blob")
    context.confirm(as_json(report), f"the index takes {after} (was {before}); {removed} removed")
