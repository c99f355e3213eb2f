"""The registry finds the price of the day under the names agents write, and never guesses."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given
from hypothesis import strategies as st

from amux.config import PriceSettings
from amux.errors import ValidationError
from amux.model.usage import NANO, Tokens
from amux.pricing import ModelRegistry, cost_nusd
from amux.pricing.remembered import StoredRates

DAY = date(2026, 1, 15)


@pytest.fixture
def registry() -> ModelRegistry:
    return ModelRegistry(today=lambda: DAY)


@pytest.mark.parametrize(
    ("agent", "model", "usd_per_million"),
    [
        # input, cache read, cache write 5 min, cache write 1 h, output: as the vendors publish them
        ("claude", "claude-opus-4-1-20250805", ("15", "1.5", "18.75", "30", "75")),
        ("claude", "claude-opus-5-5", ("4", "0.2", "5", "8", "20")),
        ("claude", "claude-sonnet-4-20250514", ("3", "0.3", "3.75", "6", "15")),
        ("claude", "claude-haiku-4-5-20251001", ("1", "0.1", "1.25", "2", "5")),
        ("codex", "gpt-5-codex", ("1.25", "0.125", "1.25", "1.25", "10")),
        ("codex", "gpt-5.1-codex", ("1.25", "0.125", "1.25", "1.25", "10")),
        ("codex", "gpt-6.1-sol", ("2", "0.1", "2.5", "2.5", "10")),
    ],
)
def test_known_models_have_their_published_rates(
    registry: ModelRegistry, agent: str, model: str, usd_per_million: tuple[str, ...]
) -> None:
    rates = registry.rates(agent, model, DAY)
    assert rates is not None
    found = (rates.input, rates.cache_read, rates.cache_write, rates.cache_write_1h, rates.output)
    assert found == tuple(int(Decimal(usd) * 10**9) for usd in usd_per_million)
    assert rates.origin == f"genai-prices {version('genai-prices')}"
    assert rates.as_of == DAY


@pytest.mark.parametrize(
    ("agent", "model", "provider", "ref"),
    [
        ("claude", "claude-opus-4-1[1m]", "anthropic", "claude-opus-4-1"),
        ("claude", " Claude-Opus-4-1 ", "anthropic", "claude-opus-4-1"),
        ("claude", "claude-opus-4-1@20250805", "anthropic", "claude-opus-4-1"),
        ("claude", "anthropic/claude-opus-4.1", "anthropic", "claude-opus-4-1"),
        ("opencode", "anthropic/claude-opus-4-1-20250805", "anthropic", "claude-opus-4-1"),
        ("opencode", "openrouter/openai/gpt-5.1", "openrouter", "openai/gpt-5.1"),
        ("codex", "gpt-5.2-20251211", "openai", "gpt-5.2"),
        ("codex", "azure/gpt-5.1", "azure", "gpt-5.1"),
        ("anything", "gpt-5.1", "openai", "gpt-5.1"),
        ("anything", "gemini-2.5-pro", "google", "gemini-2.5-pro"),
        (
            "claude",
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "aws",
            "regional.anthropic.claude-sonnet-4-20250514-v1:0",
        ),
        (
            "claude",
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-1-20250805-v1:0",
            "aws",
            "regional.anthropic.claude-opus-4-1-20250805-v1:0",
        ),
    ],
)
def test_names_as_agents_write_them_are_understood(
    registry: ModelRegistry, agent: str, model: str, provider: str, ref: str
) -> None:
    rates = registry.rates(agent, model, DAY)
    assert rates is not None
    assert (rates.provider, rates.model_ref) == (provider, ref)


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        ("claude", "<synthetic>"),
        ("claude", ""),
        ("claude", "claude-opus-4-10"),  # not 4.1
        ("claude", "claude-opus-99"),
        ("claude", "opus"),
        ("codex", "gpt-7"),
        ("codex", "gpt-5.10"),
        ("codex", "gpt-5.1-codex-of-my-own"),
        ("codex", "ollama/gpt-oss-20b"),  # runs on the user's own machine
        ("codex", "local/claude-opus-4-1"),
        ("codex", "tts-1"),  # priced by characters, not tokens
        ("nobody", "nothing"),
    ],
)
def test_an_unknown_model_has_no_price_and_no_guess(
    registry: ModelRegistry, agent: str, model: str
) -> None:
    assert registry.rates(agent, model, DAY) is None
    assert registry.price(agent, model) is None
    assert registry.estimate_cost(agent, model, 1_000_000, 1_000_000) == 0.0


def test_caching_of_a_claude_model_without_published_prices_follows_from_its_input_price(
    registry: ModelRegistry,
) -> None:
    rates = registry.rates("claude", "us.anthropic.claude-sonnet-4-20250514-v1:0", DAY)
    assert rates is not None
    assert (rates.input, rates.cache_write_1h) == (3 * 10**9, 6 * 10**9)
    own = ModelRegistry({"claude-next": PriceSettings(input=10, output=50)})
    rates = own.rates("claude", "claude-next", DAY)
    assert rates is not None
    assert (rates.cache_read, rates.cache_write, rates.cache_write_1h) == (
        1 * 10**9,
        12_500_000_000,
        20 * 10**9,
    )


def test_the_price_is_that_of_the_day_of_the_call(registry: ModelRegistry) -> None:
    # The surcharge for long contexts of this model ended on 2026-03-13.
    before = registry.rates("claude", "claude-sonnet-4-6", date(2026, 3, 12))
    after = registry.rates("claude", "claude-sonnet-4-6", date(2026, 3, 13))
    assert before is not None
    assert after is not None
    assert [(tier.above, tier.input) for tier in before.tiers] == [(200_000, 6 * 10**9)]
    assert after.tiers == ()
    assert before.input == after.input == 3 * 10**9


@given(
    model=st.sampled_from(
        [
            ("claude", "anthropic", "claude-sonnet-4-5-20250929"),
            ("claude", "anthropic", "claude-haiku-5-5"),
            ("codex", "openai", "gpt-5.5"),
            ("codex", "openai", "gpt-5.6-luna"),
            ("codex", "openai", "gpt-5.1-codex"),
        ]
    ),
    day=st.dates(date(2025, 6, 1), date(2026, 12, 31)),
    input_tokens=st.integers(0, 400_000),
    cache_read=st.integers(0, 400_000),
    output=st.integers(0, 100_000),
)
def test_costs_agree_with_the_catalogues_own_arithmetic(
    model: tuple[str, str, str], day: date, input_tokens: int, cache_read: int, output: int
) -> None:
    agent, provider, ref = model
    rates = ModelRegistry().rates(agent, ref, day)
    assert rates is not None
    ours = cost_nusd(Tokens(input=input_tokens, cache_read=cache_read, output=output), rates)
    theirs = calc_price(
        Usage(
            input_tokens=input_tokens + cache_read,
            cache_read_tokens=cache_read,
            output_tokens=output,
        ),
        ref,
        provider_id=provider,
        genai_request_timestamp=datetime(day.year, day.month, day.day, 12, tzinfo=UTC),
    ).total_price
    assert abs(theirs * NANO - ours) <= Decimal("0.5")


def test_an_estimate_is_tokens_times_price(registry: ModelRegistry) -> None:
    assert registry.estimate_cost("claude", "claude-opus-4-1", 1000, 200) == pytest.approx(
        1000 / 1e6 * 15 + 200 / 1e6 * 75
    )
    assert registry.estimate_cost(
        "claude", "claude-opus-4-1", 0, 0, cached_tokens=1000, cache_write_tokens=1000
    ) == pytest.approx(1000 / 1e6 * 1.5 + 1000 / 1e6 * 18.75)


@pytest.mark.parametrize(
    ("agent", "model", "usd"),
    [
        ("claude", "claude-sonnet-4-5", 3 + 15),
        ("gemini", "gemini-2.5-pro", 1.25 + 10),
        ("codex", "gpt-5-codex", 1.25 + 10),
    ],
)
def test_an_estimate_of_a_sum_of_tokens_has_no_surcharge_for_long_contexts(
    registry: ModelRegistry, agent: str, model: str, usd: float
) -> None:
    assert registry.estimate_cost(agent, model, 1_000_000, 1_000_000) == pytest.approx(usd)
    tenth = registry.estimate_cost(agent, model, 100_000, 100_000)
    assert tenth * 10 == pytest.approx(usd)


@pytest.mark.parametrize("model", ["claude-opus-4-1", "nothing"])
@pytest.mark.parametrize(
    "field", ["input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens"]
)
def test_a_negative_number_of_tokens_is_refused(
    registry: ModelRegistry, model: str, field: str
) -> None:
    counts = {"input_tokens": 1, "output_tokens": 1, field: -1}
    with pytest.raises(ValidationError, match=field) as refused:
        registry.estimate_cost("claude", model, **counts)
    assert refused.value.fields == (field,)


def test_a_price_is_in_usd_per_million_tokens(registry: ModelRegistry) -> None:
    price = registry.price("codex", "gpt-5.1-codex")
    assert price is not None
    assert price.to_dict() == {
        "model": "gpt-5.1",
        "provider": "openai",
        "input": 1.25,
        "output": 10.0,
        "cacheRead": 0.125,
        "cacheWrite": 1.25,
        "cacheWrite1H": 1.25,
        "origin": f"genai-prices {version('genai-prices')}",
        "asOf": "2026-01-15",
    }


def test_a_configured_price_takes_precedence(registry: ModelRegistry, tmp_path: Path) -> None:
    before = registry.estimate_cost("codex", "gpt-5.1", 1_000_000, 0)
    path = tmp_path / "prices.toml"
    path.write_text('["gpt-5.1"]\ninput = 0.1\noutput = 0.2\ncache_read = 0.05\n')
    registry.load(path)
    assert (before, registry.estimate_cost("codex", "gpt-5.1", 1_000_000, 0)) == (1.25, 0.1)
    price = registry.price("codex", "gpt-5.1")
    assert price is not None
    assert (price.origin, price.output, price.cache_read, price.cache_write) == (
        "override",
        0.2,
        0.05,
        0.1,
    )


@pytest.mark.parametrize(
    "model",
    ["claude-next", "Claude-Next[1m]", "anthropic/claude-next", "claude-next-20270101"],
)
def test_a_configured_price_applies_to_all_spellings_of_the_model(model: str) -> None:
    registry = ModelRegistry({"Claude-Next": PriceSettings(input=7, output=8)})
    assert registry.estimate_cost("claude", model, 1_000_000, 0) == 7.0


def test_a_free_model_is_not_an_unknown_one() -> None:
    registry = ModelRegistry({"local": PriceSettings(input=0, output=0)})
    assert registry.rates("codex", "local", DAY) is not None


OFFLINE = """
import socket, sys, threading
from datetime import date

