"""Options of the read operations. Every field is also a keyword argument of the method."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Literal

import msgspec

ListSort = Literal["date", "cost", "turns", "updated"]
SearchSort = Literal["relevance", "date", "cost"]
Direction = Literal["asc", "desc"]
GroupBy = Literal["agent", "model", "day", "week", "month", "project", "session", "tag"]
SearchRole = Literal["user", "assistant", "tool", "system", "thinking"]
ExportFormat = Literal["json", "jsonl", "markdown", "html"]

LIST_LIMIT = 100
SEARCH_LIMIT = 50
HITS_SHOWN = 3
BLOCK_HOURS = 5


class SessionListOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Filters and order of `list`. `since` and `until` are inclusive bounds of the creation."""

    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    tags: Sequence[str] | None = None
    limit: int | None = LIST_LIMIT
    sort: ListSort = "date"
    sort_direction: Direction = "desc"
    cwd: str | None = None
    include_children: bool = False
    include_archived: bool = False
    starred: bool = False


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query and filters of `search`.

    `tools`, `files`, `roles` and `errors` filter messages, the other fields filter sessions; the
    values of one field are alternatives. `said_only` excludes the input and output of tools. `hits`
    is the number of messages shown per session. Unless `exact` is set, a query without hits is
    repeated with its unknown words replaced by the most similar ones.
    """

    text: str
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    tags: Sequence[str] | None = None
    limit: int | None = SEARCH_LIMIT
    sort: SearchSort = "relevance"
    projects: Sequence[str] | None = None
    tools: Sequence[str] | None = None
    files: Sequence[str] | None = None
    roles: Sequence[SearchRole] | None = None
    errors: bool = False
    starred: bool = False
    said_only: bool = False
    hits: int | None = HITS_SHOWN
    exact: bool = True


class CostAggregationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Filters and grouping of `total_cost`."""

    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    tags: Sequence[str] | None = None
    group_by: GroupBy | Sequence[GroupBy] | None = None  # several: groups have several keys


class BlockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of `blocks`. `model` filters calls; the windows remain those of all calls."""

    agent: str | None = None
    model: str | None = None
    since: datetime | date | str | None = None
    until: datetime | date | str | None = None
    hours: int = BLOCK_HOURS


def group_names(group_by: GroupBy | Sequence[GroupBy] | None) -> tuple[GroupBy, ...]:
    """Return the groupings as a tuple; a single name may be passed as a string."""
    if group_by is None:
        return ()
    if isinstance(group_by, str):
        return (group_by,)
    return tuple(group_by)
