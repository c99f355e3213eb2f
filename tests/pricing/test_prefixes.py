"""A prefix that the catalogue does not know changes no price, and never makes one."""

from __future__ import annotations

from datetime import date
from itertools import product

import msgspec
import pytest
from drawn import drawn
from genai_prices.data import providers
from hypothesis import given
from hypothesis import strategies as st

from amux.config import PriceSettings
from amux.pricing import ModelRegistry
from amux.pricing.catalogue import find_rates, look_up_rates, shipped_rates
from amux.pricing.rates import Rates
from amux.pricing.spelling import is_local

DAY = date(2026, 11, 1)
PREFIXES = ("foo/", "custom:", "litellm_proxy/", "my-gateway.acme/v1/", "foo:bar/", "a/b/c/")
NAMES = sorted({model.id.lower() for provider in providers for model in provider.models})
BARE = ["gpt-5", "glm-4.6", "qwen3-coder", "o3", "codestral", "grok-4"]


def rates_of(model: str, agent: str = "opencode") -> Rates | None:
    return look_up_rates(agent, model, DAY)[0]


def same_price(one: Rates | None, other: Rates | None) -> bool:
    """Whether two rates are equal but for the reason why they apply."""
    if one is None or other is None:
        return one is other
    return msgspec.structs.replace(one, note="") == msgspec.structs.replace(other, note="")


@pytest.mark.parametrize(
    ("model", "provider", "ref", "why"),
    [
        ("foo/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5", "`foo`"),
        ("custom:gpt-5", "openai", "gpt-5", "`custom`"),
        ("custom:claude-4.5-sonnet", "anthropic", "claude-sonnet-4-5", "another spelling"),
        ("custom:o3", "openai", "o3", "`custom`"),
        ("litellm_proxy/azure/gpt-5", "azure", "gpt-5", "`litellm_proxy`"),
        ("a/b/c/claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5", "`a/b/c`"),
        ("google-gla:gemini-2.5-pro", "google", "gemini-2.5-pro", ""),
        ("openai:gpt-5", "openai", "gpt-5", ""),
        ("us.amazon.nova-pro-v1:0", "aws", "amazon.nova-pro-v1:0", ""),
        ("us.meta.llama3-1-8b-instruct-v1:0", "aws", "meta.llama3-1-8b-instruct-v1:0", ""),
        ("google.gemma-3-12b-it", "aws", "google.gemma-3-12b-it", ""),
        ("custom:openai.gpt-5.4", "aws", "openai.gpt-5.4", "`custom`"),
        ("azure.gpt-5", "openai", "gpt-5", "`azure`"),
    ],
)
def test_a_model_behind_an_unknown_prefix_has_the_price_of_its_name(
    model: str, provider: str, ref: str, why: str
) -> None:
    found = rates_of(model)
    assert found is not None
    assert (found.provider, found.model_ref) == (provider, ref)
    assert why in found.note
    assert bool(found.note) == bool(why)


SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.mark.parametrize("head", ["", "bedrock/", "bedrock/us-east-1/", "custom:", "proxy/aws/"])
@pytest.mark.parametrize("area", ["", "us.", "eu.", "apac.", "us-gov."])
def test_claude_on_bedrock_is_regional_unless_it_says_global(head: str, area: str) -> None:
    found = rates_of(f"{head}{area}{SONNET}")
    assert found is not None
    assert (found.provider, found.model_ref) == ("aws", f"regional.{SONNET}")
    everywhere = rates_of(f"{head}global.{SONNET}")
    assert everywhere is not None
    assert everywhere.model_ref == f"global.{SONNET}"


