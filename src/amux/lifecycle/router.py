"""`SourceRouter`: from a message of a chat to its thread, and from a reply back to the chat.

    router = SourceRouter(store, home_channels=[HomeChannel("telegram", "555")])
    thread = router.route(source)          # finds or starts the thread; resets it if that is due
    thread.message("user", text)
    prompt = router.context_prompt(source)
    ...
    message = router.deliver(reply, source)  # where to send the reply, with its ids restored

A thread is found by its session key, which the store keeps unique: of two processes that route the
first message of a chat at the same moment, one starts the thread and the other finds it.

If one member has two threads, because two messages named it by different ids before a third message
named both, the thread with the latest message continues. The other stays as it is: readable,
searchable, and never continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, cast

import msgspec

from amux._version import __version__
from amux.errors import ConflictError, StoreError, ValidationError
from amux.lifecycle.context_prompt import (
    DeliveryTarget,
    HomeChannel,
    SessionContext,
    describe_place,
    home_addresses,
    reply_address,
)
from amux.lifecycle.identity_forms import IdentityForms, is_chat_with_member
from amux.lifecycle.live_session import LiveSession
from amux.lifecycle.message_source import (
    ChatType,
    SessionSource,
    build_session_key,
    has_own_session,
    session_key_of,
)
from amux.lifecycle.redaction import Redaction, Redactor
from amux.lifecycle.reset import ResetOutcome, ResetPolicy, ResetPolicySet
from amux.rollout import control
from amux.rollout.ids import new_run_session_id
from amux.rollout.log import MessageHit
from amux.rollout.records import as_mapping
from amux.rollout.threads import ThreadSummary
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle, ThreadView

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

    from amux.lifecycle.lifecycle import Lifecycle

K = TypeVar("K")
V = TypeVar("V")

NAMESPACE: Final = "chat"
"""The namespace of the keys of threads that belong to a chat."""

SOURCE: Final = "source"
"""The field of `SessionMeta.extra` that holds the source of a thread."""

_SOURCES: Final = "chat-source"
_CHOSEN: Final = "chat-thread"
_OF_SENDER: Final = frozenset({"user_id", "user_id_alt", "user_name", "is_bot"})
_STRUCTURE: Final = frozenset(
    {"role", "type", "id", "name", "tool_name", "tool_call_id", "tool_use_id", "data"}
)
"""Fields of messages that hold no text for a model."""

_TRIES: Final = 20
_KEPT: Final = 10_000  # runs in memory
_ARCHIVE_EVERY: Final = timedelta(days=1)


class OutboundMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A reply with its address: the ids are those of the platform.

    `may_send` is False if the send policy of the session forbids replies.
    """

    platform: str
    chat_id: str
    text: str
    thread_id: str | None = None
    may_send: bool = True


