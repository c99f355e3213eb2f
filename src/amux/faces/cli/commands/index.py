"""`amux index`: show the state of the index, update, rebuild and check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.errors import AmuxError
from amux.faces.cli.context import Context
from amux.faces.cli.figures import UNKNOWN, ago, count, size
from amux.faces.cli.filters import add_examples, limit_of
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.model.reports import IndexedSources, IndexerStatus, IndexStatus

_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Sources", is_number=True),
    Column("Kept", is_number=True),
    Column("Stale", is_number=True),
    Column("To read", is_number=True),
    Column("Texts", is_number=True),
    Column("Sessions", is_number=True),
    Column("Sub-agents", is_number=True),
)
_SAMPLE = 50
_INDEXER_STATES = {
    "running": "running",
    "complete": "complete",
    "time_limit": "stopped at its time limit, the next one continues",
    "failed": "failed",
    "killed": "killed, the next one continues",
}


def configure_status(parser: CommandParser) -> None:
    """Add examples; the command has no arguments."""
    add_examples(parser, "amux index status", "amux index status --json")


def run_status(context: Context) -> None:
    """Show the state of the index."""
    _write_status(context, context.client.index.status())


def configure_update(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("--texts", action="store_true", help="also update the text index")
    add_examples(parser, "amux index update", "amux index update --texts")


def run_update(context: Context) -> None:
    """Update the index and show its state."""
    with context.reading("reading sources"):
        status = context.client.index.update(texts=context.args.texts)
    _write_update(context, status)


def configure_rebuild(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--texts", action="store_true", help="rebuild the text index now, not with the next search"
    )
    add_examples(parser, "amux index rebuild --texts")


def run_rebuild(context: Context) -> None:
    """Rebuild the index and show its state."""
    with context.reading("reading everything"):
        status = context.client.index.rebuild(texts=context.args.texts)
    _write_update(context, status)


def configure_check(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--sample",
        type=limit_of,
        default=_SAMPLE,
        metavar="N|all",
        help=f"number of sources to check ({_SAMPLE})",
    )
    parser.add_argument("--all", action="store_true", help="check every source")
    add_examples(parser, "amux index check", "amux index check --all")


def run_check(context: Context) -> None:
    """Compare a sample of sources with the index; a difference is an error."""
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
            hint="run `amux index rebuild`, and please report this",
        )
    if report.checked:
        output.note(f"{count(report.checked, 'source')} checked, none differs")
    elif args.sample == 0 and not args.all:
        output.note("nothing was checked: `--sample 0` selects no source")
    else:
        output.note("nothing was checked: the index is not up to date for any source")


def _write_update(context: Context, status: IndexStatus) -> None:
    """Print the state after an update; raise an error if the update failed."""
    _write_status(context, status, warns=False)
    status.insist()


def _write_status(context: Context, status: IndexStatus, *, warns: bool = True) -> None:
    """Print the state of the index."""
    output = context.output
    if warns and status.trouble is not None:
        output.warning(f"the index cannot be used: {status.trouble}; commands read sources instead")
    if warns and status.text_trouble is not None:
        output.warning(
            f"the text index cannot be used: {status.text_trouble}; searches read sources instead"
        )
    if context.is_json:
        output.json(status)
        return
    if status.path is None:
        output.note("there is no index: it is turned off, or not used for this home directory")
        return
    if not output.is_terminal:
        output.rows(map(_row, status.agents))
        return
    _draw(context, status)
    stale = sum(each.stale for each in status.agents)
    if stale:
        output.note(
            f"{count(stale, 'source')} will be read when needed; `amux index update` reads them now"
        )


def _row(each: IndexedSources) -> tuple[str, ...]:
    """Return a row of tab-separated output; new columns are added at the end."""
    counts = (each.sources, each.kept, each.stale, each.stale_bytes, each.sessions, each.subagents)
    return each.agent, *map(str, counts), "" if each.texts is None else str(each.texts)


def _draw(context: Context, status: IndexStatus) -> None:
    output = context.output
    output.text(f"{status.path}: {size(status.bytes)}")
    output.text(f"text index: {_texts(status)}")
    if status.indexer is not None:
        output.text(f"background indexer: {_indexer(context, status.indexer)}")
    rows = [
        (each.agent, f"{each.sources:,}", f"{each.kept:,}", f"{each.stale:,}",
         size(each.stale_bytes), "-" if each.texts is None else f"{each.texts:,}",
         f"{each.sessions:,}", f"{each.subagents:,}")
        for each in status.agents
    ]  # fmt: skip
    if rows:
        output.fitted_table(_COLUMNS, rows, spare=("Kept", "To read", "Sub-agents", "Stale"))


def _texts(status: IndexStatus) -> str:
    """Return how many sources have their texts in the index."""
    if status.text_trouble is not None:
        return UNKNOWN
    if not status.text_bytes:
        return "none yet, the first search builds it"
    asked = [each for each in status.agents if each.texts is not None]
    ready, all_of_them = sum(each.texts or 0 for each in asked), sum(each.sources for each in asked)
    tools = "with" if status.texts_have_tools else "without"
    return (
        f"{size(status.text_bytes)}, {ready:,} of {count(all_of_them, 'source')},"
        f" {tools} tool input and output"
    )


def _indexer(context: Context, indexer: IndexerStatus) -> str:
    """Return the state of the background indexer, and since when."""
    parts = [_INDEXER_STATES[indexer.state]]
    if indexer.pid is not None:
        parts.append(f"process {indexer.pid}")
    if indexer.reason is not None:
        parts.append(indexer.reason)
    if indexer.ended_at is not None:
        parts.append(ago(indexer.ended_at, now=context.now))
    elif indexer.started_at is not None:
        parts.append(f"started {ago(indexer.started_at, now=context.now)}")
    return "; ".join(parts)
