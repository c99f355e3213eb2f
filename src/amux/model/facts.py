"""What an adapter says of one session in one source, without bodies.

`sessions/assemble.py` joins the facts of all sources into sessions and gives every call to one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from amux.model.base import Model
from amux.model.problems import Problem
from amux.model.trace import Trace
from amux.model.usage import Call

Kind = Literal["session", "fork", "continuation", "subagent"]


class Prefix(Model, frozen=True, kw_only=True):
    """History kept by reference: everything of `of` whose trace key is below `until`."""

    of: str  # a session id, alias or rollout id
    until: int


class TitleNote(Model, frozen=True, kw_only=True):
    """A title or a working directory found in one source for a session of another one.

    Either `session_id` names the session, or `entry` is the trace key of a line it holds.
    """

    text: str = ""
    session_id: str | None = None
    entry: int | None = None
    cwd: str | None = None


class Facts(Model, frozen=True, kw_only=True):
    """One session as far as one source tells. `calls` are settled within the source."""

    session_id: str
    aliases: tuple[str, ...] = ()
    place: str = ""  # tells sessions of equal ids apart: the channel, the agent's own profile
    kind: Kind = "session"  # what the source itself says
    copy_kind: Literal["fork", "continuation"] = "fork"  # what it is if it turns out to hold copies
    parent: str | None = None  # recorded parent: of a subagent, fork or continuation
    cwd: str | None = None
    name: str | None = None  # title given by a person or by the agent
    first_prompt: str | None = None  # first genuine prompt, folded as a title
    fallback_title: str | None = None  # when there is neither: e.g. the slash command
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: str | None = None  # of the agent, last seen
    archived: bool = False
    addressable: bool = True  # False: a nested part without an id a person could type
    attributed: bool = True  # False: billed calls of no session (warm-ups); never listed
    trace: Trace = Trace()
    calls: tuple[Call, ...] = ()
    models: tuple[str, ...] = ()  # of messages without a call of their own, in order of appearance
    identity: bytes = (
        b""  # int64 keys of content that only a copy can share (message ids, call ids)
    )
    unnamed_copies: bool = False  # may hold copies from sessions it does not name
    prefix: Prefix | None = None
    rollout: str | None = None  # id of this source's log, when one session has several
    fragment: bool = False  # other sources may hold more of the conversation: all are one
    children: tuple[str, ...] = ()  # ids of sub-agents the source names
    compactions: int = 0
    gaps: tuple[str, ...] = ()  # why usage is incomplete beyond what the calls say
    native_nusd: int | None = None  # the agent's own total for this session, sub-agents included
    notes: tuple[TitleNote, ...] = ()
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    raw: dict[str, Any] = {}