class SourceRouter:
    """The threads of chats in a store.

    `reset` holds the policies; the default is that of `ResetPolicySet`. `notify` is called after a
    reset that the user is to be told of; the observers of `lifecycle` are told of every reset.
    `active_since` returns when the work of a thread began that is still active, or None; a running
    turn counts as work anyway.
    With `archive_after_days`, threads of the store that were not active for so long are archived
    once a day; a message brings the thread of its chat back. It is off by default.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        reset: ResetPolicySet | ResetPolicy | None = None,
        redactor: Redactor | None = None,
        redact_pii: bool = False,
        force_redact_all_platforms: bool = False,
        connected_platforms: Sequence[str] = (),
        home_channels: Sequence[HomeChannel] = (),
        group_sessions_per_user: bool = True,
        thread_sessions_per_user: bool = False,
        profile: str | None = None,
        cwd: str = "",
        model: str | None = None,
        notify: Callable[[ResetOutcome], object] | None = None,
        lifecycle: Lifecycle | None = None,
        active_since: Callable[[str], datetime | None] | None = None,
        archive_after_days: float | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.store = store
        self.reset = reset if isinstance(reset, ResetPolicySet) else ResetPolicySet(reset)
        self.redactor = redactor or Redactor(store=store)
        self.redact_pii = redact_pii
        self.force_redact_all_platforms = force_redact_all_platforms
        self.connected_platforms = tuple(connected_platforms)
        self.home_channels = tuple(home_channels)
        self.profile = profile
        self._per_user = {
            "group_sessions_per_user": group_sessions_per_user,
            "thread_sessions_per_user": thread_sessions_per_user,
        }
        self._start_with: dict[str, Any] = {"cwd": cwd, "model": model}
        self._notify = notify or _log_notice
        self._lifecycle = lifecycle
        self._active_since = active_since
        self._archive_after = archive_after_days
        self._archived_at: datetime | None = None
        self._now = now or (lambda: datetime.now(UTC))
        self._forms = IdentityForms(store.log)
        self._runs: dict[str, str] = {}
        self._sources: dict[str, SessionSource] = {}
        self._audited: dict[SessionSource, None] = {}  # sources whose last message was audited
        if archive_after_days is not None and archive_after_days <= 0:
            raise ValidationError(
                "`archive_after_days` must be positive", fields=("archive_after_days",)
            )

    # messages in

    def route(self, source: SessionSource) -> ThreadHandle:
        """Return the thread of a message's chat, started or reset if need be.

        The handles of one thread have one run id in this process, until a reset begins a new run.
        """
        self._archive_old()
        self._audited.pop(source, None)
        thread_id = self.find(source) or self._start(source)
        self._remember_source(thread_id, source)
        return self._reset_if_due(thread_id, source)

    def key(self, source: SessionSource) -> str:
        """Return the session key of a source."""
        return build_session_key(source, profile=self.profile, **self._per_user)

    def find(self, source: SessionSource) -> str | None:
        """Return the id of the thread of a source; None if it has none yet."""
        found = dict.fromkeys(
            thread_id
            for key in dict.fromkeys(self._keys(source))
            if (thread_id := self.store.log.find(NAMESPACE, (key,))) is not None
        )
        return self._choose(list(found)) if len(found) > 1 else next(iter(found), None)

    def _keys(self, source: SessionSource) -> Iterator[str]:
        """Yield the session keys of a source in every known form of its ids."""
        yield self.key(source)
        chats = self._forms.of_chat(source)
        users = self._forms.of_user(source)
        per_user = has_own_session(source, **self._per_user)
        shapes = [
            (chat, user) for chat in chats or [""] for user in (users if per_user else [None])
        ]
        if is_chat_with_member(source):  # a DM is the same with and without a chat id
            members = chats or users
            shapes = [(form, None) for form in members] + [("", form) for form in members]
        for chat, user in shapes:
            yield session_key_of(source, chat=chat, user=user, profile=self.profile)

    def _choose(self, found: list[str]) -> str:
        """Return the one of several threads of a chat that continues, for all processes alike."""
        key = (_CHOSEN, *sorted(found))
        chosen = self.store.log.get_value(key)
        if chosen is None:
            threads = [ThreadView(self.store.log, each).summary for each in found]
            latest = max(threads, key=lambda each: (each.last_active, each.thread_id)).thread_id
            try:
                chosen = self.store.log.put_value(key, latest.encode(), expect="")
            except ConflictError:
                return self._choose(found)
        return chosen.data.decode()

    def _start(self, source: SessionSource) -> str:
        try:
            thread = self.store.start(
                **self._start_with,
                **source_fields(source, key=self.key(source)),
                user_id=None if self._shared(source) else source.user_id,
            )
        except ConflictError:  # another process was faster
            found = self.find(source)
            if found is None:
                raise
            return found
        self._keep_run(thread.thread_id, thread.run_session_id)
        return thread.thread_id

    # the source of a thread

    def source_of(self, thread_id: str) -> SessionSource | None:
        """Return the latest source of a thread; None if it belongs to no chat."""
        value = self.store.log.get_value((_SOURCES, thread_id))
        if value is not None:
            return SessionSource.from_dict(msgspec.json.decode(value.data))
        return source_in(self.store.open(thread_id))

    def _remember_source(self, thread_id: str, source: SessionSource) -> None:
        """Keep what a message says about its chat beyond what is known of the thread."""
        known = self._sources.get(thread_id) or self.source_of(thread_id)
        merged = source if known is None else _merge(known, source, shared=self._shared(source))
        if merged != known:
            data = msgspec.json.encode(merged.to_dict())
            self.store.log.put_value((_SOURCES, thread_id), data)
        _keep(self._sources, thread_id, merged)

    # resets

    def _reset_if_due(self, thread_id: str, source: SessionSource) -> ThreadHandle:
        log = self.store.log
        summary = self._summary(thread_id)
        for _ in range(_TRIES):
            outcome = self._due(summary, source)
            if outcome is None:
                break
            run = new_run_session_id()
            try:
                log.append(thread_id, _boundary(outcome, run), expect=summary.head)
            except ConflictError:  # a message or another process was faster: look again
                summary = self._summary(thread_id)
                continue
            log.sync(thread_id)
            self._keep_run(thread_id, run)
            self._tell(thread_id, run, outcome)
            return ThreadHandle(log, thread_id, run)
        return self._handle(summary)

    def _due(self, summary: ThreadSummary, source: SessionSource) -> ResetOutcome | None:
        """Return the outcome if a thread is to be reset now; None if not."""
        now = self._now()
        outcome = self.reset.check(summary, source, now=now)
        if not outcome.reset:
            return None
        if not ThreadView(self.store.log, summary.thread_id).tail(1):
            return None  # the conversation is empty already
        since = self._working_since(summary.thread_id)
        outcome = self.reset.check(summary, source, now=now, working_since=since)
        return outcome if outcome.reset else None

    def _working_since(self, thread_id: str) -> datetime | None:
        """Return when the latest work began that is still active; None if there is none."""
        begun: list[datetime | None] = []
        if self._active_since is not None:
            begun.append(self._active_since(thread_id))
        if self.store.log.lease_of(thread_id) is not None:
            begun.append(self._turn_started(thread_id))
        return max((each for each in begun if each is not None), default=None)

    def _turn_started(self, thread_id: str) -> datetime:
        """Return the time at which the running turn of a thread began."""
        for record in self.store.log.read_back(thread_id):
            found = control.event_of(record)
            if found is not None and found[0] == control.TURN_STARTED:
                return record.at
        return self._now()  # the lease is taken, and the record of it not yet written

    def _tell(self, thread_id: str, run: str, outcome: ResetOutcome) -> None:
        """Report a reset. A failing listener is logged: the message that caused it goes on."""
        if self._lifecycle is not None:
            session = LiveSession(self.store.log, thread_id, run)
            self._lifecycle.notify("session_reset", session, reason=outcome.reason)
        if outcome.notice is None:
            return
        try:
            self._notify(outcome)
        except Exception:  # noqa: BLE001 - foreign code
            _logger().exception("the notice of a reset could not be given")

    # messages out

    def context(self, source: SessionSource) -> SessionContext:
        """Return the source with the connected platforms and home channels."""
        return SessionContext(
            source=source,
            connected_platforms=(
                *self.connected_platforms,
                *(home.platform for home in self.home_channels),
                source.platform,
            ),
            home_channels=self.home_channels,
            session_key=self.key(source),
            is_shared=self._shared(source),
        )

    def _shared(self, source: SessionSource) -> bool:
        """Return whether several people take part in the conversation of a source."""
        is_dm = source.chat_type == ChatType.DM
        return not is_dm and not has_own_session(source, **self._per_user)

    def context_prompt(self, source: SessionSource) -> str:
        """Return the part of a system prompt that describes the place of a message."""
        redaction = self._redaction(source, chats=home_addresses(self.home_channels))
        return describe_place(self.context(source), redaction)

    def conversation(self, thread: ThreadView, source: SessionSource) -> list[dict[str, Any]]:
        """Return the messages of a thread for a model, with ids hidden if that is switched on."""
        messages = thread.conversation()
        redaction = self._redaction(source)
        if redaction is None:
            return messages
        return [_redacted_message(message, redaction) for message in messages]

    def _redaction(self, source: SessionSource, chats: Sequence[str] = ()) -> Redaction | None:
        """Return the redaction of a source; None if ids are not hidden.

        The prompt and the conversation of one message are one decision: it is audited once after
        each `route`, however often a model is asked.
        """
        if not (self.redact_pii or self.force_redact_all_platforms):
            return None
        is_new = source not in self._audited
        _keep(self._audited, source, None)
        return self.redactor.for_source(
            source,
            force=self.force_redact_all_platforms,
            chats=chats,
            audit=is_new,
        )

    def deliver(self, reply: str, source: SessionSource) -> OutboundMessage:
        """Return a reply with its address; tokens for ids of the platform are mapped back.

        The send policy is that of the last snapshot of the chat's thread.
        """
        session = self.find(source)
        return OutboundMessage(
            platform=source.platform,
            chat_id=reply_address(source),
            thread_id=source.thread_id,
            text=self.redactor.restore(reply, source.platform),
            may_send=session is None or self._send_policy(session) != "deny",
        )

    def _send_policy(self, thread_id: str) -> object:
        snapshot = as_mapping(ThreadView(self.store.log, thread_id).register(control.SNAPSHOT))
        return as_mapping(snapshot.get("premises")).get("send_policy")

    def delivery_targets(self, source: SessionSource) -> tuple[DeliveryTarget, ...]:
        """Return the places for scheduled output: the origin, this machine, the home channels."""
        return self.context(source).delivery_targets

    def search(self, query: str, source: SessionSource, *, limit: int = 20) -> list[MessageHit]:
        """Return messages of the chat of a source that match a query, reset ones included."""
        thread_id = self.find(source)
        if thread_id is None:
            return []
        return self.store.search(query, thread_id=thread_id, limit=limit)

    # runs and the archive

    def _handle(self, summary: ThreadSummary) -> ThreadHandle:
        """Return a handle with the run of this process; a new run resumes the thread.

        A run is new if it is the first of this process, or if the last one was ended.
        """
        run = self._runs.get(summary.thread_id)
        if run is not None and summary.ended_at is None:
            return ThreadHandle(self.store.log, summary.thread_id, run)
        handle = self.store.resume(summary.thread_id)
        self._keep_run(summary.thread_id, handle.run_session_id)
        return handle

    def _keep_run(self, thread_id: str, run: str) -> None:
        _keep(self._runs, thread_id, run)

    def _summary(self, thread_id: str) -> ThreadSummary:
        """Return the summary of a thread, brought back from the archive."""
        summary = ThreadView(self.store.log, thread_id).summary
        if summary.archived:
            self.store.log.archive(thread_id, archived=False)
        return summary

    def _archive_old(self) -> None:
        now = self._now()
        is_due = self._archived_at is None or now - self._archived_at >= _ARCHIVE_EVERY
        if self._archive_after is None or not is_due:
            return
        self._archived_at = now
        try:
            self.store.archive_older_than(self._archive_after)
        except StoreError:
            _logger().exception("old threads could not be archived")


def source_fields(source: SessionSource, *, key: str | None = None) -> dict[str, Any]:
    """Return the arguments of `SessionStore.start` that make a thread that of a chat.

    `key` is the session key; without one it is that of `build_session_key` with its defaults.
    """
    return {
        "source": source.platform,
        "namespace": NAMESPACE,
        "key": (build_session_key(source) if key is None else key,),
        "extra": {SOURCE: source.to_dict()},
    }


def source_in(thread: ThreadView) -> SessionSource | None:
    """Return the source that a thread was started with; None if it belongs to no chat."""
    fields: object = thread.meta.extra.get(SOURCE)
    if not isinstance(fields, dict):
        return None
    return SessionSource.from_dict(cast("dict[str, Any]", fields))


def _merge(known: SessionSource, new: SessionSource, *, shared: bool) -> SessionSource:
    """Return what a new message says of a chat, with what only earlier messages said.

    In a shared conversation the sender stays the first one: the next message has another.
    """
    said = new.to_dict()
    kept = {name: value for name, value in said.items() if not (shared and name in _OF_SENDER)}
    return SessionSource.from_dict({**known.to_dict(), **kept})


def _boundary(outcome: ResetOutcome, run: str) -> list[Any]:
    """Return the records of a reset: the end of the old conversation and a new run."""
    return [
        control.hide_all(searchable=True, reason=f"{outcome.reason} reset"),
        control.event(control.SESSION_RESUMED, session_id=run, cli_version=__version__),
    ]


def _redacted_message(message: dict[str, Any], redaction: Redaction) -> dict[str, Any]:
    """Return a message, or a part of one, with its texts redacted."""
    return {
        name: value if name in _STRUCTURE else _redacted(value, redaction)
        for name, value in message.items()
    }


def _redacted(value: object, redaction: Redaction) -> object:
    if isinstance(value, str):
        return redaction.text(value)
    if isinstance(value, list):
        return [_redacted(each, redaction) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return _redacted_message(cast("dict[str, Any]", value), redaction)
    return value


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Keep a value in memory; the oldest one goes when there are too many."""
    kept[key] = value
    if len(kept) > _KEPT:
        kept.pop(next(iter(kept)), None)  # another thread may have done it


def _log_notice(outcome: ResetOutcome) -> None:
    _logger().info("thread %s: %s", outcome.thread_id, outcome.notice)


def _logger() -> logging.Logger:
    import logging

    return logging.getLogger("amux.lifecycle")
