from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.faces.cli.figures import count, money, short_ids, size
from amux.model.cost import CostRecord
from amux.model.incomplete import COST_PARTLY_RECORDED as PARTLY
from amux.model.incomplete import OUTPUT_OVERSTATED as OVERSTATED
from amux.model.incomplete import REASONS, bound_of


def record(usd: float, *incomplete: str) -> CostRecord:
    return CostRecord(total_usd=usd, input_tokens=1, output_tokens=1, incomplete=incomplete)


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (None, "?"),
        (record(0.0), "$0.00"),
        (record(1.2345), "$1.23"),
        (record(1234.5), "$1,234.50"),
        (record(0.29), "$0.29"),
        (record(0.01234), "$0.0123"),
        (record(0.00001), "< $0.0001"),
        (record(0.0, "unpriced-model"), "?"),
        (record(1.209, "usage-not-recorded"), ">= $1.20"),
        (record(0.29, "usage-not-recorded"), ">= $0.29"),
        (record(0.01239, "usage-not-recorded"), ">= $0.0123"),
        (record(0.00001, "usage-not-recorded"), "?"),
        (record(1.201, OVERSTATED), "<= $1.21"),
        (record(0.29, OVERSTATED), "<= $0.29"),
        (record(0.01231, OVERSTATED), "<= $0.0124"),
        (record(0.00001, OVERSTATED), "<= $0.0001"),
        (record(0.0, OVERSTATED), "$0.00"),
        (record(1.209, OVERSTATED, "unpriced-model"), "~ $1.21"),
        (record(0.00001, OVERSTATED, "unpriced-model"), "?"),
        (record(1.209, "a-reason-of-a-plugin"), "~ $1.21"),
    ],
)
def test_a_cost_is_exact_a_bound_or_unknown(cost: CostRecord | None, words: str) -> None:
    assert money(cost) == words


@given(st.floats(min_value=0, max_value=1e6))
def test_an_incomplete_cost_is_never_overstated(usd: float) -> None:
    words = money(record(usd, "usage-not-recorded"))
    if words != "?":
        assert float(words.removeprefix(">= $").replace(",", "")) <= usd + 1e-6


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_an_overstated_cost_is_never_understated(usd: float) -> None:
    words = money(record(usd, OVERSTATED))
    assert float(words.removeprefix("<= $").replace(",", "")) >= usd - 1e-6


def test_every_reason_has_a_direction() -> None:
    upper = {reason for reason in REASONS if bound_of((reason,)) == "<="}
    lower = {reason for reason in REASONS if bound_of((reason,)) == ">="}
    assert upper == {OVERSTATED}
    assert set(REASONS) - upper - lower == {PARTLY}  # it holds an estimate
    assert bound_of(()) == ""
    assert bound_of(REASONS) == "~"
    assert bound_of(sorted(lower)) == ">="


@given(st.lists(st.text(alphabet="ab-", min_size=1, max_size=14), max_size=12))
def test_a_short_id_is_unique_among_the_listed_sessions(ids: list[str]) -> None:
    short = short_ids(ids)
    assert set(short) == set(ids)
    for one, other in combinations(set(ids), 2):
        if len(short[one]) < len(one):
            assert not other.startswith(short[one])
    assert all(len(each) >= min(8, len(whole)) for whole, each in short.items())


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (12 * 1024**2, "12 MB"),
        (5 * 1024**5, "5120 TB"),
    ],
)
def test_a_size_has_the_unit_that_fits(number: int, words: str) -> None:
    assert size(number) == words


def test_nouns_follow_their_number() -> None:
    assert (count(1, "session"), count(1234, "session")) == ("1 session", "1,234 sessions")
