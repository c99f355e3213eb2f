"""One JSON object per line: a header with the facts of the session, then its messages.

The header is marked `"type": "session"` and has no `messages`. Sub-agents stay whole inside the
header's `children`, so that every further line is a message of the session itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from amux.model.message import SessionMessage
from amux.model.session import Session
from amux.render.json_text import to_json_text

# Quotes inside a JSON string are escaped, and no field before this one holds another session.
_NO_MESSAGES: Final = ',"messages":[]'


def render_jsonl(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the lines, the header first."""
    facts = to_json_text(msgspec.structs.replace(header, messages=()))
    yield f'{{"type":"session",{facts[1:].replace(_NO_MESSAGES, "", 1)}\n'
    for message in messages:
        yield to_json_text(message) + "\n"
