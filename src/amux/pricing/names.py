"""Names of models: how agents write them, and whose models they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

AGENT_PROVIDERS = {"claude": "anthropic", "codex": "openai"}
"""Whose models an agent calls when the model's name does not say."""

_VARIANT = re.compile(r"\[[^\]]*\]$")  # `claude-opus-4-1[1m]`: an option of the agent, not a model
_DATE_DIGITS = 8


def plain_name(model: str) -> str:
    """A model's name in lower case, without the options agents append to it."""
    return _VARIANT.sub("", model.strip().lower())


def is_claude(provider: str, model: str) -> bool:
    """Whether a model is billed by Anthropic's rules, whoever serves it."""
    return provider == "anthropic" or "claude" in model.lower()


def candidates(agent: str, model: str) -> Iterator[tuple[str | None, str]]:
    """(provider, name) pairs to look up, the surest first; provider None: whose name it is."""
    name = plain_name(model)
    head, slash, rest = name.partition("/")
    if name.startswith("arn:aws:bedrock:") or "anthropic.claude" in name:
        yield "aws", name
    elif slash:
        yield head, rest
        yield None, name
    else:
        yield AGENT_PROVIDERS.get(agent), name
        yield None, name


def cuts_number(ref: str, end: int) -> bool:
    """Whether a name goes on with a digit where a number ends; a date may follow one."""
    before = re.search(r"\d*$", ref[:end])
    after = re.match(r"\d*", ref[end:])
    left, right = len(before[0]) if before else 0, len(after[0]) if after else 0
    return left > 0 and right > 0 and left + right != _DATE_DIGITS
