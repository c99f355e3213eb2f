"""`AmuxSessionRepository`: Strands Agents keeps its sessions in an amux store.

    from strands import Agent
    from strands.session.repository_session_manager import RepositorySessionManager
    from amux.integrations.strands import AmuxSessionRepository

    repository = AmuxSessionRepository("~/.myagent")
    manager = RepositorySessionManager("user-17", repository)
    agent = Agent(session_manager=manager)

A session is a thread with the messages of the agent "default", the name that an agent has unless it
is given another; other agents have child threads. A message is a record, the states of agents and
of multi-agents are registers, and an update of a message is a correction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_args

try:
    from strands.session.session_repository import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage, decode_bytes_values
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "Strands Agents", "strands") from error

from amux.errors import ConflictError, SessionNotFoundError, TitleInUseError, ValidationError
from amux.integrations._common import (
    StoreAddress,
    check_choice,
    create,
    head_of,
    open_store,
    retrying,
)
from amux.rollout import control
from amux.rollout.log import Repeat
from amux.rollout.records import NewRecord, Record, as_mapping
from amux.rollout.view import visible
from amux.store.session_store import SessionStore
from amux.store.turns import Turn

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

T = TypeVar("T")

NAMESPACE: Final = "strands"
FORMAT: Final = "strands"

OnRedact = Literal["keep", "erase"]
"""The fate of the original of a redacted message: only amux keeps it, or it is removed for good."""

_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(SessionMessage))
_DEFAULT: Final = "default"
_AGENT: Final = "agent"
_MULTI_AGENT: Final = "multi_agent"


class AmuxSessionRepository(SessionRepository):
    """Sessions of Strands Agents in a directory, a database or an open store.

    Several processes may use one session; `begin_turn` keeps them from running it at the same time.
    """

    def __init__(self, store: StoreAddress, *, on_redact: OnRedact = "keep", **meta: Any) -> None:
        """Open a repository; nothing is read or created before the first use.

        `meta` are fields of new threads, such as `user_id`, `cwd` and `model`: the messages of
        Strands do not name the model, which the cost depends on.
        """
        check_choice("on_redact", on_redact, get_args(OnRedact))
        self.store = open_store(store)
        self._owns_store = not isinstance(store, SessionStore)
        self._log = self.store.log
        self._erases = on_redact == "erase"
        self._meta = meta
        self._agents: dict[tuple[str, str], str] = {}  # threads of agents that were seen

    # sessions

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session; raise `SessionException` if it exists."""
        del kwargs
        extra = {"session": session.to_dict()}
        try:
            self._create((session.session_id,), extra=extra)
        except ConflictError as error:
            raise SessionException(f"Session {session.session_id} already exists") from error
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session; None if there is none."""
        del kwargs
        thread_id = self._log.find(NAMESPACE, (session_id,))
        if thread_id is None:
            return None
        try:
            meta = self._log.meta(thread_id)
        except SessionNotFoundError:  # deleted meanwhile
            return None
        return Session.from_dict(dict(as_mapping(meta.extra.get("session"))))

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with its agents; raise `SessionException` if there is none."""
        del kwargs
        self._session(session_id)
        self.store.delete_prefix(NAMESPACE, (session_id,))

    def begin_turn(self, session_id: str) -> Turn:
        """Begin a turn of a session, to be held around an invocation of its agents.

        Raises:
            TurnInProgressError: Another process, or this one, is running a turn.
        """
        return self.store.thread(self._session(session_id)).begin_turn()

    # agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent; raise `SessionException` if it exists or the session does not."""
        del kwargs
        agent_id = session_agent.agent_id
        state = session_agent.to_dict()
        try:
            if agent_id == _DEFAULT:
                retrying(lambda: self._create_default(self._session(session_id), state))
            else:
                self._create_child(session_id, agent_id, state)
        except ConflictError as error:
            raise SessionException(
                f"Agent {agent_id} already exists in session {session_id}"
            ) from error

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent; None if there is none."""
        del kwargs
        state = self._on_agent(session_id, agent_id, self._agent_state)
        return None if state is None else SessionAgent.from_dict(state)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace the state of an agent; it stays as old as it is."""
        del kwargs
        agent_id = session_agent.agent_id

        def update(thread_id: str) -> bool:
            stored = self._agent_state(thread_id)
            if stored is None:
                return False
            session_agent.created_at = str(stored["created_at"])
            self._append(thread_id, control.register(_AGENT, session_agent.to_dict()))
            return True

        if not self._on_agent(session_id, agent_id, update):
            raise self._no_agent(session_id, agent_id)

    # messages

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Append a message; raise `SessionException` if the agent has one with its id."""
        del kwargs
        message_id = session_message.message_id
        record = NewRecord(payload=session_message.to_dict(), id=_record_id(message_id))

        def append(thread_id: str) -> bool:
            try:
                self._append(thread_id, record, repeat="error")
            except ConflictError as error:
                raise SessionException(
                    f"Message {message_id} already exists in agent {agent_id} "
                    f"in session {session_id}"
                ) from error
            return True

        if not self._on_agent(session_id, agent_id, append):
            raise self._no_agent(session_id, agent_id)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message; None if there is none."""
        del kwargs
        record = self._on_agent(
            session_id, agent_id, lambda thread_id: self._message(thread_id, message_id)
        )
        return None if record is None else _message_in(record.payload)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Change a message, mostly to redact it; it stays as old as it is."""
        del kwargs
        message_id = session_message.message_id

        def update(thread_id: str) -> bool:
            stored = self._message(thread_id, message_id)
            if stored is None:
                return False
            session_message.created_at = str(stored.payload["created_at"])
            payload = session_message.to_dict()
            if self._erases:
                self._replace(thread_id, stored, payload)
            else:
                self._append(thread_id, control.correction(stored.id, payload))
            return True

        if not self._on_agent(session_id, agent_id, update):
            raise SessionException(f"Message {message_id} does not exist in session {session_id}")

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return the messages of an agent by number, after the first `offset`, at most `limit`."""
        del kwargs
        payloads = self._on_agent(session_id, agent_id, self._payloads, is_read=True) or []
        payloads.sort(key=lambda payload: int(payload["message_id"]))
        end = None if limit is None else offset + limit
        return [_message_in(payload) for payload in payloads[offset:end]]

    # multi-agents

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Store the state of a multi-agent."""
        del kwargs
        state = multi_agent.serialize_state()
        self._append(self._session(session_id), control.register(_register(multi_agent.id), state))

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of a multi-agent; None if there is none."""
        del kwargs
        thread_id = self._log.find(NAMESPACE, (session_id,))
        try:
            name = _register(multi_agent_id)
            found = None if thread_id is None else self._register_value(thread_id, name)
        except SessionNotFoundError:  # deleted meanwhile
            return None
        return None if found is None else dict(as_mapping(found))

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Replace the state of a multi-agent; raise `SessionException` if there is none."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(
                f"MultiAgent {multi_agent.id} does not exist in session {session_id}"
            )
        self.create_multi_agent(session_id, multi_agent, **kwargs)

    def close(self) -> None:
        """Close the store, if the repository opened it."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create(self, key: tuple[str, ...], *, extra: dict[str, Any], **fields: Any) -> None:
        """Create a thread; what the framework states about it is in its meta data."""
        given = {**self._meta, **fields, "extra": {**self._meta.get("extra", {}), **extra}}
        create(self.store, NAMESPACE, key, payload_format=FORMAT, **given)

    def _session(self, session_id: str) -> str:
        """Return the thread of a session."""
        thread_id = self._log.find(NAMESPACE, (session_id,))
        if thread_id is None:
            raise SessionException(f"Session {session_id} does not exist")
        return thread_id

    def _create_default(self, thread_id: str, state: dict[str, Any]) -> None:
        """Create the agent whose messages are in the thread of its session."""
        head = head_of(self._log, thread_id)
        if self._register_value(thread_id, _AGENT) is not None:
            raise SessionException(f"Agent {_DEFAULT} already exists in the session")
        self._log.append(thread_id, (control.register(_AGENT, state),), expect=head)

    def _create_child(self, session_id: str, agent_id: str, state: dict[str, Any]) -> None:
        """Create the thread of an agent; a session without messages is shown by its id."""
        parent = self._session(session_id)
        self._create(
            _agent_key(session_id, agent_id),
            kind="subagent",
            parent=parent,
            agent_nickname=agent_id,
            extra={"agent": state},
        )
        summary = self._log.get(parent)
        if summary is not None and summary.title is None and not summary.message_count:
            with suppress(TitleInUseError):
                self.store.set_title(parent, session_id)

    def _on_agent(
        self, session_id: str, agent_id: str, work: Callable[[str], T], *, is_read: bool = False
    ) -> T | None:
        """Return the result of work on the thread of an agent; None if there is no such agent.

        A read of messages need not know whether the agent exists: it has no messages then.
        """
        place = session_id, agent_id

        def attempt() -> T | None:
            thread_id = self._agents.get(place) or self._find_agent(place, is_read=is_read)
            try:
                return None if thread_id is None else work(thread_id)
            except SessionNotFoundError:
                self._agents.pop(place, None)  # another process deleted it
                raise

        return retrying(attempt)

    def _find_agent(self, place: tuple[str, str], *, is_read: bool) -> str | None:
        thread_id = self._log.find(NAMESPACE, _agent_key(*place))
        if thread_id is not None and place[1] == _DEFAULT:  # the thread alone proves nothing
            if is_read:
                return thread_id
            if self._agent_state(thread_id) is None:
                return None
        if thread_id is not None:
            self._agents[place] = thread_id
        return thread_id

    def _no_agent(self, session_id: str, agent_id: str) -> SessionException:
        self._session(session_id)
        return SessionException(f"Agent {agent_id} does not exist in session {session_id}")

    def _agent_state(self, thread_id: str) -> dict[str, Any] | None:
        """Return the last state of an agent: a register, or what it was created with."""
        found = self._register_value(thread_id, _AGENT)
        if found is None:
            found = self._log.meta(thread_id).extra.get("agent")
        return None if found is None else dict(as_mapping(found))

    def _payloads(self, thread_id: str) -> list[dict[str, Any]]:
        return [record.payload for record in visible(self._log.read_back(thread_id))]

    def _register_value(self, thread_id: str, name: str) -> Any:
        for record in self._log.read_back(thread_id, kinds=(control.REGISTER,)):
            if record.payload.get("name") == name:
                return record.payload.get("value")
        return None

    def _message(self, thread_id: str, message_id: int) -> Record | None:
        """Return the record of a message, corrected, reading no further back than to it."""
        wanted = _record_id(message_id)
        records = visible(_until(self._log.read_back(thread_id), wanted))
        return next((record for record in records if record.id == wanted), None)

    def _append(self, thread_id: str, record: NewRecord, *, repeat: Repeat = "skip") -> None:
        try:
            self._log.append(thread_id, (record,), repeat=repeat)
        except ValidationError as error:
            raise SessionException(error.message) from error

    def _replace(self, thread_id: str, stored: Record, payload: dict[str, Any]) -> None:
        """Replace a message so that nothing of the redacted original remains but its usage."""
        redacted, original = payload.get("redact_message"), as_mapping(payload.get("message"))
        if redacted is not None:
            metadata = original.get("metadata")
            kept = {} if metadata is None else {"metadata": metadata}
            payload = {**payload, "message": {**redacted, **kept}}
        record = NewRecord(payload=payload, id=stored.id, parent_id=stored.parent_id, at=stored.at)
        self._append(thread_id, record, repeat="replace")
        self._log.vacuum(thread_id)


def _agent_key(session_id: str, agent_id: str) -> tuple[str, ...]:
    return (session_id,) if agent_id == _DEFAULT else (session_id, _AGENT, agent_id)


def _record_id(message_id: int) -> str:
    return f"message-{message_id}"


def _message_in(payload: dict[str, Any]) -> SessionMessage:
    """Return the message of a payload.

    `SessionMessage.from_dict` returns the same, but inspects the signature of its class for every
    field: of a long session, that would be most of the time.
    """
    known = {name: value for name, value in payload.items() if name in _FIELDS}
    return SessionMessage(**decode_bytes_values(known))


def _register(multi_agent_id: str) -> str:
    return f"{_MULTI_AGENT}:{multi_agent_id}"


def _until(newest_first: Iterator[Record], record_id: str) -> Iterator[Record]:
    """Yield records up to one with an id, and that one."""
    for record in newest_first:
        yield record
        if record.id == record_id:
            return
