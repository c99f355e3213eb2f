"""The shipped rates are those of the installed catalogue, or none are used."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from itertools import product

import pytest
from drawn import drawn
from genai_prices import types
from genai_prices.data import providers
from hypothesis import given
from hypothesis import strategies as st

from amux.pricing.catalogue import load_shipped, look_up_rates, shipped_rates

DAY = date(2026, 11, 1)
AGENTS = ("claude", "codex", "gemini")
LISTED = [model for each in providers if each.id in load_shipped().models for model in each.models]


def literals(clause: types.MatchLogic | None) -> list[str]:
    """Every text that a rule for names mentions."""
    match clause:
        case types.ClauseOr():
            return [text for inner in clause.or_ for text in literals(inner)]
        case types.ClauseAnd():
            return [text for inner in clause.and_ for text in literals(inner)]
        case None:
            return []
        case _:
            return [str(value) for value in vars(clause).values()]


NAMES = sorted({name for model in LISTED for name in (model.id, *literals(model.match))})
TURNS = sorted(
    {
        price.constraint.start_date
        for model in LISTED
        if isinstance(model.prices, list)
        for price in model.prices
        if isinstance(price.constraint, types.StartDateConstraint)
    }
)


def check(agent: str, model: str, day: date) -> bool:
    """Whether there is an answer; if so, it is that of the catalogue."""
    found = shipped_rates(agent, model, day)
    assert found is None or found == look_up_rates(agent, model, day)
    return found is not None


@pytest.mark.parametrize("agent", AGENTS)
def test_every_listed_name_has_the_rates_of_the_catalogue(agent: str) -> None:
    ends = ("", "-20250929", "-2025-09-29", "[1m]", "0", "-latest", "@20250929")
    for name, end in product(NAMES, ends):
        check(agent, f"{name}{end}", DAY)


def test_a_price_that_changes_is_that_of_the_day() -> None:
    changing = [model.id for model in LISTED if isinstance(model.prices, list)]
    days = [turn + timedelta(days=step) for turn in TURNS for step in (-1, 0, 1)]
    for model, day in product(changing, days):
        check("codex", model, day)
        check("claude", model, day)


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        ("claude", "claude-opus-4-1-20250805"),
        ("claude", "claude-sonnet-4-5-20250929"),
        ("claude", "claude-opus-4-6"),
        ("claude", "claude-model-nobody-has-heard-of"),
        ("codex", "gpt-5-codex"),
        ("codex", "a-model-nobody-has-heard-of"),
        ("opencode", "anthropic/claude-opus-4-1-20250805"),
        ("gemini", "gemini-2.5-flash"),
    ],
)
def test_common_models_do_not_load_the_catalogue(agent: str, model: str) -> None:
    program = (
        "import sys; from datetime import date; from amux.pricing.catalogue import find_rates;"
        f" find_rates({agent!r}, {model!r}, date(2026, 11, 1));"
        " print('genai_prices' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert run.stdout.strip() == b"False"
    assert check(agent, model, DAY)


@given(
    st.sampled_from(AGENTS),
    st.lists(
        st.sampled_from([*NAMES, "anthropic/", "openai/", "aws/", "-", ".", "@", "1", "2025", "x"])
        | st.text("abcdegloptu0123456789-./@[]:", max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([DAY, *TURNS]),
)
@drawn(300)
def test_any_name_has_the_rates_of_the_catalogue_or_none(
    agent: str, pieces: list[str], day: date
) -> None:
    check(agent, "".join(pieces), day)
