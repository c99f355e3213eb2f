"""What of a message is text to search in.

Spoken: what people and models said and thought. Tools: names, input and output of tools. Encoded
images are no text, though they stand in strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from amux.model.message import SessionMessage


class Spot(NamedTuple):
    """Where a message lies in its file: whole lines, and what is to be made of them.

    `kind` is for the adapter that said so: a line may hold several messages, and lines of others
    may stand between those of an answer.
    """

    offset: int
    length: int
    kind: int


class TextDoc(NamedTuple):
    """The texts of one message, `ordinal` being its number in the session, from 0.

    No phrase runs from one of `spoken` into the next; `tools` are all in one. `spot` is where the
    message lies, if that can be told.
    """

    ordinal: int
    spoken: tuple[str, ...]
    tools: str
    spot: Spot | None = None


def text_doc(ordinal: int, message: SessionMessage, *, tools: bool) -> TextDoc:
    """Everything a message says; without `tools`, everything that was spoken."""
    if message.role == "tool":
        return TextDoc(ordinal, (), tool_text(message) if tools else "")
    said = (message.content,) if message.content else ()
    if message.thinking:
        said = (*said, message.thinking)
    has_traffic = tools and (message.tool_calls or message.tool_result is not None)
    return TextDoc(ordinal, said, tool_text(message) if has_traffic else "")


def tool_text(message: SessionMessage) -> str:
    """What went into tools and came out of them."""
    parts = [message.content] if message.role == "tool" else []
    for call in message.tool_calls:
        parts.append(call.tool_name)
        parts.extend(strings_in(call.input))
    if message.tool_result is not None:
        parts.extend(output_strings(message.tool_result.output, message.content))
    return "\n".join(parts)


def output_strings(output: Any, shown: str) -> Iterator[str]:
    """Texts of a tool's output that its readable form does not hold already."""
    if output != shown:
        yield from (text for text in strings_in(output) if text not in shown)


def strings_in(value: Any) -> Iterator[str]:
    """All texts inside a JSON value, but for encoded data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        encoded = members.get("type") == "base64"
        for name, inner in members.items():
            if not (encoded and name == "data"):
                yield from strings_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[Any]", value):
            yield from strings_in(inner)
