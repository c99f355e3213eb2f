"""`SessionSource`: where a message came from, and the session key that follows from it.

    source = SessionSource(platform="telegram", chat_id="-1001", chat_type="group", user_id="42")
    build_session_key(source)  # agent:main:telegram:group:-1001:user=42

The set of platforms is open: `Platform` lists those that amux knows something about. A `thread_id`
is the id of a thread on the chat platform (a forum topic, a Slack thread), never that of a thread
in the store. Ids are what the platform says; names and topics are what strangers typed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from amux.errors import ValidationError
from amux.lifecycle.labels import clean_label


class Platform(StrEnum):
    """The platforms that amux knows. Any other name of a platform is accepted as well."""

    LOCAL = "local"
    TELEGRAM = "telegram"
    SLACK = "slack"
    DISCORD = "discord"
    WHATSAPP = "whatsapp"
    SIGNAL = "signal"
    BLUEBUBBLES = "bluebubbles"
    API_SERVER = "api_server"
    WEBHOOK = "webhook"


class ChatType(StrEnum):
    """The shapes of a chat: two people, a closed group, a public channel, a platform thread."""

    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


_PLATFORM: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_OTHER_NAMES: Final = {"cli": Platform.LOCAL.value}
_IDS: Final = ("chat_id", "user_id", "thread_id", "user_id_alt", "chat_id_alt")
_NAMES: Final = ("chat_name", "user_name", "chat_topic")


def platform_name(name: str) -> str:
    """Return the name of a platform as it is stored: in lower case, "local" for "cli".

    Raises:
        ValidationError: The text cannot be the name of a platform.
    """
    clean = str(name).strip().lower()
    clean = _OTHER_NAMES.get(clean, clean)
    if not _PLATFORM.fullmatch(clean):
        raise ValidationError(
            f"`{clean_label(str(name))}` is not the name of a platform",
            fields=("platform",),
            hint='use up to 64 letters, digits, "_", "." and "-", such as "telegram"',
        )
    return clean


class SessionSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """The origin of a message: enough to route the reply, to describe the place, to deliver later.

    Signal knows a member by a phone number and by a UUID, and a group by two ids. The second form
    is in `user_id_alt` and `chat_id_alt`; either form finds the session.

    Raises:
        ValidationError: The platform, the type of the chat or an id is invalid.
    """

    platform: str
    chat_id: str = ""
    chat_name: str | None = None
    chat_type: str = ChatType.DM.value
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None  # of the platform, not of the store
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    is_bot: bool = False

    def __post_init__(self) -> None:
        """Normalise the names and check the ids."""
        clean: dict[str, Any] = {
            "platform": platform_name(self.platform),
            "chat_type": _chat_type(self.chat_type),
        }
        for name in _IDS:
            clean[name] = _checked_id(name, getattr(self, name))
        for name in _NAMES:
            clean[name] = _checked_name(name, getattr(self, name))
        clean["chat_id"] = clean["chat_id"] or ""
        for name, value in clean.items():
            msgspec.structs.force_setattr(self, name, value)

    @property
    def is_local(self) -> bool:
        """Whether the message was typed on this machine."""
        return self.platform == Platform.LOCAL

    @property
    def description(self) -> str:
        """Return the place in words for people, such as `DM with Ann`; local is "CLI terminal"."""
        if self.is_local:
            return "CLI terminal"
        sender = clean_label(self.user_name or self.user_id or self.user_id_alt or "a user")
        chat = clean_label(self.chat_name or self.chat_id or self.chat_id_alt or "a chat")
        texts = {
            ChatType.DM: f"DM with {sender}",
            ChatType.GROUP: f"group {chat}",
            ChatType.CHANNEL: f"channel {chat}",
            ChatType.THREAD: f"platform thread in {chat}",
        }
        text = texts[ChatType(self.chat_type)]
        return f"{text}, platform thread {clean_label(self.thread_id)}" if self.thread_id else text

    @property
    def label(self) -> str:
        """Return the platform and the place for a list, such as `telegram: DM with Ann`."""
        return self.description if self.is_local else f"{self.platform}: {self.description}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object; fields with their default value are left out."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SessionSource:
        """Return the source of a JSON object; unknown fields are ignored.

        Raises:
            ValidationError: A field is missing or has a value that a source cannot have.
        """
        try:
            return msgspec.convert(dict(fields), cls)
        except msgspec.ValidationError as error:
            raise ValidationError(
                f"this is not a message source: {error}", fields=("source",)
            ) from error


def _chat_type(value: str) -> str:
    try:
        return ChatType(value).value
    except ValueError:
        raise ValidationError(
            f"`{clean_label(str(value))}` is not the type of a chat",
            fields=("chat_type",),
            hint=f"use {', '.join(ChatType)}",
        ) from None


def _checked_id(name: str, value: object) -> str | None:
    """Return an id; None for an empty one."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValidationError(
            f"`{name}` must be text, not `{value!r}`", fields=(name,), hint="pass ids as text"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        valid = False
    else:
        valid = bool(value.strip()) and "\0" not in value
    if not valid:
        raise ValidationError(
            f"`{name}` must be valid Unicode without NUL, and not blank", fields=(name,)
        )
    return str(value)


