"""A model is priced under another name only if it is certainly the same model, and says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest
from drawn import drawn
from genai_prices.data import providers
from hypothesis import given
from hypothesis import strategies as st

from amux.pricing import ModelRegistry
from amux.pricing.catalogue import shipped_rates
from amux.pricing.corrections import CORRECTIONS
from amux.pricing.rates import Rates
from amux.pricing.spelling import is_local, spelling_key

DAY = date(2026, 11, 1)


def rates_of(model: str, *, agent: str = "opencode", day: date = DAY) -> Rates | None:
    return ModelRegistry().rates(agent, model, day)


def usd(text: str) -> int:
    return int(Decimal(text) * 10**9)


@pytest.mark.parametrize(
    ("model", "provider", "ref", "why"),
    [
        ("claude-4.5-sonnet", "anthropic", "claude-sonnet-4-5", "another spelling"),
        ("claude-4.5-sonnet-thinking", "anthropic", "claude-sonnet-4-5", "another spelling"),
        ("claude_4_1_opus", "anthropic", "claude-opus-4-1", "another spelling"),
        ("anthropic/claude-4.5-sonnet", "anthropic", "claude-sonnet-4-5", "another spelling"),
        ("gpt-5_1-codex", "openai", "gpt-5.1", "another spelling"),
        ("gpt-5.1-codex-2025-11-13", "openai", "gpt-5.1", "without its date"),
        ("gpt-5.1-codex-20251113", "openai", "gpt-5.1", "without its date"),
        ("myvendor/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5", "no such entry of"),
        ("myvendor/claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5", "`myvendor`"),
        ("vercel/openai/gpt-5", "openai", "gpt-5", "no such entry of `vercel`"),
        ("models/gemini-2.5-pro", "google", "gemini-2.5-pro", "no such entry of `models`"),
        ("glm-4.6", "zai", "GLM-4.6", "from zai"),
        ("z-ai/glm-4.6", "openrouter", "z-ai/glm-4.6", "no such entry of `z-ai`"),
        ("qwen3-coder", "openrouter", "qwen/qwen3-coder", "no entry of its maker"),
    ],
)
def test_a_model_under_another_name_has_the_price_of_its_entry(
    model: str, provider: str, ref: str, why: str
) -> None:
    found = rates_of(model)
    assert found is not None
    assert (found.provider, found.model_ref) == (provider, ref)
    assert why in found.note


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-4-5", "openai/gpt-5", "openrouter/z-ai/glm-4.6", "gpt-4.1-2025-04-14"],
)
def test_a_name_that_the_catalogue_has_needs_no_note(model: str) -> None:
    found = rates_of(model)
    assert found is not None
    assert found.note == ""


@pytest.mark.parametrize(
    "model",
    [
        "claude-5.4-sonnet",  # the numbers of 4.5 in another order
        "claude-45-sonnet",
        "claude-4.5.1-sonnet",
        "claude-4.5-sonnet-mini",
        "sonnet-4.5",
        "gpt-1.4-mini",
        "gpt-5.1-codex-of-my-own",
        "glm-4.6-air",
        "glm-6.4",
        "qwen3-coder-31b",
        "gpt-oss-21b",
        "llama-3-hermes-2-pro-8b",  # the numbers belong to other words
        "gpt-4.1-2025-13-45",  # not a date
        "vendor/gpt",
        "deepseek-v3.1:free",
    ],
)
def test_a_similar_name_has_no_price(model: str) -> None:
    assert rates_of(model) is None


@pytest.mark.parametrize(
    "model",
    [
        "ollama/gpt-oss-20b",
        "ollama/gpt-oss:20b",
        "gpt-oss:20b",
        "gpt-oss:120b-cloud",
        "qwen3-coder:latest",
        "lmstudio/openai/gpt-oss-20b",
        "llama.cpp/glm-4.6",
        "hf.co/unsloth/glm-4.6:Q4_K_M",
        "local/claude-opus-4-1",
    ],
)
def test_a_model_on_the_machine_of_the_user_has_no_price_of_another_provider(model: str) -> None:
    assert is_local(model)
    assert rates_of(model) is None
    assert rates_of(model, agent="codex") is None


@pytest.mark.parametrize(
    ("day", "price"),
    [
        (date(2025, 9, 5), ("0.27", "0.07", "1.1")),
        (date(2025, 9, 6), ("0.56", "0.07", "1.68")),
        (date(2025, 9, 28), ("0.56", "0.07", "1.68")),
        (date(2025, 9, 29), ("0.28", "0.028", "0.42")),
        (date(2026, 4, 24), ("0.14", "0.0028", "0.28")),
    ],
)
@pytest.mark.parametrize("model", ["deepseek-chat", "deepseek/deepseek-chat"])
def test_a_model_that_kept_its_name_has_the_price_of_the_day(
    model: str, day: date, price: tuple[str, ...]
) -> None:
    found = rates_of(model, day=day)
    assert found is not None
    assert (found.input, found.cache_read, found.output) == tuple(map(usd, price))
    assert ("deepseek.com" in found.origin) == (day > date(2025, 9, 5))


@pytest.mark.parametrize(("provider", "name"), CORRECTIONS)
def test_a_correction_is_dropped_once_the_catalogue_has_the_change(
    provider: str, name: str
) -> None:
    (models,) = (each.models for each in providers if each.id == provider)
    (entry,) = (model for model in models if model.id == name)
    listed = entry.prices if isinstance(entry.prices, list) else []
    assert not any(hasattr(each.constraint, "start_date") for each in listed)


WORDS = st.lists(
    st.from_regex(r"[a-z][a-z0-9]{0,4}", fullmatch=True).filter(lambda word: word != "claude"),
    min_size=1,
    max_size=4,
)
NUMBERS = st.lists(st.integers(0, 99).map(str), max_size=3)
SIGNS = st.sampled_from("-_@ ")


@drawn(100)
@given(WORDS, NUMBERS, st.data())
def test_words_may_be_in_any_order_and_signs_do_not_matter(
    words: list[str], numbers: list[str], data: st.DataObject
) -> None:
    def written(words: list[str]) -> str:
        at = data.draw(st.integers(0, len(words)))
        tokens = [*words[:at], *numbers, *words[at:]]
        name = tokens[0]
        for token in tokens[1:]:
            name += data.draw(SIGNS) + token
        return name

    one, other = written(words), written(data.draw(st.permutations(words)))
    assert spelling_key(one) == spelling_key(other)


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "another number": lambda tokens: [f"{int(t) + 1}" if t.isdigit() else t for t in tokens],
    "one more word": lambda tokens: [*tokens, "more"],
    "one more number": lambda tokens: [*tokens, "7"],
    "one word less": lambda tokens: tokens[1:],
    "another size": lambda tokens: [f"{token}b" if token.isdigit() else token for token in tokens],
}


@drawn(60)
@given(WORDS, st.integers(0, 99).map(str), st.sampled_from(sorted(CHANGES)))
def test_any_other_word_number_or_size_is_another_model(
    words: list[str], number: str, change: str
) -> None:
    tokens = [*words, number]
    assert spelling_key("-".join(tokens)) != spelling_key("-".join(CHANGES[change](tokens)))


@pytest.mark.parametrize("model", ["a-model-nobody-knows", "gpt-oss:20b", "claude-5.4-sonnet"])
def test_an_unknown_model_is_answered_without_the_catalogue(model: str) -> None:
    answer = shipped_rates("claude", model, DAY)
    assert answer is not None
    assert answer.rates is None
    assert shipped_rates("claude", "qwen3-coder", DAY) is None
