"""`PayloadFormat`: how the payloads of one program become messages and billed usage.

A format is pure: it imports no framework, does no I/O, and never raises an exception for bad data.
The values of a payload are hostile: each may be missing or have any type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from amux.model.message import SessionMessage
from amux.model.usage import NANO, Tokens
from amux.rollout.records import Record, as_mapping, encode_payload

_MOST_USD: Final = 1_000_000
_MOST_TOKENS: Final = 2**53


class RecordUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage that a record states: its model, its tokens and the cost the caller recorded.

    Records with an equal `key` state the usage of one call: the last of them counts. Usage without
    a key is that of a call of its own.
    """

    model: str | None
    tokens: Tokens
    cost_nusd: int | None
    key: str | None = None

    def counts(self) -> dict[str, int]:
        """Return the counts under the names of a thread's summary."""
        return {
            "input_tokens": self.tokens.input,
            "output_tokens": self.tokens.output,
            "cache_read_tokens": self.tokens.cache_read,
            "cache_write_tokens": self.tokens.cache_write,
            "cost_nusd": self.cost_nusd or 0,
        }


MessageReader = Callable[[Record, Mapping[str, Any]], Sequence[SessionMessage]]
UsageReader = Callable[[Mapping[str, Any]], RecordUsage | None]


class PayloadFormat(NamedTuple):
    """Reads the payloads of one program.

    `messages` returns the messages of a `response_item`, oldest first, often one or none. All of
    them may carry the id and the parent of the record: `rollout.messages` numbers them. `usage`
    returns the usage of a `response_item`, None if it states none.
    """

    messages: MessageReader
    usage: UsageReader


def text_of(value: object) -> str:
    """Return the text of a content: a string, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    texts: list[str] = []
    for block in items_of(value):
        text = block if isinstance(block, str) else as_mapping(block).get("text")
        if isinstance(text, str):
            texts.append(text)
    if texts or isinstance(value, list):
        return "\n".join(texts)
    return encode_payload(value)


def items_of(value: object) -> Sequence[Any]:
    """Return a JSON array; an empty one for any other value."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def optional_text(value: object) -> str | None:
    """Return a text that is not empty; None for any other value."""
    return value if isinstance(value, str) and value else None


def flag_of(value: object) -> bool | None:
    """Return a boolean; None for any other value."""
    return value if isinstance(value, bool) else None


def count_of(value: object) -> int:
    """Return a number of tokens; 0 for a value that is none."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0  # a bool is none


def nano_usd(cost: object) -> int | None:
    """Return a cost in USD as a whole number; None if it is no amount that a call can cost."""
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost <= _MOST_USD:
        return None
    return round(cost * NANO)
