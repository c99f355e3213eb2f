"""`amux index check`: read a sample of sources again and compare with what is kept."""

from __future__ import annotations

from amux.errors import AmuxError
from amux.faces.cli.context import Context
from amux.faces.cli.figures import count
from amux.faces.cli.filters import add_examples, limit_of
from amux.faces.cli.parser import CommandParser

_SAMPLE = 50


def configure(parser: CommandParser) -> None:
    """How much to check."""
    parser.add_argument(
        "--sample",
        type=limit_of,
        default=_SAMPLE,
        metavar="N|all",
        help=f"how many sources ({_SAMPLE})",
    )
    parser.add_argument("--all", action="store_true", help="every source")
    add_examples(parser, "amux index check", "amux index check --all")


def run(context: Context) -> None:
    """Check; a difference is an error."""
    args, output = context.args, context.output
    with context.busy("comparing"):
        report = context.client.index.check(sample=None if args.all else args.sample)
    if context.is_json:
        output.json(report)
    else:
        output.rows((m.agent, m.path, ", ".join(m.fields)) for m in report.mismatches)
    if report.mismatches:
        raise AmuxError(
            f"{count(len(report.mismatches), 'source')} of {report.checked} differ from the index",
            hint="`amux index rebuild` makes it anew; please report this",
        )
    if report.checked:
        output.note(f"{count(report.checked, 'source')} checked, none differs")
    elif args.sample == 0 and not args.all:
        output.note("nothing was checked: `--sample 0` asks for no source")
    else:
        output.note("nothing was checked: no source is in the index as it is now")
