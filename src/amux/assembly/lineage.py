"""Resolves which session descends from which, and which session a copied call belongs to.

Agents copy history: forks, resumes and rewinds repeat earlier records in a new file, often without
a link to the original. Sessions are related if one names the other as its parent, if both name the
same parent, which may be gone, or if both contain content that only a copy can share (message ids,
call ids). Among related sessions, calls with equal keys are one billed call. It belongs to

1. a recorded ancestor of the others, or the session that started a sub-agent;
2. else the session with the earliest record of it;
3. else a session whose record is not marked as a copy;
4. else the session whose own lines (those in no related session) begin first, or that has none.

Calls cannot replace lines in the last rule: a session may be resumed after a fork was continued.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from amux.assembly.session import AssembledSession, IgnoredCall, SessionNames
from amux.model.ids import unified_id
from amux.model.usage import Call

_NEVER = float("inf")


def resolve_lineage(sessions: Sequence[AssembledSession]) -> None:
    """Find parents that no record names, and assign every call to one session."""
    names = SessionNames(sessions)
    for session in sessions:
        parent = names.find(session.parent, session)
        if parent is not None and parent is not session:
            session.parent = parent.session_id  # the record may use another of its names
    for family in _families(sessions, names):
        if len(family) == 1:
            family[0].calls = _distinct_calls(family[0])
        else:
            _Family(family, names).assign_calls()


def _families(
    sessions: Sequence[AssembledSession], names: SessionNames
) -> list[list[AssembledSession]]:
    """Return the groups of sessions connected by recorded parents or shared copy keys."""
    if len(sessions) == 1:
        return [list(sessions)]
    leader = list(range(len(sessions)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    position = {id(session): index for index, session in enumerate(sessions)}
    first_with: dict[int, int] = {}
    first_of: dict[tuple[str, str], int] = {}  # the first that names a parent, which may be gone
    for index, session in enumerate(sessions):
        if session.kind != "subagent" and session.parent is not None:
            parent = names.find(session.parent, session)
            holder = first_of.setdefault((session.facts.namespace, session.parent), index)
            leader[find(index)] = find(holder if parent is None else position[id(parent)])
        for key in _copy_keys(session):
            first = first_with.setdefault(key, index)
            if first != index:
                leader[find(index)] = find(first)
    groups: dict[int, list[AssembledSession]] = {}
    for index, session in enumerate(sessions):
        groups.setdefault(find(index), []).append(session)
    return list(groups.values())


def _copy_keys(session: AssembledSession) -> set[int]:
    return set[int]().union(*(array("q", part.facts.copy_keys) for part in session.sources))


def _distinct_calls(session: AssembledSession) -> list[Call]:
    """Return the calls of all sources without the duplicates; the primary source comes first."""
    if len(session.sources) == 1:
        return list(session.facts.calls)
    distinct: dict[str, Call] = {}
    for part in (session.primary, *session.sources):
        for call in part.facts.calls:
            distinct.setdefault(call.key, call)
    return list(distinct.values())


class _Family:
    """Related sessions: determines their parents and the owner of each call."""

    def __init__(self, members: list[AssembledSession], names: SessionNames) -> None:
        self.members = members
        self.names = names

    @cached_property
    def starts(self) -> dict[int, float]:
        """Return by `id()` when the lines begin that only this member has; 0.0 if it has none."""
        holders: Counter[int] = Counter()
        lines: dict[int, dict[int, int]] = {}
        for member in self.members:
            times = lines[id(member)] = dict[int, int]()
            for part in member.sources:
                trace = part.facts.trace
                for key, at in zip(trace.key_list(), trace.time_list(), strict=True):
                    times.setdefault(key, at)
            holders.update(times.keys())
        return {
            member: min((at for key, at in times.items() if at and holders[key] == 1), default=0.0)
            for member, times in lines.items()
        }

    def assign_calls(self) -> None:
        """Find unrecorded parents, then assign each call to its owner."""
        copy_keys = {id(member): _copy_keys(member) for member in self.members}
        for member in self.members:
            if _may_be_copy(member):
                self._find_parent(member, copy_keys)
        self._distribute_calls()

    def _find_parent(self, member: AssembledSession, copy_keys: dict[int, set[int]]) -> None:
        """Set the parent: the older session sharing the most content, with the least of its own."""
        own, own_order = copy_keys[id(member)], self._order(member)
        best: tuple[int, int] | None = None
        for other in self.members:
            if other is member or other.kind == "subagent" or self._order(other) >= own_order:
                continue
            if self._descends(other, member):
                continue  # contradicts a parent recorded or found before
            shared = len(own & copy_keys[id(other)])
            rank = (shared, shared - len(copy_keys[id(other)]))
            if shared and (best is None or rank > best):
                best = rank
                member.parent, member.kind = other.session_id, member.facts.copy_kind

    def _descends(self, session: AssembledSession, ancestor: AssembledSession) -> bool:
        """Return whether a session descends from another over any number of generations."""
        seen: set[int] = set()
        current: AssembledSession | None = session
        while current is not None and id(current) not in seen:
            if current is ancestor:
                return True
            seen.add(id(current))
            current = self.names.find(current.parent, current)
        return False

    def _order(self, member: AssembledSession) -> tuple[float, float, str]:
        created = member.facts.created_at
        return (
            self.starts[id(member)],
            created.timestamp() if created else _NEVER,
            member.session_id,
        )

    def _holders(self) -> dict[str, list[tuple[AssembledSession, Call]]]:
        """Return the members with a record of each call, by the key of the call."""
        holders: dict[str, list[tuple[AssembledSession, Call]]] = {}
        for member in self.members:
            for call in _distinct_calls(member):
                holders.setdefault(call.key, []).append((member, call))
        return holders

    def _distribute_calls(self) -> None:
        for candidates in self._holders().values():
            owner = candidates[0][0] if len(candidates) == 1 else self._owner(candidates)
            owner.calls.append(_fullest(owner, candidates))
            name = unified_id(owner.agent, owner.session_id)
            for member, call in candidates:
                if member is not owner:
                    member.ignored.append(IgnoredCall(call=call, owner=name))

    def _owner(self, candidates: list[tuple[AssembledSession, Call]]) -> AssembledSession:
        originals = self._originals(candidates)
        if len(originals) == 1:
            return originals[0][0]
        return min(originals, key=lambda each: (*self._priority(each), self._order(each[0])))[0]

    def _originals(
        self, candidates: list[tuple[AssembledSession, Call]]
    ) -> list[tuple[AssembledSession, Call]]:
        """Return the candidates with no candidate among their ancestors; all if in a cycle."""
        holders = {id(member) for member, _ in candidates}
        originals = [
            candidate
            for candidate in candidates
            if not any(id(ancestor) in holders for ancestor in self._ancestors(candidate[0]))
        ]
        return originals or candidates

    @staticmethod
    def _priority(candidate: tuple[AssembledSession, Call]) -> tuple[float, bool]:
        _, call = candidate
        return call.at.timestamp() if call.at else _NEVER, call.copied

    def _ancestors(self, member: AssembledSession) -> Iterable[AssembledSession]:
        """Yield the recorded ancestors only: the others were derived from the calls.

        The session that started a sub-agent is one: the sub-agent may begin with its history.
        """
        seen = {id(member)}
        current = member
        while current.facts.parent:
            parent = self.names.find(current.facts.parent, current)
            if parent is None or id(parent) in seen:
                return
            seen.add(id(parent))
            yield parent
            current = parent


def _may_be_copy(member: AssembledSession) -> bool:
    return member.kind == "session" and member.parent is None and member.facts.unnamed_copies


def _fullest(owner: AssembledSession, candidates: list[tuple[AssembledSession, Call]]) -> Call:
    """Return the owner's record with the final figures, which only a copy may have."""
    own = next(call for member, call in candidates if member is owner)
    best = max((call for _, call in candidates), key=lambda call: call.tokens.output)
    if best.tokens.output <= own.tokens.output:
        return own
    return msgspec.structs.replace(own, tokens=best.tokens, gaps=best.gaps)
