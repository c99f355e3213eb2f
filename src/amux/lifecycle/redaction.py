"""Redaction: a model is given tokens such as `user_1f0c...` instead of ids and phone numbers.

Redaction is off unless it is asked for, and then takes effect only on platforms whose users are not
mentioned by their ids. `REDACTION_RULES` lists the platforms with the reasons; every other platform
counts as not safe. Wherever redaction was asked for and a platform is not safe, an audit entry says
so. The source of a message keeps its raw ids, since replies are routed by them.

A token is a keyed hash of an id. The key is a secret of the installation, so that no one else can
compute the token of a known phone number. The store remembers the id of each token that was used:
any process or machine with the store can map the tokens in a reply back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from amux.durable import PRIVATE_FILE, make_private_folder, sync, sync_folder
from amux.errors import ConfigError, ValidationError
from amux.host import Host
from amux.lifecycle.labels import visible_text
from amux.lifecycle.message_source import Platform, SessionSource, platform_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amux.store.session_store import SessionStore

PHONE: Final = "[phone number]"
"""The text that stands for a phone number."""

SECRET_FILE: Final = "redaction.key"  # noqa: S105 - a file name
SECRET_BYTES: Final = 32
MIN_SECRET_BYTES: Final = 16
TOKEN_DIGITS: Final = 16
VALUES: Final = "redaction"
"""The first part of the keys under which the store remembers tokens."""

_Kind = Literal["user", "chat"]
_TOKEN: Final = re.compile(rf"\b(?:user|chat)_[0-9a-f]{{{TOKEN_DIGITS}}}\b")
_NUMBER: Final = re.compile(r"[+-]?\d{7,}")
_SHORT_ID: Final = 5  # shorter ids are replaced in texts only where they stand alone
_SEPARATORS: Final = r"[ \u00a0().\-/]"
_PHONE: Final = re.compile(
    r"(?<!\w)(?<![0-9a-fA-F]{4}-)"  # not inside a word or a UUID
    r"(?!\d{4}-\d\d-\d\d(?!\d))(?!\d{1,3}(?:\.\d{1,3}){3}(?!\d))"  # no date, no IP address
    rf"\(?\+?\d(?:{_SEPARATORS}{{0,2}}\d){{6,14}}(?!\w)"
)
_PREFIX: Final = re.compile(r"\(?(?:\+|0\d)")  # of an international or a national number
_LEAST_DIGITS: Final = 10  # of a phone number without a prefix
_KEPT: Final = 10_000  # tokens in memory; the store has them all


class RedactionRule(msgspec.Struct, frozen=True):
    """Whether ids can be hidden on a platform without breaking it, and why."""

    safe: bool
    reason: str


REDACTION_RULES: Final[dict[str, RedactionRule]] = {
    Platform.WHATSAPP: RedactionRule(safe=True, reason="people are mentioned by name"),
    Platform.SIGNAL: RedactionRule(
        safe=True, reason="people are mentioned by name; a member is routed by number or UUID"
    ),
    Platform.TELEGRAM: RedactionRule(safe=True, reason="people are mentioned by @username"),
    Platform.BLUEBUBBLES: RedactionRule(
        safe=True, reason="iMessage has no mentions by an internal id"
    ),
    Platform.DISCORD: RedactionRule(
        safe=False, reason="a mention is <@id>, so the model needs the raw id"
    ),
    Platform.SLACK: RedactionRule(
        safe=False, reason="a mention is <@U...>, so the model needs the raw id"
    ),
    Platform.LOCAL: RedactionRule(safe=False, reason="the terminal of this machine has no ids"),
    Platform.API_SERVER: RedactionRule(
        safe=False, reason="a program chooses the ids and may need them in the reply"
    ),
    Platform.WEBHOOK: RedactionRule(
        safe=False, reason="a program chooses the ids and may need them in the reply"
    ),
}
"""The known platforms. A new one is added after a look at how its messages mention people."""

UNKNOWN_PLATFORM: Final = RedactionRule(
    safe=False, reason="it is not known how this platform mentions people"
)

PII_SAFE_PLATFORMS: Final = frozenset(name for name, rule in REDACTION_RULES.items() if rule.safe)


class RedactionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """An audit entry: whether ids were hidden on a platform, and why. It contains no ids."""

    platform: str
    applies: bool
    reason: str
    forced: bool = False
    at: datetime | None = None


class _StoredToken(msgspec.Struct, frozen=True):
    id: str
    platform: str


_STORED: Final = msgspec.json.Decoder(_StoredToken)


class Redactor:
    """Hides ids from a model and brings them back in its replies.

    `secret` is the key of the tokens; without one it is read from `redaction.key` in the data
    directory of amux, which is created on first use. `store` remembers the tokens; without one they
    can be mapped back in this process only. `audit` receives the decision whenever a platform is
    not safe; by default the logger "amux.lifecycle" does.
    """

    def __init__(
        self,
        secret: bytes | None = None,
        *,
        store: SessionStore | None = None,
        force_redact_all_platforms: bool = False,
        audit: Callable[[RedactionDecision], object] | None = None,
        host: Host | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        if secret is not None and len(secret) < MIN_SECRET_BYTES:
            raise ValidationError(
                f"the secret of a redactor must have at least {MIN_SECRET_BYTES} bytes",
                fields=("secret",),
                hint="use secrets.token_bytes(32)",
            )
        self.force_redact_all_platforms = force_redact_all_platforms
        self._secret = secret
        self._log = None if store is None else store.log
        self._audit = audit or _log_decision
        self._host = host
        self._now = now or (lambda: datetime.now(UTC))
        self._ids: dict[str, _StoredToken] = {}

    def decide(
        self, platform: str, *, force: bool = False, audit: bool = True
    ) -> RedactionDecision:
        """Return whether ids are hidden on a platform, and audit it unless the platform is safe.

        `audit=False` is for a decision that was audited before.
        """
        name = platform_name(platform)
        rule = REDACTION_RULES.get(name, UNKNOWN_PLATFORM)
        forced = not rule.safe and (force or self.force_redact_all_platforms)
        decision = RedactionDecision(
            platform=name,
            applies=rule.safe or forced,
            reason=rule.reason,
            forced=forced,
            at=self._now(),
        )
        if audit and not rule.safe:
            self._audit(decision)
        return decision

    def for_source(
        self,
        source: SessionSource,
        *,
        force: bool = False,
        chats: Iterable[str] = (),
        audit: bool = True,
    ) -> Redaction | None:
        """Return the redaction of one source; None if ids are not hidden on its platform.

        `chats` are ids of further chats that a prompt may name, such as home channels.
        """
        if not self.decide(source.platform, force=force, audit=audit).applies:
            return None
        return Redaction(self, source, chats)

    def redact(self, text: str, source: SessionSource) -> str:
        """Return text for a model: the ids of the source are tokens, phone numbers are gone.

        On a platform that is not safe the text is returned unchanged.
        """
        redaction = self.for_source(source)
        return text if redaction is None else redaction.text(text)

    def restore(self, text: str, platform: str | None = None) -> str:
        """Return a reply with its tokens replaced by the ids; unknown tokens stay.

        With a platform, only ids of that platform are brought back.
        """
        wanted = None if platform is None else platform_name(platform)

        def raw(found: re.Match[str]) -> str:
            stored = self._stored(found[0])
            if stored is None or wanted not in {None, stored.platform}:
                return found[0]
            return stored.id

        return _TOKEN.sub(raw, text)

    def token(self, kind: _Kind, id: str, platform: str) -> str:
        """Return the token of an id and remember the id."""
        import hmac

        name = platform_name(platform)
        message = msgspec.json.encode((kind, name, id))
        digest = hmac.digest(self._key(), message, "sha256").hex()
        token = f"{kind}_{digest[:TOKEN_DIGITS]}"
        self._remember(token, _StoredToken(id, name))
        return token

    def _key(self) -> bytes:
        if self._secret is None:
            host = self._host or Host.from_process()
            self._secret = load_secret(host.data_dir() / SECRET_FILE)
        return self._secret

    def _remember(self, token: str, stored: _StoredToken) -> None:
        if token in self._ids:
            return
        if self._log is not None and self._log.get_value((VALUES, token)) is None:
            self._log.put_value((VALUES, token), msgspec.json.encode(stored))
        self._keep(token, stored)

    def _keep(self, token: str, stored: _StoredToken) -> None:
        if len(self._ids) >= _KEPT:
            del self._ids[next(iter(self._ids))]
        self._ids[token] = stored

    def _stored(self, token: str) -> _StoredToken | None:
        """Return the id of a token; None if it was never used."""
        known = self._ids.get(token)
        if known is None and self._log is not None:
            value = self._log.get_value((VALUES, token))
            if value is not None:
                known = _STORED.decode(value.data)
                self._keep(token, known)
        return known


class Redaction:
    """The ids of one source, ready to be hidden."""

    def __init__(self, redactor: Redactor, source: SessionSource, chats: Iterable[str]) -> None:
        self._redactor = redactor
        self._platform = source.platform
        kinds: dict[str, _Kind] = {}
        for chat in (source.chat_id, source.chat_id_alt, source.thread_id, *chats):
            if chat:
                kinds[chat] = "chat"
        for user in (source.user_id, source.user_id_alt):
            if user:
                kinds[user] = "user"  # in a DM the chat often has the id of the sender
        self._kinds = kinds
        self._ids = sorted(kinds, key=len, reverse=True)
        self._in_labels = self._pattern(alone=False)
        self._in_texts = self._pattern(alone=True)

    def _pattern(self, *, alone: bool) -> re.Pattern[str]:
        """Return a pattern with one group per id; with `alone`, short ids must stand alone."""
        groups = (f"({_id_pattern(each, alone=alone)})" for each in self._ids)
        return re.compile("|".join(groups) or r"(?!)", re.IGNORECASE)

    def id(self, id: str) -> str:
        """Return the token of an id of the source."""
        return self._redactor.token(self._kinds[id], id, self._platform)

    def text(self, text: str) -> str:
        """Return a text with tokens instead of ids and without phone numbers."""
        return _strip_phones(self._in_texts.sub(self._token, text))

    def label(self, text: str) -> str:
        """Return a name or topic as one line of visible text, without ids and phone numbers.

        An id is found also inside a word, in other digits than 0 to 9, and behind invisible
        characters.
        """
        import unicodedata

        plain = unicodedata.normalize("NFKC", visible_text(text))
        return _strip_phones(self._in_labels.sub(self._token, visible_text(plain)))

    def _token(self, found: re.Match[str]) -> str:
        groups = found.groups()
        return self.id(next(id for id, group in zip(self._ids, groups, strict=True) if group))


def _id_pattern(id: str, *, alone: bool) -> str:
    """Return a pattern for an id: a number is found with other separators and signs too."""
    number = _NUMBER.fullmatch(id)
    if number is not None:
        return "[+-]?" + rf"{_SEPARATORS}{{0,2}}".join(id.lstrip("+-"))
    local, at, _ = id.partition("@")
    if at and _NUMBER.fullmatch(local):  # an address of WhatsApp: a phone number and a server
        return rf"{re.escape(id)}|{_id_pattern(local, alone=alone)}"
    pattern = re.escape(id)
    return rf"(?<!\w){pattern}(?!\w)" if alone and len(id) < _SHORT_ID else pattern


def _strip_phones(text: str) -> str:
    """Return text with `PHONE` instead of phone numbers.

    A phone number has 7 to 15 digits. It begins with `+` or `0`, or has at least 10 digits. Dates
    and IP addresses are none.
    """
    return _PHONE.sub(_phone, text)


def _phone(found: re.Match[str]) -> str:
    text = found[0]
    digits = sum(character.isdigit() for character in text)
    return PHONE if digits >= _LEAST_DIGITS or _PREFIX.match(text) else text


def load_secret(path: Path) -> bytes:
    """Return the secret in a file; a new one is written if there is none.

    The file appears with its whole content, readable for its owner alone. Of several processes
    that create it at the same time one wins, and all return its secret.

    Raises:
        ConfigError: The file cannot be read or written, or is damaged.
    """
    try:
        secret = _read_secret(path)
        if secret is None:
            _create_secret(path)
            secret = _read_secret(path)
    except OSError as error:
        raise ConfigError(
            f"the secret of the redaction in `{path}` cannot be used ({error.strerror})",
            hint="pass `secret` to the Redactor, or set AMUX_DATA_DIR",
        ) from error
    if secret is None or len(secret) != SECRET_BYTES:
        raise ConfigError(
            f"`{path}` is not a secret of {SECRET_BYTES} bytes",
            hint="remove it to get a new one; the same ids have other tokens then",
        )
    return secret


def _read_secret(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _create_secret(path: Path) -> None:
    import secrets

    folders = make_private_folder(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            sync(file.fileno())
        try:
            os.link(draft, path)  # unlike a rename it replaces nothing
        except FileExistsError:
            return
    finally:
        draft.unlink()
    for folder in (path.parent, *folders):
        sync_folder(folder)


def _log_decision(decision: RedactionDecision) -> None:
    import logging

    verb = "hides" if decision.applies else "does not hide"
    logging.getLogger("amux.lifecycle").info(
        "redaction %s ids on %s: %s", verb, decision.platform, decision.reason
    )
