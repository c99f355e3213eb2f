"""`amux cost report`, `amux cost`: what sessions cost, every billed call counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.figures import Priced, count, money
from amux.faces.cli.filters import add_examples, add_period, add_tags
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser, one_of

if TYPE_CHECKING:
    from amux.model.cost import CostBreakdown, CostSummary
    from amux.model.options import GroupBy

PEOPLES_GROUP: GroupBy = "agent"
"""How the table is grouped when nothing is said; JSON is grouped only when asked."""


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_examples(parser, "amux cost --since 2026-11-01 --group-by day", "amux cost -a codex --json")
    add_period(parser)
    add_tags(parser)
    parser.add_argument(
        "--group-by", **one_of("agent", "model", "day", "tag"), help="table: agent; JSON: nothing"
    )


def run(context: Context) -> None:
    """Sum."""
    args = context.args
    group_by: GroupBy | None = args.group_by or (None if context.is_json else PEOPLES_GROUP)
    with context.busy("adding up"):
        summary = context.client.sessions.total_cost(
            agent=args.agent,
            since=context.since,
            until=context.until,
            model=args.model,
            tags=args.tags,
            group_by=group_by,
        )
    if context.is_json:
        context.output.json(summary)
    else:
        _write(context, summary, heading=str(group_by).capitalize())
    _say_what_is_unknown(context, summary)


def _write(context: Context, summary: CostSummary, *, heading: str) -> None:
    output = context.output
    groups = summary.breakdowns or {}
    rows = [_row(each.key, each) for each in groups.values()]
    if summary.unattributed is not None:
        rows.append(_unattributed(summary))
    total = _row("total", summary)
    if not output.is_terminal:
        output.rows([*rows, total])
        return
    columns = [Column(heading, style="cyan")]
    names = ("Sessions", "Input", "Cache read", "Cache write", "Output", "Thinking", "Cost")
    columns += [Column(name, is_number=True) for name in names]
    output.table(columns, map(_for_people, rows), footer=_for_people(total))


def _row(key: str, figures: CostBreakdown | CostSummary) -> tuple[str, ...]:
    return (
        key,
        f"{figures.session_count}",
        f"{figures.input_tokens}",
        f"{figures.cached_tokens}",
        f"{figures.cache_write_tokens}",
        f"{figures.output_tokens}",
        f"{figures.thinking_tokens}",
        _amount(figures, is_used=_is_used(figures)),
    )


def _for_people(row: tuple[str, ...]) -> tuple[str, ...]:
    key, *counts, cost = row
    return (key, *(f"{int(each):,}" for each in counts), cost)


def _is_used(figures: CostBreakdown | CostSummary) -> bool:
    tokens = figures.input_tokens + figures.cached_tokens + figures.output_tokens
    return tokens + figures.cache_write_tokens > 0


def _amount(figures: Priced, *, is_used: bool) -> str:
    """Nothing used and nothing missing is nothing to pay."""
    return "$0.00" if not is_used and not figures.incomplete else money(figures)


def _unattributed(summary: CostSummary) -> tuple[str, ...]:
    """Billed calls that belong to no session; they are part of the total."""
    record = summary.unattributed
    if record is None:
        return ()
    figures = (
        record.input_tokens,
        record.cached_tokens or 0,
        record.cache_write_tokens or 0,
        record.output_tokens,
        record.thinking_tokens or 0,
    )
    return ("(no session)", "0", *(f"{figure}" for figure in figures), money(record))


def _say_what_is_unknown(context: Context, summary: CostSummary) -> None:
    if summary.unpriced:
        models = ", ".join(
            f"`{each.model}` ({count(each.calls, 'call')})" for each in summary.unpriced
        )
        context.output.note(f"no price is known for {models}; settings may give one (`prices`)")
    reasons = [reason for reason in summary.incomplete if reason != "unpriced-model"]
    if reasons:
        context.output.note(f"the sum is a lower bound: {', '.join(reasons)}")
    if not summary.session_count:
        context.warn_of_unknown_agent()
