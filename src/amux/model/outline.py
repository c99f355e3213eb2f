"""`SessionOutline`: a session and its sub-agents, with messages that are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from amux.model.message import SessionMessage
from amux.model.session import Session


class SessionOutline(NamedTuple):
    """A session without messages, a function that reads them, and the outlines of its sub-agents.

    The `children` of `session` are empty; those of the outline are in the same order.
    """

    session: Session
    read_messages: Callable[[], Iterable[SessionMessage]]
    children: tuple[SessionOutline, ...] = ()
