"""A session as a Markdown document: facts, messages, sub-agents, problems, cost.

Headings of level 1 are the session, of level 2 its sub-agents and the closing sections, of level 3
the messages. No other line of the document is a heading of these levels, whatever the session
contains, so a program may split the document at `### `.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from amux.model.change import SessionChange
from amux.model.message import Role, SessionMessage, SessionToolCall, TokenUsage
from amux.model.session import Session
from amux.render.content import (
    DEFAULT_TITLE,
    UNKNOWN,
    all_problems,
    cost_line,
    described,
    is_uncalled,
    label_of,
    result_text,
    session_cost_line,
    time_text,
    value_text,
    with_unanswered,
)
from amux.render.markdown_escape import code, fenced, hidden_prose, inline, prose

_HEADINGS: Final[dict[Role, str]] = {
    "user": "User",
    "assistant": "Assistant",
    "system": "System",
    "tool": "Tool",
}


def render_markdown(header: Session, messages: Iterable[SessionMessage]) -> Iterator[str]:
    """Yield the document block by block; every piece ends with a line feed."""
    yield f"# {inline(header.title) or DEFAULT_TITLE}\n\n"
    yield _facts(header)
    yield from _messages(messages)
    for number, child in enumerate(header.children, start=1):
        yield from _child(child, str(number))
    yield from _problems(header)
    yield from _cost_summary(header)


def _facts(session: Session) -> str:
    models = session.models or ((session.model,) if session.model else ())
    rows = (
        ("Agent", inline(session.agent)),
        ("Session", code(session.unified_id)),
        ("Model", ", ".join(code(model) for model in models) or UNKNOWN),
        ("Created", time_text(session.created_at)),
        ("Updated", time_text(session.updated_at)),
        ("Directory", code(session.cwd) if session.cwd else ""),
        ("Kind", session.kind if session.kind != "session" else ""),
        ("Forked from", code(session.forked_from) if session.forked_from else ""),
        ("Parent", code(session.parent) if session.parent else ""),
        ("Archived", "yes" if session.archived else ""),
        ("Tags", ", ".join(code(tag) for tag in session.tags)),
        ("Starred", "yes" if session.starred else ""),
        *((f"Note {note.number}", inline(note.text)) for note in session.notes),
        ("Turns", str(session.turn_count)),
        ("Cost", session_cost_line(session)),
    )
    return "".join(f"- **{name}:** {value}\n" for name, value in rows if value) + "\n"


def render_change(change: SessionChange, *, speaker: str | None) -> Iterator[str]:
    """Yield the message of a change as in an export, after a heading if the session changes."""
    if change.message is None:
        return
    if speaker is not None and change.unified_id != speaker:
        what = "Session" if change.parent is None else "Sub-agent"
        yield f"## {what} {code(change.session_id)}\n\n"
    if change.kind == "updated-message":
        yield f"**Message {change.number} again:**\n\n"
    yield from _messages([change.message])


def _messages(messages: Iterable[SessionMessage]) -> Iterator[str]:
    for message, unanswered in with_unanswered(messages):
        yield f"### {_HEADINGS[message.role]}\n\n"
        for block in _blocks(message, unanswered):
            yield f"{block}\n\n"


def _blocks(message: SessionMessage, unanswered: frozenset[str]) -> Iterator[str]:
    yield from _notes(message)
    if message.thinking:
        text = hidden_prose(message.thinking)
        yield f"<details>\n<summary>Thinking</summary>\n\n{text}\n\n</details>"
    if message.role == "tool":
        yield from _tool_result(message)
    elif message.content.strip():
        yield prose(message.content)
    for number, image in enumerate(message.images, start=1):
        yield f"*Image {number}: {inline(described(image))}*"
    for call in message.tool_calls:
        yield from _tool_call(call, show_output=call.tool_call_id in unanswered)


def _notes(message: SessionMessage) -> Iterator[str]:
    """Yield a line with time, model, usage and cost; then what is special about the message."""
    parts = (
        time_text(message.timestamp) if message.timestamp else "",
        code(message.model) if message.model else "",
        _usage_line(message.token_usage),
        cost_line(message.cost) if message.cost else "",
    )
    line = " · ".join(part for part in parts if part)
    if line:
        yield f"*{line}*"
    if message.compaction:
        yield "**Compaction:** this summary replaces the earlier history."
    if (label := label_of(message)) is not None:
        yield f"**{label.name[:1].upper()}{label.name[1:]}:** {label.meaning}."


def _tool_result(message: SessionMessage) -> Iterator[str]:
    result = message.tool_result
    if result is not None:
        failed = " (failed)" if result.is_error else ""
        yield f"**Result** of {code(result.tool_name)} · {code(result.tool_call_id)}{failed}"
    text = result_text(message)
    if text:
        yield fenced(text)


def _tool_call(call: SessionToolCall, *, show_output: bool) -> Iterator[str]:
    took = f" · {call.duration_ms:,} ms" if call.duration_ms is not None else ""
    failed = " (failed)" if call.is_error else ""
    yield f"**Tool call** {code(call.tool_name)} · {code(call.tool_call_id)}{took}{failed}"
    language = "" if isinstance(call.input, str) else "json"
    yield fenced(value_text(call.input), language)
    if show_output:
        yield "**Output**"
        yield fenced(value_text(call.output))


def _child(child: Session, number: str) -> Iterator[str]:
    yield f"## Sub-agent {number}: {inline(child.title) or DEFAULT_TITLE}\n\n"
    yield _facts(child)
    yield from _messages(child.messages)
    for position, grandchild in enumerate(child.children, start=1):
        yield from _child(grandchild, f"{number}.{position}")


def _problems(session: Session) -> Iterator[str]:
    problems = list(all_problems(session))
    if problems:
        yield "## Problems\n\n"
        yield "".join(f"- {inline(str(problem))}\n" for problem in problems)
        yield "\n"


def _cost_summary(session: Session) -> Iterator[str]:
    yield "## Cost\n\n"
    cost = session.cost
    if cost is None or is_uncalled(session):
        yield f"- **Total:** {session_cost_line(session)}\n"
        return
    rows = (
        ("Total", cost_line(cost)),
        ("Input tokens", _count(cost.input_tokens)),
        ("Output tokens", _count(cost.output_tokens)),
        ("Thinking tokens, part of the output", _count(cost.thinking_tokens)),
        ("Tokens read from the cache", _count(cost.cached_tokens)),
        ("Tokens written to the cache", _count(cost.cache_write_tokens)),
        ("Incomplete", ", ".join(code(reason) for reason in cost.incomplete)),
    )
    yield "".join(f"- **{name}:** {value}\n" for name, value in rows if value)


def _usage_line(usage: TokenUsage | None) -> str:
    if usage is None:
        return ""
    cached = f", {usage.cached_tokens:,} cached" if usage.cached_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"
