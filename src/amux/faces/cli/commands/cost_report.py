"""`amux cost report`, `amux cost`: the cost of sessions, with each billed call counted once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from amux.faces.cli.context import Context
from amux.faces.cli.figures import NO_CALLS, count, money
from amux.faces.cli.filters import add_csv, add_examples, add_period, add_tags, wants_csv
from amux.faces.cli.output import Column, dollars, write_csv
from amux.faces.cli.parser import CommandParser, one_of

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from amux.model.cost import CostBreakdown, CostSummary
    from amux.model.options import GroupBy

GROUPINGS: tuple[GroupBy, ...] = (
    *("agent", "model", "day", "week", "month"),
    *("project", "session", "tag"),
)
TIMES = ("day", "week", "month")
DEFAULT_GROUPING: tuple[GroupBy, ...] = ("agent",)
"""How the table is grouped without `--group-by`; JSON is then not grouped."""

_NUMBERS = ("Sessions", "Input", "Cache read", "Cache write", "Output", "Thinking", "Cost")
_SPARE = ("Thinking", "Sessions", "Cache write", "Cache read", "Input", "Output")
_SPARE_FOR_BARS = 2
_CSV = (
    *("sessionCount", "inputTokens", "cachedTokens", "cacheWriteTokens", "outputTokens"),
    *("thinkingTokens", "totalUsd", "incomplete"),
)


class _Words(tuple[str, ...]):
    """Choices to show and complete; `_groupings` checks the words of a list."""

    __slots__ = ()

    def __contains__(self, word: object, /) -> bool:
        return True


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_examples(
        parser,
        "amux cost --since 2026-11-01 --group-by day",
        "amux cost --by month,model --csv",
        "amux cost -a codex --json",
    )
    add_period(parser)
    add_tags(parser)
    parser.add_argument(
        "--group-by",
        "--by",
        type=_groupings,
        choices=_Words(GROUPINGS),
        metavar="NAME[,NAME]",
        help=f"{', '.join(GROUPINGS)}, or several of them (agent; none with --json)",
    )
    add_csv(parser)


def run(context: Context) -> None:
    """Show the total cost."""
    args = context.args
    is_csv = wants_csv(context)
    names: tuple[GroupBy, ...] = args.group_by or (() if context.is_json else DEFAULT_GROUPING)
    with context.reading("adding up the cost"):
        summary = context.client.sessions.total_cost(
            agent=args.agent,
            since=context.since,
            until=context.until,
            model=args.model,
            tags=args.tags,
            group_by=names or None,
        )
    groups = in_order(list((summary.breakdowns or {}).values()), names)
    if context.is_json:
        context.output.json(summary)
    elif is_csv:
        write_csv([*names, *_CSV], map(_csv_row, groups))
    else:
        _write(context, summary, groups, names)
    _note_unknown(context, summary)
    context.report_problems((*summary.problems, *context.client.run_index.problems))


def in_order(groups: Sequence[CostBreakdown], names: Sequence[str]) -> list[CostBreakdown]:
    """Sort periods by time and other keys by cost, highest first; equal keys stay together."""
    sums: dict[tuple[str, ...], float] = {}
    for group in groups:
        for length in range(1, len(names) + 1):
            part = group.keys[:length]
            sums[part] = sums.get(part, 0.0) + group.total_usd

    def rank(group: CostBreakdown) -> list[tuple[float, str]]:
        return [
            (0.0 if name in TIMES else -sums[group.keys[: at + 1]], group.keys[at])
            for at, name in enumerate(names)
        ]

    return sorted(groups, key=rank)


def _groupings(text: str) -> tuple[str, ...]:
    check = one_of(*GROUPINGS)["type"]
    names: tuple[str, ...] = tuple(check(name.strip()) for name in text.split(","))
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"`{text}` contains a grouping twice")
    return names


def _write(
    context: Context, summary: CostSummary, groups: Sequence[CostBreakdown], names: Sequence[str]
) -> None:
    output = context.output
    rows = [_row(each.keys, each) for each in groups]
    total = _row(("total", *("" for _ in names[1:])), summary)
    if not output.is_terminal:
        output.rows([*rows, total])
        return
    from amux.faces.cli.tables import FittedTable

    columns = [
        *(Column(name.capitalize(), style="cyan") for name in names),
        *(Column(name, is_number=True) for name in _NUMBERS),
    ]
    dearest = max((each.total_usd for each in groups), default=0.0)
    shares = [each.total_usd / dearest if dearest else 0.0 for each in groups]
    drawn = [_terminal_row(row, len(names)) for row in rows]
    table = FittedTable(columns, drawn, _terminal_row(total, len(names)))
    table.draw(output, spare=_SPARE, spare_for_bars=_SPARE_FOR_BARS, shares=shares)


def _row(keys: Sequence[str], figures: CostBreakdown | CostSummary) -> tuple[str, ...]:
    return (
        *keys,
        f"{figures.session_count}",
        f"{figures.input_tokens}",
        f"{figures.cached_tokens}",
        f"{figures.cache_write_tokens}",
        f"{figures.output_tokens}",
        f"{figures.thinking_tokens}",
        _amount(figures),
    )


def _csv_row(group: CostBreakdown) -> tuple[str | int, ...]:
    return (
        *group.keys,
        group.session_count,
        group.input_tokens,
        group.cached_tokens,
        group.cache_write_tokens,
        group.output_tokens,
        group.thinking_tokens,
        dollars(group.total_usd),
        " ".join(group.incomplete),
    )


def _terminal_row(row: tuple[str, ...], keys: int) -> tuple[str, ...]:
    return (*row[:keys], *(f"{int(each):,}" for each in row[keys:-1]), row[-1])


def _amount(figures: CostBreakdown | CostSummary) -> str:
    """Format a cost; a group without tokens and gaps costs $0.00, which is not unknown."""
    tokens = figures.input_tokens + figures.cached_tokens + figures.output_tokens
    if tokens + figures.cache_write_tokens > 0 or figures.incomplete or figures.total_usd:
        return money(figures)
    is_uncalled = figures.session_count and figures.sessions_without_calls == figures.session_count
    return NO_CALLS if is_uncalled else "$0.00"


def _note_unknown(context: Context, summary: CostSummary) -> None:
    note = context.output.note
    from amux.model.usage import NO_MODEL

    models = [each for each in summary.unpriced if each.model != NO_MODEL]
    if models:
        names = ", ".join(f"`{each.model}` ({count(each.calls, 'call')})" for each in models)
        note(f"no price is known for {names}; the setting `prices` can define one")
    for each in summary.unpriced:
        if each.model == NO_MODEL:
            calls = count(each.calls, "call names", "calls name")
            note(f"{calls} no model, so no price is known")
    reasons = [reason for reason in summary.incomplete if reason != "unpriced-model"]
    if reasons:
        from amux.model.incomplete import bound_words

        note(f"the sum is {bound_words(summary.incomplete)}: {', '.join(reasons)}")
    if summary.unattributed is not None:
        calls = ", ".join(
            f"{count(each.calls, f'{each.purpose} call')} of {each.agent}"
            for each in summary.unattributed_calls
        )
        note(f"{money(summary.unattributed)} of the total belongs to no session: {calls}")
    if not summary.session_count:
        context.warn_unknown_agent()
