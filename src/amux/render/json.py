"""A session as JSON: one indented document, or one object per line. Both are streamed.

The JSON text is safe to print and to read line by line: characters that a reader may take for a
line end or a command (DEL, C1 controls, line separators, direction overrides) are written as
escapes, which every JSON parser decodes. Lone surrogates, which only come from undecodable file
names and which strict parsers reject, become U+FFFD.

The document equals the encoded and indented `Session`. In the line format the first object is a
header with `"type": "session"` and without `messages`. Sub-agents stay complete in the `children`
of the header, so that every further line is a message of the session itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from amux.model.base import encode_json
from amux.model.message import SessionMessage
from amux.model.session import Session

_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def to_json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a model or JSON value as JSON, on one line or indented."""
    encoded = encode_json(value)
    if indent is not None:
        encoded = msgspec.json.format(encoded, indent=indent)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", encoded.decode())


INDENT: Final = 2

# A JSON string contains no line feed, so this can only be the field of the session itself: fields
# of nested objects have more indentation.
_NO_MESSAGES_INDENTED: Final = '\n  "messages": []'


def render_json(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the document in pieces: the part before the messages, each message, the rest."""
    frame = to_json_text(msgspec.structs.replace(header, messages=()), indent=INDENT)
    before, field, after = frame.partition(_NO_MESSAGES_INDENTED)
    yield before + field.removesuffix("]")
    separator, end = "\n    ", "]"
    for message in messages:
        yield separator + to_json_text(message, indent=INDENT).replace("\n", "\n    ")
        separator, end = ",\n    ", "\n  ]"
    yield f"{end}{after}\n"


# Quotes inside a JSON string are escaped, and no field before this one holds another session.
_NO_MESSAGES: Final = ',"messages":[]'


def render_jsonl(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the lines: the header, then the messages."""
    facts = to_json_text(msgspec.structs.replace(header, messages=()))
    yield f'{{"type":"session",{facts[1:].replace(_NO_MESSAGES, "", 1)}\n'
    for message in messages:
        yield to_json_text(message) + "\n"
