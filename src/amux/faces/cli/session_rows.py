"""Sessions as rows: short and relative for people, whole and exact for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from amux.faces.cli.figures import UNKNOWN, money, short_ids
from amux.faces.cli.output import Column, Output
from amux.faces.cli.times import ago, rfc3339

if TYPE_CHECKING:
    from amux.model.session import SessionSummary
    from amux.sessions.quick import QuickSummary

    Shown = SessionSummary | QuickSummary

MODEL_WIDTH = 20
STAR, PLAIN_STAR = "\u2605", "*"


def write_sessions(
    output: Output,
    sessions: Sequence[Shown],
    *,
    now: datetime,
    by_update: bool = False,
) -> None:
    """Draw a table on a terminal, write rows elsewhere; `by_update` shows the last change."""
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
        money(session.cost),
        rfc3339(session.updated_at if by_update else session.created_at),
        _summary(session, "starred" if session.starred else None),
    )


def _draw(output: Output, sessions: Sequence[Shown], *, now: datetime, by_update: bool) -> None:
    ids = short_ids(each.session_id for each in sessions)
    with_agent = len({each.agent for each in sessions}) > 1
    columns = [
        *([Column("Agent")] if with_agent else []),
        Column("Session ID", style="cyan"),
        Column("Model", widest=MODEL_WIDTH),
        Column("Turns", is_number=True),
        Column("Cost", is_number=True),
        Column("Updated" if by_update else "Date"),
        Column("Summary", grows=True),
    ]
    output.table(
        columns,
        (
            (
                *([each.agent] if with_agent else []),
                ids[each.session_id],
                each.model or UNKNOWN,
                f"{each.turn_count:,}",
                money(each.cost),
                ago(each.updated_at if by_update else each.created_at, now=now),
                _drawn_summary(output, each),
            )
            for each in sessions
        ),
    )


def _drawn_summary(output: Output, session: Shown) -> str:
    star = f"{output.glyph(STAR, PLAIN_STAR)} " if session.starred else ""
    return star + _summary(session)


def _summary(session: Shown, *words: str | None) -> str:
    """The title, with words before it when the session is not an ordinary one."""
    marks: list[str] = [session.kind] if session.kind != "session" else []
    marks += ["archived"] if session.archived else []
    marks += [word for word in words if word]
    title = session.title or "(no prompt)"
    return f"[{', '.join(marks)}] {title}" if marks else title


def write_hits(output: Output, sessions: Sequence[SessionSummary], *, now: datetime) -> None:
    """Search results: the sessions, and below each the words that were found."""
    if not output.is_terminal:
        output.rows((*_row(each, by_update=False), each.snippet or "") for each in sessions)
        return
    ids = short_ids(each.session_id for each in sessions)
    for each in sessions:
        facts = [
            f"{each.agent}:{ids[each.session_id]}",
            ago(each.created_at, now=now),
            each.model or UNKNOWN,
            money(each.cost),
        ]
        output.heading("  ".join(facts))
        output.text(f"  {_drawn_summary(output, each)}")
        if each.snippet and each.snippet != each.title:
            output.text(f"  {each.snippet}")