def refuse(*_):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.getaddrinfo = refuse
from amux.config import PriceSettings
from amux.pricing import ModelRegistry

registry = ModelRegistry({"mine": PriceSettings(input=1, output=1)})
assert registry.rates("claude", "mine", date(2026, 1, 1))
assert "genai_prices" not in sys.modules
assert registry.rates("claude", "claude-opus-5-5", date(2026, 10, 1))
assert registry.rates("claude", "no-such-model", date(2026, 10, 1)) is None
assert threading.active_count() == 1
"""


def test_prices_need_no_network_and_the_catalogue_is_imported_late() -> None:
    subprocess.run([sys.executable, "-c", OFFLINE], check=True)


def test_prices_loaded_while_another_thread_looks_a_model_up_are_not_forgotten(
    tmp_path: Path,
) -> None:
    kept, own = tmp_path / "rates.json", tmp_path / "prices.json"
    own.write_text('{"claude-opus-4-1": {"input": 1, "output": 2}}')
    os.mkfifo(kept)
    registry = ModelRegistry(remembered=StoredRates(kept, "mark"))
    asking = Thread(target=registry.rates, args=("claude", "claude-opus-4-1", DAY), daemon=True)
    asking.start()
    with kept.open("wb"):  # opened as soon as the other thread reads what was looked up before
        registry.load(own)
    asking.join()
    rates = registry.rates("claude", "claude-opus-4-1", DAY)
    assert rates is not None
    assert rates.origin == "override"
