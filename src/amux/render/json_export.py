"""The full session as one JSON document, two-space indent, streamed message by message.

The text equals what encoding and indenting the whole `Session` at once would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from amux.model.message import SessionMessage
from amux.model.session import Session
from amux.render.json_text import to_json_text

INDENT: Final = 2

# A line feed is never inside a JSON string, so this can only be the field of the session itself:
# the same name deeper down has more indentation.
_NO_MESSAGES: Final = '\n  "messages": []'


def render_json(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the document in pieces: what stands before the messages, each message, the rest."""
    frame = to_json_text(msgspec.structs.replace(header, messages=()), indent=INDENT)
    before, field, after = frame.partition(_NO_MESSAGES)
    yield before + field.removesuffix("]")
    separator, end = "\n    ", "]"
    for message in messages:
        yield separator + to_json_text(message, indent=INDENT).replace("\n", "\n    ")
        separator, end = ",\n    ", "\n  ]"
    yield f"{end}{after}\n"
