"""A session as people read it on a terminal: a header, the conversation, the sub-agents.

Every line of content is indented, so that no session can imitate a line of the layout. Unless
`Layout.full` is set, thoughts, outputs and diffs are folded to a few lines, and texts that neither
a person nor a model wrote (system prompts, injected context) to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from amux.model.facts import Kind
from amux.model.outline import SessionOutline
from amux.model.session import Session
from amux.render.content import (
    SOURCES,
    UNKNOWN,
    cost_line,
    cost_text,
    is_uncalled,
    one_line,
    session_cost_line,
    session_cost_text,
)
from amux.render.terminal_messages import MessageLayout, local_time, rule
from amux.render.terminal_text import (
    BLANK,
    ELLIPSIS,
    INDENT,
    Layout,
    Line,
    Style,
    more,
    one_row,
    soft_rows,
)

_LABEL_WIDTH: Final = 11
_PROBLEMS_SHOWN: Final = 3
_NO_TITLE: Final = "(no prompt)"
_ORIGINS: Final[dict[Kind, str]] = {
    "session": "",
    "fork": "Fork of",
    "continuation": "Continues",
    "subagent": "Parent",
}


def render_terminal(
    outline: SessionOutline, layout: Layout, *, resumable: bool = False
) -> Iterator[Line]:
    """Yield the lines of a session; `resumable` adds the command that continues it."""
    is_folded = False
    for line in _document(outline, layout):
        yield line
        is_folded = is_folded or any(_is_folded(text, style) for text, style in line)
    hints = ["--full shows what is folded"] if is_folded and not layout.full else []
    if resumable and outline.session.kind != "subagent":
        hints.append(f"resume: amux sessions resume {one_line(outline.session.unified_id)}")
    if hints:
        yield BLANK
    for hint in hints:
        yield ((hint, "faint"),)


def _is_folded(text: str, style: Style) -> bool:
    return style == "folded" or text.endswith(ELLIPSIS)


def _document(outline: SessionOutline, layout: Layout) -> Iterator[Line]:
    yield from _header(outline, layout)
    messages = _messages_of(outline.session, layout)
    is_empty = True
    for line in messages.lines(outline.read_messages()):
        yield line
        is_empty = False
    if is_empty:
        yield BLANK
        yield (("(no messages)", "faint"),)
    for number, child in enumerate(outline.children, start=1):
        yield from _sub_agent(child, str(number), layout, day=messages.day)


def _messages_of(session: Session, layout: Layout, *, day: str = "") -> MessageLayout:
    return MessageLayout(session.agent, layout, cwd=session.cwd, models=session.models, day=day)


def _header(outline: SessionOutline, layout: Layout) -> Iterator[Line]:
    session = outline.session
    for row in soft_rows(one_line(session.title) or _NO_TITLE, layout.width):
        yield ((row, "title"),)
    yield BLANK
    for name, value in _facts(outline, layout):
        rows = [*soft_rows(one_line(value), max(layout.width - _LABEL_WIDTH, INDENT))]
        if name == "Session":
            rows = [one_line(value)]  # a broken id cannot be copied
        for at, row in enumerate(rows):
            yield ((("" if at else name).ljust(_LABEL_WIDTH), "label"), (row, "plain"))
    problems = list(dict.fromkeys(_problems(outline)))
    shown = problems if layout.full else problems[:_PROBLEMS_SHOWN]
    for problem in shown:
        for row in soft_rows(one_line(f"problem: {problem}"), layout.width):
            yield ((row, "warning"),)
    if len(problems) > len(shown):
        yield ((more(len(problems) - len(shown), "problem"), "warning"),)


def _problems(outline: SessionOutline) -> Iterator[str]:
    yield from map(str, outline.session.problems)
    for child in outline.children:
        yield from _problems(child)


def _facts(outline: SessionOutline, layout: Layout) -> Iterator[tuple[str, str]]:
    session = outline.session
    models = session.models or ((session.model,) if session.model else ())
    version = session.raw.get("agentVersion")
    rows = (
        ("Session", session.unified_id),
        ("Agent", f"{session.agent} {version}" if isinstance(version, str) else session.agent),
        ("Model", ", ".join(models) or UNKNOWN),
        ("Directory", session.cwd or ""),
        ("Time", _span(session.created_at, session.updated_at, layout)),
        ("Turns", f"{session.turn_count:,}"),
        ("Cost", cost_phrase(outline)),
        (_ORIGINS[session.kind], session.forked_from or session.parent or UNKNOWN),
        ("Archived", "yes" if session.archived else ""),
        ("Starred", "yes" if session.starred else ""),
        ("Tags", ", ".join(session.tags)),
        *((f"Note {note.number}", note.text) for note in session.notes),
    )
    return ((name, value) for name, value in rows if name and value)


def cost_phrase(outline: SessionOutline) -> str:
    """Return the cost of a session with its origin and the reasons why it is incomplete."""
    cost = outline.session.cost
    if cost is None or is_uncalled(outline.session):
        return session_cost_line(outline.session)
    amount, reasons = cost_text(cost), ", ".join(cost.incomplete)
    if cost.total_usd == 0 and cost.source == "estimate" and not _has_calls(outline):
        return f"{amount} (its calls are counted in another session)"
    if amount == UNKNOWN:
        return cost_line(cost)
    source = SOURCES[cost.source] if cost.source else ""
    notes = "; ".join(filter(None, (source, reasons and f"incomplete: {reasons}")))
    return f"{amount} ({notes})" if notes else amount


def _has_calls(outline: SessionOutline) -> bool:
    return bool(outline.session.calls) or any(map(_has_calls, outline.children))


def _sub_agent(outline: SessionOutline, number: str, layout: Layout, *, day: str) -> Iterator[Line]:
    """Yield a sub-agent with its messages; the sub-agents below it are only named."""
    session = outline.session
    yield BLANK
    yield rule(f"sub-agent {number}: {one_line(session.title) or _NO_TITLE}", layout, "heading")
    yield from _identity(outline, layout)
    messages = _messages_of(session, layout, day=day)
    yield from messages.lines(outline.read_messages())
    for position, child in enumerate(outline.children, start=1):
        inner = f"{number}.{position}"
        if layout.full:
            yield from _sub_agent(child, inner, layout, day=messages.day)
            continue
        yield BLANK
        title = one_line(child.session.title) or _NO_TITLE
        cost = session_cost_text(child.session)
        yield ((one_row(f"sub-agent {inner}: {title} ({cost})", layout.width), "faint"),)
        yield ((f"{' ' * INDENT}amux show {one_line(child.session.unified_id)}", "faint"),)


def _identity(outline: SessionOutline, layout: Layout) -> Iterator[Line]:
    session = outline.session
    yield ((one_line(session.unified_id), "faint"),)  # a broken id cannot be copied
    turns = f"{session.turn_count:,} turn{'' if session.turn_count == 1 else 's'}"
    facts = (session.model or UNKNOWN, turns, cost_phrase(outline))
    for row in soft_rows(" · ".join(map(one_line, facts)), layout.width):
        yield ((row, "faint"),)


def _span(start: datetime, end: datetime, layout: Layout) -> str:
    """Return two moments; what both have in common is not repeated."""
    first, last = local_time(start, layout), local_time(end, layout)
    if first == last:
        return first
    return f"{first} - {last[11:] if first[:10] == last[:10] else last}"
