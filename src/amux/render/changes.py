"""Changes of a followed session as Markdown: the blocks of a document that never ends."""

from __future__ import annotations

from collections.abc import Iterator

from amux.model.change import SessionChange
from amux.render.markdown import render_message
from amux.render.markdown_escape import code


def render_change(change: SessionChange, *, speaker: str | None) -> Iterator[str]:
    """The message as an export shows it; a heading where another session begins to speak."""
    if change.message is None:
        return
    if speaker is not None and change.unified_id != speaker:
        what = "Session" if change.parent is None else "Sub-agent"
        yield f"## {what} {code(change.session_id)}\n\n"
    if change.kind == "updated-message":
        yield f"**Message {change.number} again:**\n\n"
    yield from render_message(change.message)