@pytest.mark.parametrize("prefix", ["", "openrouter/", "foo/", "custom:"])
@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("deepseek/deepseek-chat-v3.1:free", None),
        ("anthropic/claude-sonnet-4.5:free", None),
        ("anthropic/claude-sonnet-4.5:online", None),
        ("google/gemini-2.0-flash-exp:free", None),
        ("claude-sonnet-4-5-mini", None),
        ("claude-opus-4-6-fast", (30, 150)),
        ("claude-opus-4.8-fast", (10, 50)),
        ("claude-opus-4.6:batch", (2.5, 12.5)),
        ("deepseek-r1-distill-qwen-7b", (0.1, 0.2)),
        ("deepseek-r1-0528-qwen3-8b", (0.05, 0.1)),
        ("deepseek-r1-turbo", (0.7, 2.5)),
        ("claude-3.5-sonnet:beta", (3, 15)),
        ("claude-3.7-sonnet:thinking", (3, 15)),
    ],
)
def test_another_offer_or_size_of_a_model_never_has_its_price(
    prefix: str, name: str, price: tuple[float, float] | None
) -> None:
    for agent in ("claude", "opencode"):
        found = rates_of(prefix + name, agent)
        assert (found and (found.input / 1e9, found.output / 1e9)) == price
        shipped = shipped_rates(agent, prefix + name, DAY)
        assert shipped is None or shipped.rates == found


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_listed_model_has_its_own_price_behind_an_unknown_prefix(prefix: str) -> None:
    one_word = [name for name in NAMES if name.isalpha()]
    for name in NAMES:
        if prefix.endswith(":") and name in one_word:
            continue
        assert same_price(rates_of(prefix + name), rates_of(name)), name


UNKNOWN = (
    "my-model", "free", "auto", "latest", "8b", "0", "v1", "thinking", "uncensored", "nothing-5",
    "claude", "gpt", "claude-5.4-sonnet", "gpt-5.1-codex-of-my-own", "glm-4.6-air", "", "-", "@cf",
)  # fmt: skip
"""Names that no price may come from; some are the last word of a name that has one."""


@pytest.mark.parametrize(
    "model",
    [f"{prefix}{name}" for prefix, name in product(("custom:", "foo/custom:"), UNKNOWN)]
    + [f"{name}:{word}" for name, word in product(BARE, ("free", "online", "uncensored"))]
    + ["ft:gpt-5:acme::1", "ft:claude-sonnet-4-5:acme::1", "foo/ft:gpt-5", "ft:x:acme::gpt-5"]
    + ["my-model:command", "my-model:router", "a.b.c", "gpt-5.foo", "foo.5-gpt"]
    + ["my-model:gpt-oss", "gpt-oss:120", "20b:gpt-oss"],
)
def test_a_variant_or_an_unknown_name_has_no_price(model: str) -> None:
    assert rates_of(model) is None
    assert find_rates("opencode", model, DAY)[0] is None


OLLAMA = (
    "llama3", "llama3.1", "llama3.2", "mistral", "mistral-small", "mixtral", "codellama", "gemma",
    "gemma2", "gemma3", "gpt-oss", "qwen3", "qwen2.5-coder", "qwen3-coder", "deepseek-r1", "phi3",
    "command-r", "devstral", "kimi-k2", "glm-4.6", "deepseek-v3.1", "codestral", "magistral",
)  # fmt: skip
TAGS = (
    "8b", "7b-instruct-q4_0", "latest", "instruct", "20b", "120b-cloud", "671b-cloud", "cloud",
    "30b-a3b", "text", "8x7b", "e4b", "1t-cloud", "8b-instruct-2501-fp16", "base-q8_0",
)  # fmt: skip


@pytest.mark.parametrize("name", OLLAMA)
def test_a_tagged_model_of_a_local_program_has_no_price(name: str) -> None:
    for tag in TAGS:
        for prefix in ("", "custom:", "foo/"):
            assert rates_of(f"{prefix}{name}:{tag}") is None, f"{prefix}{name}:{tag}"


@pytest.mark.parametrize(
    "model",
    ["ollama:gpt-oss-20b", "custom:vllm/gpt-oss-20b", "lmstudio:openai/gpt-5", "foo/ollama:glm-4.6",
     "http://localhost:1234/glm-4.6", "ollama.glm-4.6"],
)  # fmt: skip
def test_a_local_program_may_stand_before_any_sign(model: str) -> None:
    assert is_local(model)
    assert rates_of(model) is None


