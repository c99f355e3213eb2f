"""`amux doctor`: classify every file below the agents' roots, show what is deleted next.

`amux doctor --unknown` prints what amux does not know of the agents' formats, for a bug report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux._version import __version__
from amux.faces.cli.context import Context
from amux.faces.cli.figures import count, rfc3339, size
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amux.model.reports import RootReport, UnknownReport

_ALWAYS_SHOWN = ("unread", "unknown", "link")
_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("File", grows=True),
    Column("Is"),
    Column("Size", is_number=True),
    Column("Why"),
)

_UNKNOWN_COLUMNS = (
    Column("Kind"),
    Column("Name", grows=True),
    Column("Is"),
    Column("Number", is_number=True),
)


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("--files", action="store_true", help="show all files, not only unread ones")
    parser.add_argument(
        "--unknown",
        action="store_true",
        help="print the record types, fields and files that amux does not know, for a bug report: "
        "names and counts, no content; fields are compared for every built-in agent but `agent`",
    )


def run(context: Context) -> None:
    """Classify every file, or report what is unknown."""
    if context.args.unknown:
        _report_unknown(context)
        return
    output = context.output
    with context.busy("checking every file"):
        reports = context.client.doctor(context.args.agent)
    if context.is_json:
        output.json(reports)
        return
    rows = [
        (report, file)
        for report in reports
        for file in report.files
        if context.args.files or file.status in _ALWAYS_SHOWN
    ]
    if output.is_terminal:
        for report in reports:
            counts = (f"{number:,} {status}" for status, number in report.counts.items())
            output.text(f"{report.agent}: {report.root}: {', '.join(counts) or 'empty'}")
        if rows:
            cells = ((r.agent, f.path, f.status, size(f.bytes), f.what) for r, f in rows)
            output.table(_COLUMNS, cells)
    else:
        output.rows((r.agent, r.root, f.path, f.status, str(f.bytes), f.what) for r, f in rows)
    for report in reports:
        _warn(context, report)
    _report_annotations(context)


def _report_unknown(context: Context) -> None:
    output = context.output
    with context.busy("comparing every record"):
        reports = context.client.unknown(context.args.agent)
    if context.is_json:
        output.json(reports)
    elif output.is_terminal:
        output.text(f"amux {__version__}: what it does not know, without any content")
        for report in reports:
            versions = ", ".join(report.versions) or "version not recorded"
            output.heading(f"{report.agent} ({versions})")
            rows = [*_unknown_rows(report)]
            if rows:
                output.table(_UNKNOWN_COLUMNS, rows)
            else:
                output.text("nothing unknown")
    else:
        output.rows((report.agent, *row) for report in reports for row in _unknown_rows(report))
    skipped = [report.agent for report in reports if not report.fields_compared]
    if skipped:
        output.note(f"fields are not compared for {', '.join(skipped)}")


def _unknown_rows(report: UnknownReport) -> Iterator[tuple[str, str, str, str]]:
    for each in report.types:
        yield "type", each.name, "", str(each.count)
    for field in report.fields:
        yield (
            "field",
            f"{field.record_type}: {field.name}",
            ", ".join(field.json_types),
            str(field.count),
        )
    for file in report.files:
        why = "" if file.why == "unknown" else f"{file.why}, "
        yield "file", file.pattern, why + ", ".join(file.sizes), str(file.count)


def _warn(context: Context, report: RootReport) -> None:
    if report.problems:
        first, *others = dict.fromkeys(map(str, report.problems))
        more = f"; and {len(others)} more" if others else ""
        number = count(1 + len(others), "problem")
        context.output.warning(f"{report.agent}: {number} while reading: {first}{more}")
    if report.next_loss is not None:
        loss = report.next_loss
        context.output.warning(
            f"{report.agent} deletes old sessions ({loss.reason}): the next is {loss.path}, "
            f"at {rfc3339(loss.at)} or later"
        )


def _report_annotations(context: Context) -> None:
    lost = context.client.lost_annotations(context.args.agent)
    if lost:
        context.output.note(
            f"{count(len(lost), 'annotated session')} no longer here: "
            f"{lost[0]}{', ...' if len(lost) > 1 else ''}"
        )
    client = context.client
    context.report_problems((*client.run_index.problems, *client.annotations.problems()))
