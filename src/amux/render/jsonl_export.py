"""One JSON object per line: a header with the facts of the session, then its messages.

The header is marked `"type": "session"` and has no `messages`. Sub-agents stay whole inside the
header's `children`, so that every further line is a message of the session itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amux.model.message import SessionMessage
from amux.model.session import Session
from amux.render.json_text import to_json_text


def render_jsonl(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the lines, the header first."""
    facts = header.to_dict()
    del facts["messages"]
    yield to_json_text({"type": "session", **facts}) + "\n"
    for message in messages:
        yield to_json_text(message) + "\n"
