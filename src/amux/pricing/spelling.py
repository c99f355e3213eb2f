"""Spellings of the names of models: which two names are certainly the same model.

Agents, vendors and the catalogue write one name in several ways: `claude-4.5-sonnet` and
`claude-sonnet-4-5`, with a date or without. Two names are the same model if they consist of the
same words and numbers. The signs between them do not matter. The order of the words matters only if
there are several numbers apart from each other, because a number belongs to the word before it. The
order of numbers always matters. One more word, another version or another size is another model.
"""

from __future__ import annotations

import re
from typing import Final

_SIGNS: Final = re.compile(r"[-/_:@\s]+")
_SIZE: Final = re.compile(r"\d+(?:\.\d+)+[a-z]\w*")  # `1.5b` is one word
_DATE: Final = re.compile(r"[-@](20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$")
_TAG: Final = re.compile(r":(?:latest|\d+(?:\.\d+)?[bm]|[\w.-]*q\d(?:_\w+)?)(?:-\w+)*$")
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
    *heads, last = name.lower().split("/")
    return not _LOCAL.isdisjoint(heads) or _TAG.search(last) is not None


def undated(name: str) -> str:
    """Return a name without the date at its end."""
    return _DATE.sub("", name)


def spelling_key(name: str) -> str:
    """Return a text that is equal for all spellings of a name."""
    tokens = _tokens(name)
    if "claude" in tokens:
        tokens = [token for token in tokens if token != _MODE]
    numbers = [index for index, token in enumerate(tokens) if token.isdigit()]
    if numbers and numbers[-1] - numbers[0] >= len(numbers):  # words lie between them
        return " ".join(tokens)
    words = sorted(token for token in tokens if not token.isdigit())
    return " ".join((*words, "|", *(tokens[index] for index in numbers)))


def _tokens(name: str) -> list[str]:
    parts = filter(None, _SIGNS.split(name.lower()))
    tokens = ((part,) if _SIZE.fullmatch(part) else part.split(".") for part in parts)
    return [token for some in tokens for token in some if token]


def shorter_names(name: str) -> list[str]:
    """Return the name, then without each vendor at its beginning; each also without its date."""
    parts = name.split("/")
    found: list[str] = []
    for start in range(len(parts)):
        rest = "/".join(parts[start:])
        found += [rest, undated(rest)]
    return list(dict.fromkeys(filter(None, found)))
