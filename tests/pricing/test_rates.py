"""The cost of a call: exact, rounded once, every token charged once."""

from __future__ import annotations

from datetime import date
from decimal import ROUND_HALF_UP, Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from amux.model.usage import Tokens
from amux.pricing import Rates, RateTier, TokenRates, cost_nusd

DAY = date(2026, 1, 15)
# Claude Sonnet 4.5 as published: $3 in, $15 out, $0.30 read, $3.75 / $6 write; dearer above 200k.
SONNET = Rates(
    input=3_000_000_000,
    cache_read=300_000_000,
    cache_write=3_750_000_000,
    cache_write_1h=6_000_000_000,
    output=15_000_000_000,
    model_ref="sonnet",
    provider="anthropic",
    origin="test",
    as_of=DAY,
    tiers=(
        RateTier(
            above=200_000,
            input=6_000_000_000,
            cache_read=600_000_000,
            cache_write=7_500_000_000,
            cache_write_1h=12_000_000_000,
            output=22_500_000_000,
        ),
    ),
)
FLAT = msgspec.structs.replace(SONNET, tiers=())

counts = st.integers(min_value=0, max_value=10_000_000)
rate = st.integers(min_value=0, max_value=10**12)


@st.composite
def some_tokens(draw: st.DrawFn) -> Tokens:
    write, output = draw(counts), draw(counts)
    return Tokens(
        input=draw(counts),
        cache_read=draw(counts),
        cache_write=write,
        cache_write_1h=draw(st.integers(0, write)),
        output=output,
        thinking=draw(st.none() | st.integers(0, output)),
    )


flat_rates = st.builds(
    Rates,
    input=rate,
    cache_read=rate,
    cache_write=rate,
    cache_write_1h=rate,
    output=rate,
    model_ref=st.just("m"),
    provider=st.just("p"),
    origin=st.just("test"),
    as_of=st.just(DAY),
)


def by_hand(tokens: Tokens, rates: TokenRates) -> int:
    """A second implementation, in decimal USD."""
    usd_per_token = Decimal("1e-15")
    parts = (
        (tokens.input, rates.input),
        (tokens.cache_read, rates.cache_read),
        (tokens.cache_write - tokens.cache_write_1h, rates.cache_write),
        (tokens.cache_write_1h, rates.cache_write_1h),
        (tokens.output, rates.output),
    )
    usd = sum((Decimal(n) * Decimal(r) * usd_per_token for n, r in parts), Decimal(0))
    return int((usd * 10**9).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def test_every_bucket_has_its_own_rate() -> None:
    tokens = Tokens(
        input=1000, cache_read=10_000, cache_write=300, cache_write_1h=100, output=2000, thinking=9
    )
    # 1000*$3 + 10000*$0.30 + 200*$3.75 + 100*$6 + 2000*$15 = $37350 per million = $0.03735
    assert cost_nusd(tokens, SONNET) == 37_350_000


def test_the_threshold_itself_is_still_the_lower_tier() -> None:
    assert cost_nusd(Tokens(input=200_000), SONNET) == 200_000 * 3000
    assert cost_nusd(Tokens(input=200_001), SONNET) == 200_001 * 6000


def test_cached_input_counts_for_the_tier_and_output_follows_it() -> None:
    tokens = Tokens(input=1, cache_read=150_000, cache_write=50_000, output=10)
    assert cost_nusd(tokens, SONNET) == 6000 + 150_000 * 600 + 50_000 * 7500 + 10 * 22_500


def test_the_highest_reached_tier_applies() -> None:
    low, high = (
        msgspec.structs.replace(SONNET.tiers[0], above=above, input=input_rate)
        for above, input_rate in ((100, 2_000_000), (200, 5_000_000))
    )
    rates = msgspec.structs.replace(SONNET, input=1_000_000, tiers=(low, high))
    assert [rates.at(n).input for n in (0, 100, 101, 200, 201)] == [
        1_000_000,
        1_000_000,
        2_000_000,
        2_000_000,
        5_000_000,
    ]


def test_rounding_is_to_the_nearest_nano() -> None:
    rates = msgspec.structs.replace(FLAT, input=400_000, output=100_000)
    assert cost_nusd(Tokens(input=1), rates) == 0
    assert cost_nusd(Tokens(input=1, output=1), rates) == 1  # half a nano, rounded once
    assert cost_nusd(Tokens(input=2, output=1), rates) == 1


def test_one_hour_cache_writes_are_limited_to_all_cache_writes() -> None:
    assert cost_nusd(Tokens(cache_write=10, cache_write_1h=99), FLAT) == 10 * 6000


def test_rates_survive_json() -> None:
    assert msgspec.json.decode(SONNET.to_json(), type=Rates) == SONNET


@given(tokens=some_tokens(), rates=flat_rates)
def test_cost_equals_the_sum_done_by_hand(tokens: Tokens, rates: Rates) -> None:
    assert cost_nusd(tokens, rates) == by_hand(tokens, rates)


@given(rates=flat_rates)
def test_no_tokens_cost_nothing(rates: Rates) -> None:
    assert cost_nusd(Tokens(), rates) == 0


@given(tokens=some_tokens(), thinking=counts)
def test_thinking_is_never_charged(tokens: Tokens, thinking: int) -> None:
    other = msgspec.structs.replace(tokens, thinking=thinking)
    assert cost_nusd(other, SONNET) == cost_nusd(tokens, SONNET)


@given(a=some_tokens(), b=some_tokens(), rates=flat_rates)
def test_cost_is_additive_up_to_the_rounding_of_each_call(
    a: Tokens, b: Tokens, rates: Rates
) -> None:
    assert abs(cost_nusd(a, rates) + cost_nusd(b, rates) - cost_nusd(a + b, rates)) <= 1


@given(a=some_tokens(), b=some_tokens())
def test_more_tokens_never_cost_less(a: Tokens, b: Tokens) -> None:
    assert cost_nusd(a + b, SONNET) >= cost_nusd(a, SONNET)
