"""`export_html`: the page of an entry log that is at hand as bytes, or of any session.

The bytes are read, assembled and priced as those of a file that an agent has written, so the page
is the one that `client.sessions.export` gives for that file.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._base import SourceRef
from amux.adapters.agent import NAME
from amux.adapters.agent.log import read_log_bytes
from amux.assembly.assemble import assemble
from amux.assembly.cost import CostCalculator
from amux.assembly.session import SourceSession
from amux.assembly.summary import full_session
from amux.errors import ValidationError
from amux.model.facts import Facts
from amux.model.ids import unified_id
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.session import Session
from amux.model.when import to_utc
from amux.pricing.registry import ModelRegistry
from amux.reading.messages import with_tool_results
from amux.render import render
from amux.run_index import RunIndex

_SOURCE: Final = Path("entry-log.jsonl")
"""Stands for the file of a log that is given as bytes; its name is the id of a log without one."""


def export_html(
    data: bytes | Session,
    *,
    title: str | None = None,
    session_id: str | None = None,
    cwd: str | None = None,
    created: datetime | str | None = None,
) -> str:
    """Return a self-contained HTML page of an entry log or of a session.

    The other arguments replace what the log says. An entry log has no title: without `title`, its
    page is called "Agent Session". Lines that cannot be read are listed on the page.

    Raises:
        ValidationError: `created` is not a time.
    """
    session = data if isinstance(data, Session) else _read_session(data)
    changes: dict[str, Any] = {"title": title, "cwd": cwd}
    if session_id is not None:
        changes |= {"session_id": session_id, "unified_id": unified_id(session.agent, session_id)}
    if created is not None:
        changes["created_at"] = _moment(created)
    given = {name: value for name, value in changes.items() if value is not None}
    return render(msgspec.structs.replace(session, **given), "html")


def _moment(value: datetime | str) -> datetime:
    try:
        return to_utc(datetime.fromisoformat(value) if isinstance(value, str) else value)
    except ValueError as error:
        raise ValidationError(
            f"`{value}` is not a time",
            fields=("created",),
            hint="give a datetime, or a text such as `2026-02-26T14:30:12Z`",
        ) from error


def _read_session(data: bytes) -> Session:
    """Return the session in the bytes of an entry log, without a title."""
    items = list(read_log_bytes(data, _SOURCE))
    facts = next((item for item in items if isinstance(item, Facts)), None)
    if facts is None:
        return _without_entries([item for item in items if isinstance(item, Problem)])
    source = SourceRef(agent=NAME, path=_SOURCE, root=_SOURCE.parent)
    (session,) = assemble(NAME, [SourceSession(facts, source)]).sessions
    messages = [item for item in items if isinstance(item, SessionMessage)]
    costs = CostCalculator(ModelRegistry(), RunIndex())
    found = full_session(session, with_tool_results(messages), cost=costs.cost_of(session))
    return msgspec.structs.replace(found, title="")


def _without_entries(problems: list[Problem]) -> Session:
    unknown = datetime.fromtimestamp(0, UTC)
    return Session(
        agent=NAME,
        session_id=_SOURCE.stem,
        unified_id=unified_id(NAME, _SOURCE.stem),
        title="",
        created_at=unknown,
        updated_at=unknown,
        turn_count=0,
        tags=(),
        messages=(),
        problems=tuple(problems),
    )
