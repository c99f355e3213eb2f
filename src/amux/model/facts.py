"""`Facts`: the data of one session in one source, without message bodies.

Adapters produce facts. The facts of all sources are then assembled into sessions, and every call is
assigned to exactly one session.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from amux.model.base import Model
from amux.model.problems import Problem
from amux.model.trace import Trace
from amux.model.usage import Call, Tokens

Kind = Literal["session", "fork", "continuation", "subagent"]


class Prefix(Model, frozen=True, kw_only=True):
    """History stored by reference: the lines of `of` whose trace key is below `until`."""

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
    """One session according to one source. Repeated records of a call are merged in `calls`."""

    session_id: str
    aliases: tuple[str, ...] = ()
    namespace: str = ""  # namespace of the id: the channel or the agent's own profile
    kind: Kind = "session"  # as recorded in the source
    copy_kind: Literal["fork", "continuation"] = "fork"  # the kind if it turns out to hold copies
    parent: str | None = None  # recorded parent: of a subagent, fork or continuation
    cwd: str | None = None
    name: str | None = None  # title given by the user or by the agent
    first_prompt: str | None = None  # first genuine prompt, folded as a title
    fallback_title: str | None = None  # used if both are missing: e.g. the slash command
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: str | None = None  # last recorded version of the agent
    archived: bool = False
    addressable: bool = True  # False: a nested part without an id that a user could type
    attributed: bool = True  # False: billed calls of no session (warm-ups); never listed
    trace: Trace = Trace()
    calls: tuple[Call, ...] = ()
    models: tuple[str, ...] = ()  # of messages without a call of their own, in order of appearance
    copy_keys: bytes = (
        b""  # int64 keys of content that only a copy can share (message ids, call ids)
    )
    unnamed_copies: bool = False  # may hold copies from sessions it does not name
    prefix: Prefix | None = None
    rollout: str | None = None  # id of this source's log if one session has several
    fragment: bool = False  # other sources may hold further fragments of the same session
    children: tuple[str, ...] = ()  # ids of the sub-agents recorded in the source
    compactions: int = 0
    gaps: tuple[str, ...] = ()  # further reasons why usage is incomplete, besides `Call.gaps`
    native_nusd: int | None = None  # the agent's own total for this session with its sub-agents
    native_tokens: dict[str, Tokens] | None = None  # by model, what it covers; None: unknown
    notes: tuple[TitleNote, ...] = ()
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    raw: dict[str, Any] = {}