def _checked_name(name: str, value: object) -> str | None:
    """Return a name; None for an empty one. Lone surrogates become question marks."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValidationError(f"`{name}` must be text, not `{value!r}`", fields=(name,))
    return value.encode("utf-8", "replace").decode()


# Session keys

_MAX_PART: Final = 160
"""Bytes. A longer id is represented by its digest, so that every database can index the key."""

_RESERVED: Final = re.compile(r"[%:=~\s\x00-\x1f\x7f-\x9f\u2028\u2029]")


def build_session_key(
    source: SessionSource,
    *,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """Return the key of the conversation that a message belongs to.

    The key is `agent:<profile>:<platform>:<type>`, followed by the chat, `thread=` with the
    platform thread and `user=` with the sender, as far as they matter. Ids are escaped: different
    chats never have one key.

    - A DM is identified by its chat, and without one by its sender.
    - A platform thread is shared by its members, unless `thread_sessions_per_user`.
    - In a group or channel every member has a session, unless `group_sessions_per_user` is False.

    Raises:
        ValidationError: The source has no id that could keep two chats apart.
    """
    is_per_user = has_own_session(
        source,
        group_sessions_per_user=group_sessions_per_user,
        thread_sessions_per_user=thread_sessions_per_user,
    )
    user = source.user_id_alt or source.user_id
    return session_key_of(
        source,
        chat=source.chat_id or source.chat_id_alt or "",
        user=user if is_per_user else None,
        profile=profile,
    )


def has_own_session(
    source: SessionSource,
    *,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> bool:
    """Return whether the sender is a part of the session key, so that each sender has a session.

    This is False for a DM with a chat id too: the chat is the sender's already.
    """
    if source.chat_type == ChatType.DM:
        return not (source.chat_id or source.chat_id_alt)
    if source.thread_id or source.chat_type == ChatType.THREAD:
        return thread_sessions_per_user
    return group_sessions_per_user


def session_key_of(
    source: SessionSource, *, chat: str, user: str | None, profile: str | None
) -> str:
    """Return the key for one form of the ids of a source."""
    parts = [escape_part(chat)] if chat else []
    if source.thread_id:
        parts.append(f"thread={escape_part(source.thread_id)}")
    if user:
        parts.append(f"user={escape_part(user)}")
    if not parts and not source.is_local:
        raise ValidationError(
            f"a message from `{source.platform}` needs a chat or a sender",
            fields=("chat_id", "user_id"),
            hint="without an id, the messages of all chats would be one conversation",
        )
    head = ("agent", escape_part(profile or "main"), source.platform, source.chat_type)
    return ":".join((*head, *parts))


def escape_part(text: str) -> str:
    """Return an id as a part of a key: without colons and white space, at most 160 bytes.

    Reserved characters are percent-encoded; a long id becomes `~` with its SHA-256. Different ids
    have different parts.
    """
    escaped = _RESERVED.sub(_percent, text)
    if len(escaped.encode()) <= _MAX_PART:
        return escaped
    import hashlib

    return f"~{hashlib.sha256(text.encode()).hexdigest()}"


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
