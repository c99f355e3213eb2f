"""`amux cost explain`: show each call of a session with its cost."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from amux.faces.cli.context import Context
from amux.faces.cli.figures import NO_CALLS, amount, count, money, rfc3339
from amux.faces.cli.filters import add_session
from amux.faces.cli.output import Column
from amux.faces.cli.parser import CommandParser

if TYPE_CHECKING:
    from amux.model.reports import CostExplanation, ExplainedCall

MODEL_WIDTH = 24

_NUMBERS = ("Input", "Cached", "Written", "Output", "Cost")
_COLUMNS = (
    Column("Time", is_whole=True),
    Column("Model", style="cyan", widest=MODEL_WIDTH),
    Column("For"),
    *(Column(name, is_number=True) for name in _NUMBERS),
)
_SPARE = ("For", "Written", "Cached", "Output", "Input")
_OWNER = Column("Counted in", grows=True)
_SOURCES = {
    "native": ", as recorded by the agent",
    "run-index": ", from the run index",
    "estimate": ", from the list prices on the day of each call",
}
_WORD = re.compile(r"[A-Z]|\d+")


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    add_session(parser)


def run(context: Context) -> None:
    """Explain the cost of one session."""
    output = context.output
    ref = context.find(context.args.session)
    with context.reading("reading the calls"):
        explanation = context.client.explain_cost(ref.agent, ref.native_session_id)
    if context.is_json:
        output.json(explanation)
    elif output.is_terminal:
        _draw(context, explanation)
    else:
        output.rows(_row(each) for each in explanation.calls)
    if output.is_terminal:
        return
    for line in sorted({_other_entry(each) for each in explanation.calls} - {""}):
        output.note(line)
    if explanation.incomplete:
        output.note(_incomplete_sentence(explanation))


def _draw(context: Context, explanation: CostExplanation) -> None:
    output = context.output
    output.heading(f"{explanation.unified_id}  {explanation.title}")
    columns = _COLUMNS if all(each.counted for each in explanation.calls) else (*_COLUMNS, _OWNER)
    rows = [_terminal_row(each)[: len(columns)] for each in explanation.calls]
    output.fitted_table(columns, rows, spare=_SPARE)
    for line in sorted({_rates_line(each) for each in explanation.calls if each.rates}):
        output.text(line)
    counted = sum(1 for each in explanation.calls if each.counted)
    cost = explanation.cost
    source = "" if cost is None else cost.source or ""
    if not (explanation.calls or explanation.incomplete or (cost and cost.total_usd)):
        output.text(NO_CALLS)
    else:
        sum_of_calls = f"{money(cost)} for {count(counted, 'call')}"
        output.text(sum_of_calls + _SOURCES.get(source, ""))
    copies = Counter(each.counted_in for each in explanation.calls if each.counted_in)
    for owner, number in copies.items():
        what = count(number, "copy", "copies")
        output.text(f"{what} in brackets, not part of the sum: counted in {owner}")
    if explanation.repeats:
        output.text(f"{count(explanation.repeats, 'further record')} of the same calls ignored")
    if explanation.incomplete:
        output.text(_incomplete_sentence(explanation))


def _incomplete_sentence(explanation: CostExplanation) -> str:
    from amux.model.incomplete import bound_words

    known = "unknown" if explanation.cost is None else bound_words(explanation.incomplete)
    return f"the cost is {known}: {', '.join(explanation.incomplete)}"


def _terminal_row(each: ExplainedCall) -> tuple[str, ...]:
    at = each.call.at
    _, *others, _ = _row(each)
    time = "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    return (time, *others, each.counted_in or "")


def _row(each: ExplainedCall) -> tuple[str, ...]:
    from amux.model.usage import named_model

    call, tokens = each.call, each.call.tokens
    return (
        "" if call.at is None else rfc3339(call.at),
        named_model(call.model) or "(none named)",
        call.purpose,
        str(tokens.input),
        str(tokens.cache_read),
        str(tokens.cache_write),
        str(tokens.output),
        _price(each),
        "" if each.counted else each.reason or "not counted",
    )


def _price(each: ExplainedCall) -> str:
    """Format the cost of a call; in brackets if it is not part of the sum."""
    if each.counted:
        return amount(each.usd, each.call.gaps)
    return f"({amount(each.uncounted_usd, each.call.gaps)})"


def _other_entry(each: ExplainedCall) -> str:
    """Return which catalogue entry was used and why, if it has another name; "" if not."""
    if each.price_note is None:
        return ""
    return f"`{each.call.model}` has the price of {each.price_entry}: {each.price_note}"


def _rates_line(each: ExplainedCall) -> str:
    rates = {  # `cacheWrite1h` as separate words
        _WORD.sub(lambda match: f" {match[0].lower()}", bucket): rate
        for bucket, rate in (each.rates or {}).items()
    }
    words = ", ".join(f"{name} ${rate:g}" for name, rate in rates.items())
    entry = f" ({each.price_entry}: {each.price_note})" if each.price_note else ""
    return f"{each.call.model}: {words} per million tokens{entry}"
