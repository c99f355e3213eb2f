"""Filters of a search: which sessions are searched, and which of their messages can be hits.

    agent:claude  project:shop  model:opus  tag:x  since:7d  until:2026-11-01  is:starred   sessions
    tool:Bash  file:src/x.py  role:user  is:error                                           messages

A filter applies to the whole query, wherever it is written. Several filters of one kind are
alternatives, filters of different kinds must all match, and negated ones (`-tool:Bash`) must not
match. The fields of a `SessionQuery` are filters too; they further restrict the query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Final, Literal, cast, get_args

from amux.model.options import SearchRole, SessionQuery
from amux.model.when import parse_when
from amux.model.words import fold

SessionKind = Literal["agent", "project", "model", "tag", "since", "until", "starred"]
MessageKind = Literal["tool", "file", "role", "error"]
Kind = SessionKind | MessageKind

KEYS: Final = ("agent", "project", "model", "tool", "file", "role", "is", "since", "until", "tag")
"""The keys that are allowed before the colon."""

_MESSAGE_KINDS: Final[frozenset[str]] = frozenset(get_args(MessageKind))
_SELECTIVE: Final[frozenset[str]] = _MESSAGE_KINDS | {"project", "starred"}
_STATES: Final[dict[str, Kind]] = {"error": "error", "starred": "starred"}
_ALLOWED: Final[dict[str, Collection[str]]] = {"is": _STATES, "role": get_args(SearchRole)}


@dataclass(frozen=True)
class Condition:
    """One filter. `value` is folded unless `exact`; `since` and `until` have a `moment` instead."""

    kind: Kind
    value: str = ""
    moment: datetime | None = None
    exact: bool = False


@dataclass(frozen=True)
class Clause:
    """All filters of one kind: any of the wanted must match, if there are any, and no unwanted."""

    kind: Kind
    wanted: tuple[Condition, ...] = ()
    unwanted: tuple[Condition, ...] = ()

    def admits(self, matches: Callable[[Condition], bool]) -> bool:
        """Return whether an item passes, given which conditions it matches."""
        if self.wanted and not any(map(matches, self.wanted)):
            return False
        return not any(map(matches, self.unwanted))


@dataclass(frozen=True)
class Filters:
    """Clauses that must all be passed; without clauses everything passes."""

    clauses: tuple[Clause, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.clauses)

    def __and__(self, other: Filters) -> Filters:
        return Filters((*self.clauses, *other.clauses))

    @cached_property
    def of_sessions(self) -> tuple[Clause, ...]:
        """The clauses that select sessions."""
        return tuple(each for each in self.clauses if each.kind not in _MESSAGE_KINDS)

    @cached_property
    def of_messages(self) -> tuple[Clause, ...]:
        """The clauses that select messages."""
        return tuple(each for each in self.clauses if each.kind in _MESSAGE_KINDS)

    @property
    def is_selective(self) -> bool:
        """Whether they suffice for a query without words; those that `list` has too do not."""
        return any(each.kind in _SELECTIVE for each in self.clauses)

    def admits_agent(self, agent: str) -> bool:
        """Return whether any session of an agent can pass."""
        of_agents = (each for each in self.clauses if each.kind == "agent")
        return all(each.admits(lambda condition: is_agent(agent, condition)) for each in of_agents)

    def named_agents(self) -> tuple[str, ...]:
        """Return the agents that are named by a wanted condition."""
        of_agents = (each for each in self.clauses if each.kind == "agent")
        return tuple(condition.value for each in of_agents for condition in each.wanted)


NO_FILTERS: Final = Filters()


def is_agent(agent: str, condition: Condition) -> bool:
    """Return whether a condition names an agent."""
    return fold(agent) == condition.value


def gather(conditions: Iterable[tuple[Condition, bool]]) -> Filters:
    """Return filters from conditions in order, each with whether it is negated."""
    wanted: dict[Kind, list[Condition]] = {}
    unwanted: dict[Kind, list[Condition]] = {}
    for condition, is_negated in conditions:
        (unwanted if is_negated else wanted).setdefault(condition.kind, []).append(condition)
    kinds = dict.fromkeys((*wanted, *unwanted))
    return Filters(
        tuple(
            Clause(kind, tuple(wanted.get(kind, ())), tuple(unwanted.get(kind, ())))
            for kind in kinds
        )
    )


def read_condition(key: str, value: str, *, now: datetime, zone: tzinfo | None) -> Condition | str:
    """Return the condition that `key:value` stands for, or the reason why it has none."""
    folded = fold(value).strip()
    if not folded:
        return "has no value"
    allowed = _ALLOWED.get(key)
    if allowed is not None and folded not in allowed:
        return f"is not one of {', '.join(f'`{key}:{each}`' for each in allowed)}"
    if key == "is":
        return Condition(_STATES[folded])
    if key not in {"since", "until"}:
        return Condition(cast("Kind", key), folded)
    try:
        moment = parse_when(value, now=now, is_end=key == "until", zone=zone)
    except ValueError:
        return "has no time such as 7d, yesterday or 2026-11-01"
    return Condition(cast("Kind", key), moment=moment)


def filters_of(query: SessionQuery) -> Filters:
    """Return the filters in the fields of a query. Models and tags must be equal to these."""
    conditions: list[Condition] = []
    if query.agent is not None:
        conditions.append(Condition("agent", fold(query.agent)))
    moments: dict[Kind, datetime | None] = {"since": query.since, "until": query.until}
    conditions += [Condition(kind, moment=at) for kind, at in moments.items() if at is not None]
    if query.model is not None:
        conditions.append(Condition("model", query.model, exact=True))
    conditions += [Condition("tag", tag, exact=True) for tag in query.tags or ()]
    lists: dict[Kind, Sequence[str] | None] = {
        "project": query.projects,
        "tool": query.tools,
        "file": query.files,
        "role": query.roles,
    }
    for kind, values in lists.items():
        conditions += [Condition(kind, fold(value).strip()) for value in values or ()]
    if query.errors:
        conditions.append(Condition("error"))
    if query.starred:
        conditions.append(Condition("starred"))
    return gather((condition, False) for condition in conditions)
