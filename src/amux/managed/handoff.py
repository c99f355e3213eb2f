"""Continues a managed session with another agent: the history becomes the text of a prompt.

The other agent gets the conversation without thinking, injected texts and binary data; tool calls
become one line each. If the history is too long, its beginning is left out, since the end matters
most for going on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amux.managed.state import SessionState
from amux.model.message import SessionMessage
from amux.model.session import Session

LONGEST_HISTORY: Final = 100_000
"""Characters of history in a prompt; some agents take it as an argument of their command."""

_LONGEST_TOOL: Final = 400
_SPEAKERS: Final = {"user": "User", "assistant": "Assistant", "system": "System"}


def handoff_prompt(state: SessionState, history: Session | None, prompt: str | None) -> str:
    """Return the first prompt for the other agent.

    Without a history that can be read, the prompts that amux has sent are all there is.
    """
    if history is None:
        lines = [f"User: {each}" for each in state.prompt_history]
    else:
        lines = [line for message in history.messages for line in _lines(message)]
    text, is_cut = _end_of(lines)
    opening = f"Below is a conversation with another coding agent, {state.agent_type}."
    if is_cut:
        opening += " Its beginning is left out."
    where = f" It worked in `{state.cwd}`." if state.cwd else ""
    closing = prompt or "Continue the work where it stopped."
    return f"{opening}{where}\n\n<conversation>\n{text}\n</conversation>\n\n{closing}"


def _lines(message: SessionMessage) -> Iterator[str]:
    if message.synthetic:
        return
    speaker = _SPEAKERS.get(message.role)
    if speaker is not None and message.content.strip():
        yield f"{speaker}: {message.content.strip()}"
    for call in message.tool_calls or ():
        yield f"[{speaker or 'Assistant'} used {call.tool_name}: {_short(str(call.input))}]"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TOOL else f"{line[:_LONGEST_TOOL]}..."


def _end_of(lines: list[str]) -> tuple[str, bool]:
    """Return the last lines that are not too long together, and whether any were left out."""
    kept: list[str] = []
    left = LONGEST_HISTORY
    for line in reversed(lines):
        if left - len(line) < 0:
            break
        left -= len(line) + 2
        kept.append(line)
    if not kept and lines:
        kept = [lines[-1][-LONGEST_HISTORY:]]
        return kept[0], True
    return "\n\n".join(reversed(kept)), len(kept) < len(lines)
