"""Reads the settings file of a log, which has the only record of usage: one total per session.

A session that continues a compacted one starts with the total of its predecessor, so its own usage
is the difference. If the predecessor is gone, the whole total counts, because no other session
includes those calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from amux.adapters._kit.jsonl import unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import count, damage_in, document, is_mapping, mapping, text
from amux.adapters.droid.messages import LINES
from amux.model.problems import Problem
from amux.model.usage import Tokens

SETTINGS: Final = ".settings.json"
_LARGEST: Final = 16 << 20
_LONGEST_START: Final = 1 << 16
_FIGURES: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")


class Settings:
    """The content of one settings file; `problem` is set if it cannot be read."""

    def __init__(self, values: dict[str, Any], problem: Problem | None = None) -> None:
        self.values = values
        self.problem = problem
        self.model = text(values.get("model"))
        self.tokens = tokens_of(values.get("tokenUsage"))
        self.gaps = damage_in(mapping(values.get("tokenUsage")), *_FIGURES)

    @property
    def children(self) -> tuple[str, ...]:
        """The sub-agents whose usage the settings record."""
        return tuple(mapping(self.values.get("childInclusiveTokenUsageBySessionId")))


def settings_files(log: Path) -> tuple[Path, ...]:
    """Return the settings that the facts of a log depend on.

    Its first line names the predecessor. Where that line does not begin a session, any other line
    may name one: then the folder stands for the settings of all sessions in it.
    """
    own = log.with_name(f"{log.stem}{SETTINGS}")
    try:
        with open_stream(log) as stream:
            line = stream.read(_LONGEST_START).partition(b"\n")[0]
    except OSError:
        return (own,)
    try:
        start = LINES.decode(line)
        if start.type != "session_start" or text(start.id) is None:
            return own, log.parent
        parent = text(start.parent)
        return (own,) if parent is None else (own, log.with_name(f"{parent}{SETTINGS}"))
    except (ValueError, RecursionError):  # no JSON, or an id that no file name can hold
        return own, log.parent


def read_settings(log: Path, session_id: str) -> Settings:
    """Return the settings of a session in the folder of `log`; empty if the file is missing."""
    try:
        path = log.with_name(f"{session_id}{SETTINGS}")
        with open_stream(path) as stream:
            data = stream.read(_LARGEST)
    except (FileNotFoundError, ValueError):  # an id may not be a valid file name
        return Settings({})
    except OSError as error:
        return Settings({}, unreadable(log, error))
    found = document(data)
    if not is_mapping(found):
        message = "the settings file, which records the usage, is not a JSON object"
        return Settings({}, Problem(code="bad-record", message=message, path=str(path)))
    return Settings(found)


def tokens_of(usage: object) -> Tokens | None:
    """Return a recorded total; input excludes the cache, thinking is part of the output."""
    if not is_mapping(usage):
        return None
    output = count(usage.get("outputTokens")) or 0
    thinking = count(usage.get("thinkingTokens"))
    return Tokens(
        input=count(usage.get("inputTokens")) or 0,
        cache_read=count(usage.get("cacheReadTokens")) or 0,
        cache_write=count(usage.get("cacheCreationTokens")) or 0,
        output=output,
        thinking=None if thinking is None else min(thinking, output),
    )


def subtract(total: Tokens, inherited: Tokens) -> tuple[Tokens, bool]:
    """Return `total` minus `inherited`, and False if `inherited` is larger in any count."""
    pairs = (
        (total.input, inherited.input),
        (total.cache_read, inherited.cache_read),
        (total.cache_write, inherited.cache_write),
        (total.output, inherited.output),
    )
    own = [max(0, all_of_it - before) for all_of_it, before in pairs]
    thinking = total.thinking
    if thinking is not None:
        thinking = min(own[3], max(0, thinking - (inherited.thinking or 0)))
    tokens = Tokens(
        input=own[0], cache_read=own[1], cache_write=own[2], output=own[3], thinking=thinking
    )
    return tokens, all(all_of_it >= before for all_of_it, before in pairs)
