"""The searchable text of a message.

Spoken text is what users and models wrote, including thinking. Tool text is the names, input and
output of tools. Encoded images are not searched although they are strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from amux.model.message import SessionMessage


class MessageLocation(NamedTuple):
    """The location of a message in its file: a range of whole lines.

    `kind` is interpreted by the adapter that set it: a line may hold several messages, and lines of
    other messages may lie between those of an answer.
    """

    offset: int
    length: int
    kind: int


class TextDoc(NamedTuple):
    """The texts of one message. `ordinal` is its number in the session, from 0.

    A phrase cannot match across two texts. `location` is the location of the message, or None if it
    has none.
    """

    ordinal: int
    spoken: tuple[str, ...]
    tools: tuple[str, ...]
    location: MessageLocation | None = None


def text_doc(ordinal: int, message: SessionMessage, *, tools: bool) -> TextDoc:
    """Return the texts of a message; without its tool text unless `tools` is set."""
    if message.role == "tool":
        return TextDoc(ordinal, (), tool_texts(message) if tools else ())
    spoken = (message.content,) if message.content else ()
    if message.thinking:
        spoken = (*spoken, message.thinking)
    has_traffic = tools and (message.tool_calls or message.tool_result is not None)
    return TextDoc(ordinal, spoken, tool_texts(message) if has_traffic else ())


def tool_texts(message: SessionMessage) -> tuple[str, ...]:
    """Return the names, input and output of a message's tools; no text is empty."""
    parts = [message.content] if message.role == "tool" else []
    for call in message.tool_calls:
        parts.append(call.tool_name)
        parts.extend(strings_in(call.input))
    if message.tool_result is not None:
        parts.extend(output_strings(message.tool_result.output, message.content))
    return tuple(filter(None, parts))


def output_strings(output: Any, shown: str) -> Iterator[str]:
    """Yield the texts of a tool's output that `shown`, its readable form, does not contain."""
    if output != shown:
        yield from (text for text in strings_in(output) if not _has_whole_words(shown, text))


def _has_whole_words(shown: str, text: str) -> bool:
    """Return whether a text begins and ends with words where it first occurs in another one."""
    start = shown.find(text)
    if start < 0:
        return False
    end = start + len(text)
    beside = shown[max(start - 1, 0) : start] + shown[end : end + 1]
    return not any(each.isalnum() or each == "_" or not each.isascii() for each in beside)


def strings_in(value: Any) -> Iterator[str]:
    """Yield all strings inside a JSON value except base64 data."""
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
