"""What a followed session tells while it grows.

A list of the messages told so far stays equal to the session when every change is applied to it:

    message          the message at this number, one behind the last
    updated-message  the message at this number reads differently now
    replaced         what was told from this number on no longer holds: rewound or rewritten
    problem          something could not be read
    ended            the session is gone: deleted by its agent or by a person
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from amux.model.base import Model
from amux.model.message import SessionMessage
from amux.model.problems import Problem

ChangeKind = Literal["message", "updated-message", "replaced", "problem", "ended"]


class SessionChange(Model, frozen=True, kw_only=True):
    """One thing that happened to a followed session or to a sub-agent of it.

    Numbers count the messages of one session from 1. What a tool gave back stands in the message
    of the tool; its call repeats it only when there is no such message.
    """

    kind: ChangeKind
    agent: str
    session_id: str
    unified_id: str
    at: datetime  # when it was noticed, not when it was written
    number: int | None = None
    message: SessionMessage | None = None
    problem: Problem | None = None
    parent: str | None = None  # of a sub-agent: the session that started it
