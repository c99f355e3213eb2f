"""The session manager: the eight read operations of the specification. None changes anything."""

from __future__ import annotations

import builtins
import reprlib
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from amux.errors import ValidationError
from amux.model.cost import CostSummary
from amux.model.diff import SessionDiff
from amux.model.ids import NativeRef, split_unified_id, unified_id
from amux.model.options import (
    HITS_SHOWN,
    LIST_LIMIT,
    SEARCH_LIMIT,
    CostAggregationOptions,
    Direction,
    ExportFormat,
    GroupBy,
    ListSort,
    SearchRole,
    SearchSort,
    SessionListOptions,
    SessionQuery,
)
from amux.model.session import Session, SessionSummary
from amux.reading.unreadable import log_unread
from amux.sessions.options import (
    Limit,
    Moment,
    check_choice,
    check_limit,
    check_moment,
    merge_options,
)
from amux.sessions.service import SessionService

Ref = str | tuple[str, str] | Mapping[str, str]
"""A session: `"claude:abc"`, `("claude", "abc")` or `{"agent": "claude", "sessionId": "abc"}`."""


class SessionManager:
    """Read access to every session of every agent."""

    def __init__(self, service: SessionService) -> None:
        self._service = service

    def list(
        self,
        agent: str,
        options: SessionListOptions | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
        model: str | None = None,
        tags: Sequence[str] | None = None,
        limit: Limit = LIST_LIMIT,
        sort: ListSort = "date",
        sort_direction: Direction = "desc",
        cwd: str | None = None,
        include_children: bool = False,
        include_archived: bool = False,
        starred: bool = False,
    ) -> builtins.list[SessionSummary]:
        """Return summaries of an agent's sessions, newest first.

        Unreadable sources are left out; one warning in the log `amux` names them.

        Raises:
            AgentNotFoundError: No agent has that name.
            ValidationError: An option has no usable value.
        """
        self._service.registry.require(agent)
        zone = self._service.zone
        merged = merge_options(
            options,
            SessionListOptions(),
            since=check_moment(since, "since", zone=zone),
            until=check_moment(until, "until", zone=zone, end_of_day=True),
            model=model,
            tags=tags,
            limit=check_limit(limit),
            sort=sort,
            sort_direction=sort_direction,
            cwd=cwd,
            include_children=include_children,
            include_archived=include_archived,
            starred=starred,
        )
        report = self._service.list_report((agent,), merged)
        log_unread(agent, report.problems)
        return [*report.sessions]

    def get(self, agent: str, session_id: str) -> Session:
        """Return one whole session, by its id or an unambiguous prefix of it.

        Raises:
            AgentNotFoundError: No agent has that name.
            SessionNotFoundError: The agent has no such session, or several match (AMBIGUOUS_ID).
            ParseError: The session exists, but nothing in it is readable.
        """
        return self._service.get(agent, session_id)

    def search(
        self,
        query: SessionQuery | str,
        *,
        agent: str | None = None,
        since: Moment = None,
        until: Moment = None,
        model: str | None = None,
        tags: Sequence[str] | None = None,
        limit: Limit = SEARCH_LIMIT,
        sort: SearchSort = "relevance",
        projects: Sequence[str] | None = None,
        tools: Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        roles: Sequence[SearchRole] | None = None,
        errors: bool = False,
        starred: bool = False,
        said_only: bool = False,
        hits: Limit = HITS_SHOWN,
        exact: bool = True,
    ) -> builtins.list[SessionSummary]:
        """Return the sessions whose title or messages match, best first; an unknown agent has none.

        Raises:
            ValidationError: An option has no usable value. Every query text is accepted.
        """
        given = SessionQuery(text=query) if isinstance(query, str) else query
        zone = self._service.zone
        merged = merge_options(
            given,
            SessionQuery(text=given.text),
            agent=agent,
            since=check_moment(since, "since", zone=zone),
            until=check_moment(until, "until", zone=zone, end_of_day=True),
            model=model,
            tags=tags,
            limit=check_limit(limit),
            sort=sort,
            projects=projects,
            tools=tools,
            files=files,
            roles=roles,
            errors=errors,
            starred=starred,
            said_only=said_only,
            hits=check_limit(hits, "hits"),
            exact=exact,
        )
        return [*self._service.search_report(merged).sessions]

    def total_cost(
        self,
        options: CostAggregationOptions | None = None,
        *,
        agent: str | None = None,
        since: Moment = None,
        until: Moment = None,
        model: str | None = None,
        tags: Sequence[str] | None = None,
        group_by: GroupBy | Sequence[GroupBy] | None = None,
    ) -> CostSummary:
        """Return the cost and tokens of all matching sessions; every billed call counts once.

        Several groupings make groups with several keys, for example one for each day and model.
        """
        zone = self._service.zone
        merged = merge_options(
            options,
            CostAggregationOptions(),
            agent=agent,
            since=check_moment(since, "since", zone=zone),
            until=check_moment(until, "until", zone=zone, end_of_day=True),
            model=model,
            tags=tags,
            group_by=group_by,
        )
        return self._service.total_cost(merged)

    def export(
        self, agent: str, session_id: str, format: ExportFormat, *, title: str | None = None
    ) -> str:
        """Return a session as json, jsonl, markdown or html. Raises the errors of `get`.

        `title` replaces the session's own title as the heading of a markdown or html text.
        """
        from amux.render import exporter

        check_choice(format, get_args(ExportFormat), "format")
        render = exporter(format, title=title)
        return "".join(render(*self._service.stream(agent, session_id)))

    def diff(self, a: Ref, b: Ref) -> SessionDiff:
        """Return the differences between two sessions. Raises the errors of `get`."""
        from amux.sessions.diff import diff_sessions

        one, other = (self._service.get(*_reference(ref)) for ref in (a, b))
        return diff_sessions(one, other)

    def resolve_unified_id(self, agent: str, native_session_id: str) -> str:
        """Return `<agent>:<native id>`, without checking that the session exists."""
        return unified_id(agent, native_session_id)

    def resolve_native_id(self, unified_id: str) -> NativeRef | None:
        """Return the parts of a unified id; None if a part is empty or the agent is unknown."""
        parts = split_unified_id(unified_id)
        if parts is None or not self._service.registry.knows(parts[0]):
            return None
        return NativeRef(agent=parts[0], native_session_id=parts[1])


def _reference(ref: object) -> tuple[str, str]:
    """Return the agent and the id that a reference names; the caller may have passed anything."""
    shown, parts = reprlib.repr(ref), ref
    if isinstance(ref, str):
        parts = split_unified_id(ref)
        if parts is None:
            raise ValidationError(f"`{ref}` is not a unified id", hint="write <agent>:<id>")
    elif isinstance(ref, Mapping):
        given = cast("Mapping[str, object]", ref)
        parts = given.get("agent"), given.get("sessionId") or given.get("session_id")
    match parts:
        case (str() as agent, str() as session_id):
            return agent, session_id
        case _:
            raise ValidationError(
                f"`{shown}` does not name a session",
                hint='write "<agent>:<id>", (agent, id) or {"agent": agent, "sessionId": id}',
            )