@pytest.mark.parametrize("sign", ["/", ":", "."])
@pytest.mark.parametrize("word", ["mini", "nano", "pro", "turbo"])
def test_a_word_of_a_prefix_is_not_a_word_of_the_name(word: str, sign: str) -> None:
    other, name = rates_of(f"gpt-5-{word}"), rates_of(f"{word}{sign}gpt-5")
    assert same_price(name, rates_of("gpt-5"))
    assert other is None or not same_price(name, other)


@pytest.mark.parametrize(
    ("model", "provider", "ref"),
    [
        ("custom:GPT-5.5-0", "openai", "gpt-5.5"),
        ("custom:GPT-5-1", "openai", "gpt-5"),  # the second model in the settings
        ("custom:gpt-5", "openai", "gpt-5"),
        ("custom:Claude-Opus-4.5-Thinking-[Anthropic]-0", "anthropic", "claude-opus-4-5"),
        ("custom:GLM-4.7-[GLM-Coding-Plan-China]-0", "zhipuai", "GLM-4.7"),
        ("custom:Kimi-K2.5-(Synthetic)-12", "moonshotai", "kimi-k2.5"),
        ("custom:GLM-4.6-[OpenRouter]-3", "openrouter", "z-ai/glm-4.6"),
    ],
)
def test_a_custom_model_of_droid_has_the_price_of_its_label(
    model: str, provider: str, ref: str
) -> None:
    found = find_rates("droid", model, DAY)[0]
    assert found is not None
    assert (found.provider, found.model_ref) == (provider, ref)
    assert "`custom" in found.note


@pytest.mark.parametrize(
    "model",
    [
        *("custom:My-Model-0", "custom:GPT-OSS-20B-[Ollama]-0", "custom:gpt-oss:20b-0"),
        *("custom:GLM-4.7-(LM-Studio)-1", "custom:GLM-4.7-[my-local-box]-1"),
        *("custom:-[x]-0", "custom:0-0"),
    ],
)
def test_a_custom_model_of_droid_may_have_no_price(model: str) -> None:
    assert find_rates("droid", model, DAY)[0] is None


def test_a_price_of_the_user_applies_to_the_label_of_a_custom_model() -> None:
    registry = ModelRegistry({"my-model": PriceSettings(input=1.0, output=2.0)})
    for model in ("custom:My-Model-0", "custom:My-Model-[Acme]-3"):
        found = registry.rates("droid", model, DAY)
        assert found is not None, model
        assert found.model_ref == "my-model"


def test_a_price_of_the_user_applies_behind_any_prefix() -> None:
    registry = ModelRegistry({"my-model": PriceSettings(input=1.0, output=2.0)})
    for model in ("my-model", "custom:my-model", "a/b:my-model", "us.acme.my-model-2025-01-02"):
        found = registry.rates("opencode", model, DAY)
        assert found is not None, model
        assert found.model_ref == "my-model"
    assert registry.rates("opencode", "custom:my-model-2", DAY) is None


VENDORS = st.from_regex(r"(?:zz[a-z0-9_]{0,5}[/:]){1,3}", fullmatch=True)
PIECES = st.lists(
    st.sampled_from(
        [*BARE, *UNKNOWN, "claude-sonnet-4-5", "-", ".", "x", "4", ":free", "-20250929", "-mini"]
    ),
    min_size=1,
    max_size=3,
).map("".join)


@drawn(300)
@given(VENDORS, PIECES, st.sampled_from(["claude", "codex", "opencode"]))
def test_a_prefix_never_makes_a_price(prefix: str, name: str, agent: str) -> None:
    bare, behind = rates_of(name, agent), rates_of(prefix + name, agent)
    assert behind is None or same_price(bare, behind)
    if prefix.endswith("/"):
        assert same_price(bare, behind)
    shipped = shipped_rates(agent, prefix + name, DAY)
    assert shipped is None or shipped.rates == behind
