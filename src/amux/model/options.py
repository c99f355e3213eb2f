"""Options objects of the read operations; every field is also a keyword of the method."""

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
    """Filters and order of `list`. `since` and `until` are inclusive bounds on creation."""

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
    """What `search` looks for.

    The fields narrow down what `text` asks for. `tools`, `files`, `roles` and `errors` choose
    messages, the others sessions; the values of one field are alternatives. With `said_only`, what
    tools were given and gave back is not looked at. `hits` is how many messages are shown of a
    session. Unless `exact`, a query without any hit is tried again with
    its unknown words replaced by those most like them.
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
    """Which sessions `total_cost` sums and how it groups them."""

    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    tags: Sequence[str] | None = None
    group_by: GroupBy | Sequence[GroupBy] | None = None  # several make groups of several keys


class BlockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which blocks are wanted. `model` chooses calls; the windows stay those of all calls."""

    agent: str | None = None
    model: str | None = None
    since: datetime | date | str | None = None
    until: datetime | date | str | None = None
    hours: int = BLOCK_HOURS


def group_names(group_by: GroupBy | Sequence[GroupBy] | None) -> tuple[GroupBy, ...]:
    """The groupings asked for, in order; a lone name is a text, not a sequence of letters."""
    if group_by is None:
        return ()
    if isinstance(group_by, str):
        return (group_by,)
    return tuple(group_by)
