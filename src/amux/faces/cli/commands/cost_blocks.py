"""`amux cost blocks`: spending in windows of a few hours, and the rate of the open one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.figures import UNKNOWN, amount, money, rfc3339
from amux.faces.cli.filters import add_csv, add_examples, wants_csv, whole_number
from amux.faces.cli.output import Column, Value, dollars, write_csv
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.model.cost import CostBlock

HOURS = 5
RECENT = timedelta(days=3)

_COLUMNS = (
    Column("Agent", style="cyan"),
    Column("Begin", is_whole=True),
    Column("End", is_whole=True),
    *(
        Column(name, is_number=True)
        for name in ("Calls", "Input", "Cache read", "Cache write", "Output")
    ),
    *(Column(name, is_number=True) for name in ("Cost", "Per hour", "Tokens/min")),
    Column("Models"),
)
_SPARE = ("Models", "Tokens/min", "Cache write", "Input", "Calls", "Cache read", "Output")
_CSV = (
    *("agent", "start", "end", "active", "firstAt", "lastAt", "callCount", "sessionCount"),
    *("inputTokens", "cachedTokens", "cacheWriteTokens", "outputTokens", "thinkingTokens"),
    *("totalUsd", "tokensPerMinute", "usdPerHour", "projectedTokens", "projectedUsd"),
    *("models", "incomplete"),
)


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_examples(parser, "amux cost blocks --recent", "amux cost blocks -a claude --active --json")
    parser.add_argument("--active", action="store_true", help="show only windows that are open now")
    parser.add_argument(
        "--recent",
        action="store_true",
        help=f"show only open windows and those of the last {RECENT.days} days",
    )
    parser.add_argument(
        "--session-length",
        metavar="HOURS",
        type=whole_number,
        default=HOURS,
        help=f"length of a window in whole hours ({HOURS})",
    )
    add_csv(parser)


def run(context: Context) -> None:
    """Show the spending per window."""
    from amux.model.options import BlockOptions

    args = context.args
    is_csv = wants_csv(context)
    options = BlockOptions(
        agent=args.agent,
        model=args.model,
        since=context.now - RECENT if args.recent else None,
        hours=args.session_length,
    )
    with context.reading("adding up the cost"):
        report = context.client.block_report(options)
    blocks = [block for block in report.blocks if block.active or not args.active]
    if context.is_json:
        context.output.json(blocks)
    elif is_csv:
        write_csv(_CSV, map(_csv_row, blocks))
    elif context.output.is_terminal:
        _draw(context, blocks)
    else:
        context.output.rows(map(_row, blocks))
    if not blocks:
        context.output.note("no window is open now" if args.active else "no calls were found")
        context.warn_unknown_agent()
    context.report_problems((*report.problems, *context.client.run_index.problems))


def _draw(context: Context, blocks: Sequence[CostBlock]) -> None:
    if not blocks:
        return
    rows = [tuple(_terminal_row(block)) for block in blocks]
    context.output.fitted_table(_COLUMNS, rows, spare=_SPARE)
    for block in blocks:
        if block.active:
            context.output.text(_outlook(block))


def _terminal_row(block: CostBlock) -> Iterator[str]:
    start, end = block.start.astimezone(), block.end.astimezone()
    yield block.agent
    yield f"{start:%Y-%m-%d %H:%M}"
    yield "open" if block.active else f"{end:%H:%M}"
    counts = (
        block.call_count,
        block.input_tokens,
        block.cached_tokens,
        block.cache_write_tokens,
        block.output_tokens,
    )
    yield from (f"{number:,}" for number in counts)
    rate = block.burn_rate
    yield money(block)
    yield UNKNOWN if rate is None else _per_hour(block, rate.usd_per_hour)
    yield UNKNOWN if rate is None else f"{rate.tokens_per_minute:,.0f}"
    yield ", ".join(block.models)


def _outlook(block: CostBlock) -> str:
    """Return a sentence with the rate and the projected total of an open window."""
    until = f"{block.agent}: open until {block.end.astimezone():%H:%M}"
    plan, rate = block.projection, block.burn_rate
    if plan is None or rate is None:
        return f"{until}; too short to estimate a rate"
    hours, minutes = divmod(plan.remaining_minutes, 60)
    price = amount(plan.total_usd, block.incomplete)
    return (
        f"{until}, {hours} h {minutes} min remaining; at {rate.tokens_per_minute:,.0f} tokens per "
        f"minute and {_per_hour(block, rate.usd_per_hour)} per hour, the window will have "
        f"{plan.total_tokens:,} tokens and cost {price}"
    )


def _per_hour(block: CostBlock, usd: float) -> str:
    return amount(usd, block.incomplete)


def _row(block: CostBlock) -> tuple[str, ...]:
    rate = block.burn_rate
    return (
        block.agent,
        rfc3339(block.start),
        rfc3339(block.end),
        "open" if block.active else "over",
        str(block.call_count),
        str(block.input_tokens),
        str(block.cached_tokens),
        str(block.cache_write_tokens),
        str(block.output_tokens),
        money(block),
        UNKNOWN if rate is None else _per_hour(block, rate.usd_per_hour),
        UNKNOWN if rate is None else f"{rate.tokens_per_minute:.0f}",
        ",".join(block.models),
    )


def _csv_row(block: CostBlock) -> tuple[Value, ...]:
    rate, plan = block.burn_rate, block.projection
    return (
        block.agent,
        *(rfc3339(moment) for moment in (block.start, block.end)),
        block.active,
        *(rfc3339(moment) for moment in (block.first_at, block.last_at)),
        block.call_count,
        block.session_count,
        block.input_tokens,
        block.cached_tokens,
        block.cache_write_tokens,
        block.output_tokens,
        block.thinking_tokens,
        dollars(block.total_usd),
        None if rate is None else f"{rate.tokens_per_minute:.3f}",
        None if rate is None else dollars(rate.usd_per_hour),
        None if plan is None else plan.total_tokens,
        None if plan is None else dollars(plan.total_usd),
        " ".join(block.models),
        " ".join(block.incomplete),
    )
