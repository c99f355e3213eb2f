"""Writes sessions as rows: abbreviated on a terminal, complete and exact elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from amux.faces.cli.figures import UNKNOWN, ago, count, rfc3339, session_money, short_ids
from amux.faces.cli.output import Column, Output

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    from amux.index.fast_list import FastSummary
    from amux.model.session import SearchHit, SessionSummary

    Shown = SessionSummary | FastSummary

MODEL_WIDTH = 20
STAR, PLAIN_STAR = "\u2605", "*"


def write_sessions(
    output: Output,
    sessions: Sequence[Shown],
    *,
    now: datetime,
    by_update: bool = False,
) -> None:
    """Draw a table on a terminal, else write rows; `by_update` shows the last change."""
    if output.is_terminal:
        if sessions:
            _draw(output, sessions, now=now, by_update=by_update)
    else:
        output.rows(_row(each, by_update=by_update) for each in sessions)


def _row(session: Shown, *, by_update: bool) -> tuple[str, ...]:
    return (
        session.unified_id,
        session.model or UNKNOWN,
        str(session.turn_count),
        session_money(session),
        rfc3339(session.updated_at if by_update else session.created_at),
        _summary(session, "starred" if session.starred else ""),
    )


def _draw(output: Output, sessions: Sequence[Shown], *, now: datetime, by_update: bool) -> None:
    ids = short_ids(each.session_id for each in sessions)
    with_agent = len({each.agent for each in sessions}) > 1
    when = "Updated" if by_update else "Date"
    columns = [
        *([Column("Agent")] if with_agent else []),
        Column("Session ID", style="cyan"),
        Column("Model", widest=MODEL_WIDTH),
        Column("Turns", is_number=True),
        Column("Cost", is_number=True),
        Column(when),
        Column("Summary", grows=True),
    ]
    rows = [
        (
            *([each.agent] if with_agent else []),
            ids[each.session_id],
            each.model or UNKNOWN,
            f"{each.turn_count:,}",
            session_money(each),
            ago(each.updated_at if by_update else each.created_at, now=now),
            _drawn_summary(output, each),
        )
        for each in sessions
    ]
    output.fitted_table(columns, rows, spare=("Model", "Turns", when))


def _drawn_summary(output: Output, session: Shown) -> str:
    star = f"{output.glyph(STAR, PLAIN_STAR)} " if session.starred else ""
    return star + _summary(session)


def _summary(session: Shown, label: str = "") -> str:
    """Return the title, preceded by the session's kind and state unless it is an ordinary one."""
    kind = "" if session.kind == "session" else session.kind
    labels = [*filter(None, (kind, "archived" if session.archived else "", label))]
    title = session.title or "(no prompt)"
    return f"[{', '.join(labels)}] {title}" if labels else title


def write_hits(output: Output, sessions: Sequence[SessionSummary], *, now: datetime) -> None:
    """Write search results: each session with its matching messages."""
    if not output.is_terminal:
        output.rows(
            (*_row(each, by_update=False), each.snippet or "", _numbers(each)) for each in sessions
        )
        return
    ids = short_ids(each.session_id for each in sessions)
    for each in sessions:
        facts = [
            f"{each.agent}:{ids[each.session_id]}",
            ago(each.created_at, now=now),
            each.model or UNKNOWN,
            session_money(each),
        ]
        output.heading("  ".join(facts))
        output.text(f"  {_drawn_summary(output, each)}")
        _draw_hits(output, each)


def _draw_hits(output: Output, session: SessionSummary) -> None:
    """Write the matching messages of a session, with the matching words highlighted."""
    if not session.hits and session.snippet and session.snippet != session.title:
        output.text(f"  {session.snippet}")
    for hit in session.hits:
        prefix = f"  {_location(hit)}  "
        shift = len(prefix)
        ranges = ((start + shift, end + shift) for start, end in hit.ranges)
        output.marked(prefix + hit.snippet, ranges)
    more = (session.hit_count or 0) - len(session.hits)
    if session.hits and more > 0:
        output.text(f"  and {count(more, 'more message')}")


def _location(hit: SearchHit) -> str:
    """Return `#12 assistant`; for a message of a sub-agent, add the id that `amux show` accepts."""
    number = "#?" if hit.message_number is None else f"#{hit.message_number}"
    words = [number, *([hit.role] if hit.role else [])]
    return " ".join([*words, *([f"in {hit.session_id}"] if hit.session_id else [])])


def _numbers(session: SessionSummary) -> str:
    """Return the numbers of the shown messages; those of sub-agents belong to other sessions."""
    numbers = (hit.message_number for hit in session.hits if hit.session_id is None)
    return ",".join(f"#{number}" for number in numbers if number is not None)
