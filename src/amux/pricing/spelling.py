"""Spellings of the names of models: which two names are certainly the same model.

Agents, vendors and the catalogue write one name in several ways: `claude-4.5-sonnet` and
`claude-sonnet-4-5`, with a date or without. Two names are the same model if they consist of the
same words and numbers. The signs between them do not matter. The order of the words matters only if
there are several numbers apart from each other, because a number belongs to the word before it. The
order of numbers always matters. One more word, another version or another size is another model. A
word of a prefix is not a word of the name: `mini/gpt-5` is not `gpt-5-mini`.

Gateways put their own name and those of vendors and regions before the name of a model:
`proxy/azure/gpt-5`, `custom:gpt-5`, `us.amazon.nova-pro-v1:0`. `shorter_names` cuts them off one by
one, at the signs that separate a prefix from a model.
"""

from __future__ import annotations

import re
from typing import Final

_SIGNS: Final = re.compile(r"[-/_:@\s]+")
_SIZE: Final = re.compile(r"\d+(?:\.\d+)+[a-z]\w*")  # `1.5b` is one word
_DATE: Final = re.compile(r"[-@](20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$")
_TAG: Final = re.compile(
    r":(?:(?:latest|cloud|instruct|text|base)"
    r"|(?:(?:\d+x|e)?\d+(?:\.\d+)?[bmt]|[\w.-]*q\d(?:_\w+)?)(?:-\w+)*)$"
)
_PREFIX: Final = re.compile(r"(?:[a-z]+(?:-[a-z]+)*\.(?=[a-z])|[^/:]*[/:])")
_FINE_TUNED: Final = "ft:"  # such a model has a price of its own
_MODE: Final = "thinking"  # of Claude models, which cost the same with and without it

_LOCAL: Final = frozenset(
    {
        "docker", "exo", "gpt4all", "jan", "koboldcpp", "llama-cpp", "llama-server", "llama.cpp",
        "llamacpp", "llamafile", "lm-studio", "lm_studio", "lmstudio", "local", "localai",
        "localhost", "mlx", "mlx-lm", "oobabooga", "ollama", "self-hosted", "sglang", "tabby",
        "text-generation-webui", "tgi", "vllm",
    }
)  # fmt: skip
"""Programs that run models on a machine of the user. Nobody bills their tokens."""


def is_local(name: str) -> bool:
    """Return whether a name is that of a model on a machine of the user."""
    name = name.lower()
    heads = (*re.split("[/:]", name)[:-1], name.partition(".")[0])
    return not _LOCAL.isdisjoint(heads) or _TAG.search(name.rpartition("/")[2]) is not None


def undated(name: str) -> str:
    """Return a name without the date at its end."""
    return _DATE.sub("", name)


def spelling_key(name: str) -> str:
    """Return a text that is equal for all spellings of a name."""
    rest, parts = name.lower(), list[list[str]]()
    while prefix := _PREFIX.match(rest):
        parts.append(_tokens(prefix[0]))
        rest = rest[prefix.end() :]
    parts.append(_tokens(rest))
    if any("claude" in tokens for tokens in parts):
        parts = [[token for token in tokens if token != _MODE] for tokens in parts]
    return " / ".join(map(_sorted_words, filter(None, parts)))


def _sorted_words(tokens: list[str]) -> str:
    numbers = [index for index, token in enumerate(tokens) if token.isdigit()]
    if numbers and numbers[-1] - numbers[0] >= len(numbers):  # words lie between them
        return " ".join(tokens)
    words = sorted(token for token in tokens if not token.isdigit())
    return " ".join((*words, "|", *(tokens[index] for index in numbers)))


def _tokens(name: str) -> list[str]:
    parts = filter(None, _SIGNS.split(name))
    tokens = ((part,) if _SIZE.fullmatch(part) else part.split(".") for part in parts)
    return [token for some in tokens for token in some if token]


def cut_prefix(name: str) -> str:
    """Return a name without its first prefix; "" if it has none.

    A prefix ends with a slash or a colon, or with a dot between letters, as on Bedrock. A single
    word without a number behind a colon is a variant of what stands before it, such as `:free`.
    """
    prefix = _PREFIX.match(name)
    if prefix is None or prefix[0] == _FINE_TUNED:
        return ""
    rest = name[prefix.end() :]
    is_variant = prefix[0].endswith(":") and (rest.isalpha() or rest.isdigit())
    return "" if is_variant else rest


def shorter_names(name: str) -> list[str]:
    """Return the name, then without its first prefix, without its first two, and so on."""
    found: list[str] = []
    while name:
        found.append(name)
        name = cut_prefix(name)
    return found
