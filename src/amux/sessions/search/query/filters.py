"""Filters of a search: which sessions are looked at, and which of their messages can be hits.

    agent:claude  project:shop  model:opus  tag:x  since:7d  until:2026-11-01  is:starred   sessions
    tool:Bash  file:src/x.py  role:user  is:error                                           messages

A filter holds for the whole query, wherever it stands in it. Several of one kind are alternatives,
different kinds must all fit, negated ones (`-tool:Bash`) must all not fit. The fields of a
`SessionQuery` are filters too; they narrow down what the text of the query says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
"""What may stand before the colon."""

_MESSAGE_KINDS: Final[frozenset[str]] = frozenset(get_args(MessageKind))
_SELECTIVE: Final[frozenset[str]] = _MESSAGE_KINDS | {"project", "starred"}
_STATES: Final[dict[str, Kind]] = {"error": "error", "starred": "starred"}
_ROLES: Final[tuple[str, ...]] = get_args(SearchRole)


@dataclass(frozen=True)
class Condition:
    """One filter. `value` is folded unless `exact`; `since` and `until` have a `moment` instead."""

    kind: Kind
    value: str = ""
    moment: datetime | None = None
    exact: bool = False


@dataclass(frozen=True)
class Clause:
    """All filters of one kind: one of the wanted must fit, if there are any, and no unwanted."""

    kind: Kind
    wanted: tuple[Condition, ...] = ()
    unwanted: tuple[Condition, ...] = ()

    def admits(self, holds: Callable[[Condition], bool]) -> bool:
        """Whether something passes of which `holds` knows everything."""
        if self.wanted and not any(holds(condition) for condition in self.wanted):
            return False
        return not any(holds(condition) for condition in self.unwanted)


@dataclass(frozen=True)
class Filters:
    """Clauses that must all hold; none of them lets everything pass."""

    clauses: tuple[Clause, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.clauses)

    def __and__(self, other: Filters) -> Filters:
        return Filters((*self.clauses, *other.clauses))

    @cached_property
    def of_sessions(self) -> tuple[Clause, ...]:
        """Those that choose sessions."""
        return tuple(each for each in self.clauses if each.kind not in _MESSAGE_KINDS)

    @cached_property
    def of_messages(self) -> tuple[Clause, ...]:
        """Those that choose messages."""
        return tuple(each for each in self.clauses if each.kind in _MESSAGE_KINDS)

    @property
    def is_selective(self) -> bool:
        """Whether they make a query without words; the filters that `list` has too do not."""
        return any(each.kind in _SELECTIVE for each in self.clauses)

    def admits_agent(self, agent: str) -> bool:
        """Whether any session of that agent can pass."""
        if not self.clauses:
            return True
        of_agents = (each for each in self.clauses if each.kind == "agent")
        return all(each.admits(lambda condition: is_agent(agent, condition)) for each in of_agents)

    def named_agents(self) -> tuple[str, ...]:
        """The agents that are asked for by name."""
        of_agents = (each for each in self.clauses if each.kind == "agent")
        return tuple(condition.value for each in of_agents for condition in each.wanted)


NO_FILTERS: Final = Filters()


def is_agent(agent: str, condition: Condition) -> bool:
    """Whether the condition names that agent."""
    return fold(agent) == condition.value


def gather(conditions: Iterable[tuple[Condition, bool]]) -> Filters:
    """Filters from single conditions, each with whether it is negated, in order of appearance."""
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
    """The filter that `key:value` stands for, or why it can be none."""
    folded = fold(value).strip()
    if not folded:
        return "has no value"
    match key:
        case "since" | "until":
            return _read_time(cast("Kind", key), value, now=now, zone=zone)
        case "is":
            kind = _STATES.get(folded)
            return f"is not one of {_listed('is', _STATES)}" if kind is None else Condition(kind)
        case "role":
            if folded not in _ROLES:
                return f"is not one of {_listed('role', _ROLES)}"
            return Condition("role", folded)
        case _:
            return Condition(cast("Kind", key), folded)


def _read_time(kind: Kind, value: str, *, now: datetime, zone: tzinfo | None) -> Condition | str:
    try:
        moment = parse_when(value, now=now, is_end=kind == "until", zone=zone)
    except ValueError:
        return "has no time such as 7d, yesterday or 2026-11-01"
    return Condition(kind, moment=moment)


def _listed(key: str, values: Iterable[str]) -> str:
    return ", ".join(f"`{key}:{value}`" for value in values)


def filters_of(query: SessionQuery) -> Filters:
    """What the fields of a query object ask for. Models and tags are meant to the letter there."""
    conditions: list[Condition] = []
    if query.agent is not None:
        conditions.append(Condition("agent", fold(query.agent)))
    if query.since is not None:
        conditions.append(Condition("since", moment=query.since))
    if query.until is not None:
        conditions.append(Condition("until", moment=query.until))
    if query.model is not None:
        conditions.append(Condition("model", query.model, exact=True))
    conditions += [Condition("tag", tag, exact=True) for tag in query.tags or ()]
    lists: tuple[tuple[Kind, Sequence[str] | None], ...] = (
        ("project", query.projects),
        ("tool", query.tools),
        ("file", query.files),
        ("role", query.roles),
    )
    for kind, values in lists:
        conditions += [Condition(kind, fold(value).strip()) for value in values or ()]
    if query.errors:
        conditions.append(Condition("error"))
    if query.starred:
        conditions.append(Condition("starred"))
    return gather((condition, False) for condition in conditions)
