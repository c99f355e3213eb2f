"""Changes of a followed session.

A list of messages stays equal to the session if every change is applied to it:

    message          append the message; `number` is its number
    updated-message  replace the message with this number
    replaced         remove all messages from this number on: the session was rewound or rewritten
    problem          something could not be read
    ended            the session was deleted
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from amux.model.base import Model
from amux.model.message import SessionMessage
from amux.model.problems import Problem

ChangeKind = Literal["message", "updated-message", "replaced", "problem", "ended"]


class SessionChange(Model, frozen=True, kw_only=True):
    """One change of a followed session or of one of its sub-agents.

    Numbers count the messages of one session from 1. The output of a tool is in the message of the
    tool; the tool call repeats it only if there is no such message.
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
