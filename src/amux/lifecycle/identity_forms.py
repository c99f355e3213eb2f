"""The forms of an identity: Signal knows one member by a phone number and by a UUID.

A message that carries two forms states that they are one identity. The store remembers it as a
value per form, so that a later message with either form alone belongs to the same identity, in any
process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from amux.errors import ConflictError
from amux.lifecycle.message_source import ChatType, Platform, SessionSource, escape_part
from amux.rollout.log import ThreadLog

VALUES: Final = "chat-forms"
"""The first part of the keys under which the store remembers forms."""

MEMBER_IS_CHAT: Final = frozenset({Platform.SIGNAL.value})
"""Platforms on which the address of a DM is the address of its member."""

_FORMS: Final = msgspec.json.Decoder(tuple[str, ...])
_Kind = Literal["user", "chat"]


class IdentityForms:
    """The known forms of chats and members, kept in a store."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log

    def of_user(self, source: SessionSource) -> list[str]:
        """Return every known form of the sender, the form that new keys use first."""
        return self._forms(source.platform, "user", (source.user_id_alt, source.user_id))

    def of_chat(self, source: SessionSource) -> list[str]:
        """Return every known form of the chat, the form that new keys use first."""
        kind: _Kind = "chat"
        if is_chat_with_member(source):
            kind = "user"
            self.of_user(source)  # the forms of the sender are those of the chat
        return self._forms(source.platform, kind, (source.chat_id, source.chat_id_alt))

    def _forms(self, platform: str, kind: _Kind, given: Iterable[str | None]) -> list[str]:
        own = [form for form in given if form]
        forms = list(dict.fromkeys(own))
        for form in forms:  # grows while it is read
            forms += [each for each in self._known(platform, kind, form) if each not in forms]
        if len(own) > 1:
            for form in forms:
                self._link(platform, kind, form, forms)
        return forms

    def _known(self, platform: str, kind: _Kind, form: str) -> tuple[str, ...]:
        value = self._log.get_value((VALUES, platform, kind, escape_part(form)))
        return () if value is None else _FORMS.decode(value.data)

    def _link(self, platform: str, kind: _Kind, form: str, forms: Iterable[str]) -> None:
        """Add forms to those that are known of a form; another process may do so too."""
        key = (VALUES, platform, kind, escape_part(form))
        while True:
            value = self._log.get_value(key)
            known = () if value is None else _FORMS.decode(value.data)
            merged = tuple(sorted({*known, *forms} - {form}))
            if merged == known:
                return
            try:
                version = "" if value is None else value.version
                self._log.put_value(key, msgspec.json.encode(merged), expect=version)
            except ConflictError:
                continue
            return


def is_chat_with_member(source: SessionSource) -> bool:
    """Return whether the chat of a source is addressed by the ids of a member."""
    return source.platform in MEMBER_IS_CHAT and source.chat_type == ChatType.DM
