"""Redaction: tokens instead of ids, on the platforms where that is safe, and back again."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from child_processes import child_env
from clocks import START, Clock
from drawn import drawn
from hypothesis import assume, given
from hypothesis import strategies as st

from amux.errors import ConfigError, ErrorCode, ValidationError
from amux.host import Host
from amux.lifecycle.context_prompt import (
    HomeChannel,
    SessionContext,
    build_session_context_prompt,
)
from amux.lifecycle.message_source import Platform, SessionSource
from amux.lifecycle.redaction import (
    PHONE,
    PII_SAFE_PLATFORMS,
    REDACTION_RULES,
    RedactionDecision,
    Redactor,
    load_secret,
)
from amux.store.session_store import SessionStore

SECRET = b"0123456789abcdef"
CHAT, USER = "-1001234567890", "987654321"
TELEGRAM = SessionSource("telegram", CHAT, chat_type="group", user_id=USER, user_name="Ann")


def expected_token(kind: str, platform: str, id: str, secret: bytes = SECRET) -> str:
    message = f'["{kind}","{platform}","{id}"]'.encode()
    return f"{kind}_{hmac.new(secret, message, hashlib.sha256).hexdigest()[:16]}"


# The platforms


def test_redaction_is_safe_on_four_of_the_nine_platforms() -> None:
    assert sorted(PII_SAFE_PLATFORMS) == ["bluebubbles", "signal", "telegram", "whatsapp"]
    assert set(REDACTION_RULES) == set(Platform)


def test_every_platform_has_a_reason() -> None:
    assert {name: rule.reason for name, rule in REDACTION_RULES.items()} == {
        "whatsapp": "people are mentioned by name",
        "signal": "people are mentioned by name; a member is routed by number or UUID",
        "telegram": "people are mentioned by @username",
        "bluebubbles": "iMessage has no mentions by an internal id",
        "discord": "a mention is <@id>, so the model needs the raw id",
        "slack": "a mention is <@U...>, so the model needs the raw id",
        "local": "the terminal of this machine has no ids",
        "api_server": "a program chooses the ids and may need them in the reply",
        "webhook": "a program chooses the ids and may need them in the reply",
    }


@pytest.mark.parametrize("platform", [*Platform, "matrix"])
def test_ids_are_hidden_only_where_it_is_safe_and_the_rest_is_audited(platform: str) -> None:
    audit: list[RedactionDecision] = []
    redactor = Redactor(SECRET, audit=audit.append, now=Clock())
    source = SessionSource(platform, "chat-12345", user_id="user-12345")
    text = "chat-12345 and user-12345, +49 151 12345678"
    redacted = redactor.redact(text, source)
    if platform in {"whatsapp", "signal", "telegram", "bluebubbles"}:
        chat = expected_token("chat", platform, "chat-12345")
        user = expected_token("user", platform, "user-12345")
        assert redacted == f"{chat} and {user}, {PHONE}"
        assert audit == []
    else:
        reason = "it is not known how this platform mentions people"
        if platform != "matrix":
            reason = REDACTION_RULES[platform].reason
        assert redacted == text
        assert audit == [
            RedactionDecision(platform=platform, applies=False, reason=reason, at=START)
        ]


@pytest.mark.parametrize("how", ["redactor", "call"])
@pytest.mark.parametrize("platform", ["discord", "slack", "matrix"])
def test_force_hides_ids_everywhere_and_is_audited(platform: str, how: str) -> None:
    audit: list[RedactionDecision] = []
    redactor = Redactor(SECRET, audit=audit.append, force_redact_all_platforms=how == "redactor")
    source = SessionSource(platform, "chat-12345")
    redaction = redactor.for_source(source, force=how == "call")
    assert redaction is not None
    assert redaction.text("in chat-12345") == f"in {expected_token('chat', platform, 'chat-12345')}"
    [entry] = audit
    assert (entry.platform, entry.applies, entry.forced) == (platform, True, True)


def test_force_changes_nothing_on_a_safe_platform() -> None:
    audit: list[RedactionDecision] = []
    decision = Redactor(SECRET, audit=audit.append).decide("Telegram", force=True)
    assert (decision.platform, decision.applies, decision.forced) == ("telegram", True, False)
    assert audit == []


def test_nothing_is_forced_by_default() -> None:
    decision = Redactor(SECRET, audit=lambda _: None).decide("discord")
    assert (decision.applies, decision.forced) == (False, False)


def test_a_decision_has_the_time_of_the_clock() -> None:
    before = datetime.now(UTC)
    at = Redactor(SECRET).decide("telegram").at
    assert at is not None
    assert before <= at <= datetime.now(UTC)


def test_the_audit_goes_to_the_log_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "amux.lifecycle")
    Redactor(SECRET).redact("x", SessionSource("discord", "1"))
    Redactor(SECRET, force_redact_all_platforms=True).redact("x", SessionSource("slack", "1"))
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        (
            "amux.lifecycle",
            "INFO",
            f"redaction does not hide ids on discord: {REDACTION_RULES['discord'].reason}",
        ),
        (
            "amux.lifecycle",
            "INFO",
            "redaction hides ids on slack: a mention is <@U...>, so the model needs the raw id",
        ),
    ]


# Tokens


def test_a_token_is_a_keyed_hash_and_not_a_plain_one() -> None:
    token = Redactor(SECRET).token("user", USER, "telegram")
    assert token == expected_token("user", "telegram", USER)
    assert re.fullmatch(r"user_[0-9a-f]{12,}", token)
    assert hashlib.sha256(USER.encode()).hexdigest()[:12] not in token
    assert Redactor(b"another secret!!").token("user", USER, "telegram") != token


def test_one_id_has_one_token_and_different_ids_have_different_ones() -> None:
    one, two = Redactor(SECRET), Redactor(SECRET)
    tokens = {
        one.token(kind, id, platform)
        for kind in ("user", "chat")
        for id in ("1", "2")
        for platform in ("telegram", "signal")
    }
    assert len(tokens) == 8
    assert one.token("user", "1", "Telegram") == two.token("user", "1", "telegram")


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        Redactor(b"x" * 15)
    assert caught.value.fields == ("secret",)
    assert caught.value.message == "the secret of a redactor must have at least 16 bytes"
    assert caught.value.hint == "use secrets.token_bytes(32)"


# Texts


def test_the_ids_of_a_source_become_tokens_of_their_kind() -> None:
    source = SessionSource(
        "signal",
        "group.aaaaa",
        chat_type="group",
        user_id="+4915112345678",
        user_id_alt="0B7E7DEE-8f3c-4f0a-9a55-1f2f6b8d9a10",
        chat_id_alt="internal1",
        thread_id="topic-99",
    )
    before = msgspec.structs.asdict(source)
    redactor = Redactor(SECRET)
    for field, kind in (
        ("chat_id", "chat"),
        ("chat_id_alt", "chat"),
        ("thread_id", "chat"),
        ("user_id", "user"),
        ("user_id_alt", "user"),
    ):
        id = getattr(source, field)
        assert redactor.redact(f"<{id}>", source) == f"<{expected_token(kind, 'signal', id)}>"
    assert msgspec.structs.asdict(source) == before, "the raw ids stay for routing"


def test_an_id_is_found_in_any_case_and_as_part_of_a_word() -> None:
    source = SessionSource("telegram", "ABCdef")
    token = expected_token("chat", "telegram", "ABCdef")
    assert Redactor(SECRET).redact("xabcDEFx", source) == f"x{token}x"


def test_an_id_that_contains_another_is_replaced_as_a_whole() -> None:
    source = SessionSource("telegram", "abcde12345", user_id="abcde")
    redacted = Redactor(SECRET).redact("abcde12345 abcde", source)
    assert redacted == (
        f"{expected_token('chat', 'telegram', 'abcde12345')} "
        f"{expected_token('user', 'telegram', 'abcde')}"
    )


def test_the_longer_id_comes_first_in_any_case() -> None:
    source = SessionSource("telegram", "ABCDE12345", user_id="abcde")
    redacted = Redactor(SECRET).redact("abcde12345", source)
    assert redacted == expected_token("chat", "telegram", "ABCDE12345")


def test_in_a_label_a_short_id_is_found_inside_a_word() -> None:
    redaction = Redactor(SECRET).for_source(SessionSource("telegram", "ab", user_id="xyz"))
    assert redaction is not None
    chat = expected_token("chat", "telegram", "ab")
    assert redaction.label("c\u200bAB\nd") == f"c{chat} d"
    assert redaction.text("cabd") == "cabd"
    assert redaction.id("xyz") == expected_token("user", "telegram", "xyz")


def test_the_sender_of_a_dm_is_a_user_although_the_chat_has_its_id() -> None:
    source = SessionSource("telegram", USER, user_id=USER)
    assert Redactor(SECRET).redact(USER, source) == expected_token("user", "telegram", USER)


def test_a_short_id_in_a_text_must_stand_alone() -> None:
    source = SessionSource("telegram", "1234", user_id="12345a")
    redactor = Redactor(SECRET)
    chat, user = (
        expected_token("chat", "telegram", "1234"),
        expected_token("user", "telegram", "12345a"),
    )
    assert redactor.redact("1234, 12341 x1234 <1234>", source) == f"{chat}, 12341 x1234 <{chat}>"
    assert redactor.redact("x12345ax", source) == f"x{user}x"
    five = SessionSource("telegram", "abcde")
    assert redactor.redact("xabcde", five) == f"x{expected_token('chat', 'telegram', 'abcde')}"
    four = SessionSource("telegram", "abcd")
    assert redactor.redact("xabcd", four) == "xabcd"


@pytest.mark.parametrize(
    "written",
    [
        "+4915112345678",
        "4915112345678",
        "+49 151 12345678",
        "+49 (151) 1234-5678",
        "+49.151.12345678",
        "49/151/1234\u00a05678",
        "x4915112345678x",
    ],
)
def test_a_number_is_found_however_it_is_written(written: str) -> None:
    source = SessionSource("signal", "group.aaaaa", user_id="+4915112345678")
    token = expected_token("user", "signal", "+4915112345678")
    redacted = Redactor(SECRET).redact(written, source)
    assert redacted.strip("x") == token


def test_the_chats_of_telegram_are_found_without_their_sign() -> None:
    token = expected_token("chat", "telegram", CHAT)
    assert Redactor(SECRET).redact(f"t.me/c/{CHAT[1:]}", TELEGRAM) == f"t.me/c/{token}"
    six = SessionSource("telegram", "-123456")
    assert Redactor(SECRET).redact("x123456", six) == "x123456", "too short for a number"
    seven = SessionSource("telegram", "-1234567")
    assert "1234567" not in Redactor(SECRET).redact("x1234567", seven)


def test_an_address_of_whatsapp_is_found_by_its_number_too() -> None:
    jid = "4915112345678@s.whatsapp.net"
    source = SessionSource("whatsapp", jid)
    token = expected_token("chat", "whatsapp", jid)
    redacted = Redactor(SECRET).redact(f"{jid}, +49 151 12345678", source)
    assert redacted == f"{token}, {token}"
    mail = SessionSource("whatsapp", "ann@example.org")
    assert Redactor(SECRET).redact("ann", mail) == "ann"


def test_a_source_without_ids_has_nothing_to_hide_but_phone_numbers() -> None:
    redactor = Redactor(SECRET)
    assert redactor.redact("a +4915112345678", SessionSource("telegram")) == f"a {PHONE}"


@pytest.mark.parametrize(
    "number",
    [
        "+4915112345678",
        "+1 (555) 123-4567",
        "(555) 123-4567",
        "555-123-4567",
        "5551234567",
        "004915112345678",
        "0151 2345678",
        "(0151) 234567",
        "030/1234567",
        "+1234567",
        "0123456",
        "+٤٩١٥١١٢٣٤٥٦٧٨",
        "+123456789012345",
    ],
)
def test_phone_numbers_disappear(number: str) -> None:
    redact = Redactor(SECRET).redact
    assert PHONE == "[phone number]"
    assert redact(f"call {number}.", TELEGRAM) == "call [phone number]."
    assert redact(f"({number})", TELEGRAM).replace("(", "").replace(")", "") == "[phone number]"


@pytest.mark.parametrize(
    "text",
    [
        "in 2026",
        "123456789",
        "+123456",
        "012345",
        "2026-03-02 12:30:45",
        "2026-03-02T12:30",
        "192.168.100.200",
        "0.1234567",
        "550e8400-e29b-41d4-a716-446655440000",
        "1234567890123456",
        "commit 1234567890ab",
        "v1234567890",
        "a\n12345\n67890\n12345",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert Redactor(SECRET).redact(text, TELEGRAM) == text


def test_a_number_after_a_date_disappears() -> None:
    redacted = Redactor(SECRET).redact("2026-03-02 0151 2345678", TELEGRAM)
    assert "2345678" not in redacted


# Mapping back


def test_tokens_in_a_reply_are_mapped_back_and_unknown_ones_are_left_alone() -> None:
    redactor = Redactor(SECRET)
    token = redactor.redact(USER, TELEGRAM)
    other = "user_0123456789abcdef"
    reply = f"hi @{token}, {token}! not {other}, x{token}, {token}0, {token[:-1]}"
    assert redactor.restore(reply) == (
        f"hi @{USER}, {USER}! not {other}, x{token}, {token}0, {token[:-1]}"
    )
    assert Redactor(SECRET).restore(f"hi @{token}") == f"hi @{token}"


def test_a_mention_of_discord_works_after_mapping_back() -> None:
    redactor = Redactor(SECRET, force_redact_all_platforms=True, audit=lambda _: None)
    source = SessionSource("discord", "chan-1", user_id="112233445566778899")
    redacted = redactor.redact("<@112233445566778899>", source)
    assert "112233445566778899" not in redacted
    assert redactor.restore(redacted) == "<@112233445566778899>"


def test_only_ids_of_the_platform_of_a_reply_are_mapped_back() -> None:
    redactor = Redactor(SECRET)
    token = redactor.token("chat", CHAT, "telegram")
    assert redactor.restore(token, "Telegram") == CHAT
    assert redactor.restore(token, "signal") == token
    assert redactor.restore(token) == CHAT


def test_another_process_maps_tokens_back_with_the_store(store: SessionStore) -> None:
    redacted = Redactor(SECRET, store=store).redact(f"{USER} in {CHAT}", TELEGRAM)
    elsewhere = Redactor(b"of another machine", store=store)
    assert elsewhere.restore(redacted) == f"{USER} in {CHAT}"
    assert elsewhere.restore(redacted, "signal") == redacted
    assert elsewhere.restore("user_0123456789abcdef") == "user_0123456789abcdef"


def test_the_store_is_asked_once_for_each_token() -> None:
    with SessionStore("memory:") as store:
        redactor = Redactor(SECRET, store=store)
        token = redactor.token("user", USER, "telegram")
        [key] = store.log.list_values()
        assert key == ("redaction", token)
        version = store.log.get_value(key)
        store.log.delete_value(key)
        assert redactor.token("user", USER, "telegram") == token
        assert redactor.restore(token) == USER
        assert store.log.list_values() == []
        assert version is not None
        store.log.put_value(key, version.data)
        again = Redactor(SECRET, store=store)
        kept = store.log.get_value(key)
        again.token("user", USER, "telegram")
        assert store.log.get_value(key) == kept, "a known token is not written again"
        reader = Redactor(SECRET, store=store)
        assert reader.restore(token) == USER
        store.log.delete_value(key)
        assert reader.restore(token) == USER


def test_the_tokens_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amux.lifecycle.redaction._KEPT", 3)
    redactor = Redactor(SECRET)
    tokens = [redactor.token("user", str(number), "telegram") for number in range(5)]
    assert [redactor.restore(each) for each in tokens] == [tokens[0], tokens[1], "2", "3", "4"]


# No raw id in a prompt

_digits = st.text("0123456789", min_size=7, max_size=15)
_id = st.one_of(
    _digits,
    _digits.map(lambda digits: f"+{digits}"),
    _digits.map(lambda digits: f"-100{digits}"),
    st.uuids().map(str),
    _digits.map(lambda digits: f"{digits}@s.whatsapp.net"),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=8, max_size=20),
)
_filler = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.data(), st.sampled_from(sorted(PII_SAFE_PLATFORMS)))
@drawn(400)
def test_no_raw_id_is_in_a_prompt_not_even_as_part_of_a_name(
    data: st.DataObject, platform: str
) -> None:
    ids = data.draw(st.lists(_id, min_size=6, max_size=6, unique=True))

    def name() -> str:
        parts = st.lists(st.one_of(_filler, st.sampled_from(ids), st.just("\u200b")), max_size=5)
        text = "".join(data.draw(parts))
        if data.draw(st.booleans()):
            text = text.replace("1", "\uff11").replace("5", "5\u200d")
        return text

    source = SessionSource(
        platform,
        ids[0],
        chat_name=name(),
        chat_type=data.draw(st.sampled_from(["dm", "group", "channel", "thread"])),
        user_id=ids[1],
        user_name=name(),
        thread_id=ids[2],
        chat_topic=name(),
        user_id_alt=ids[3],
        chat_id_alt=ids[4],
    )
    context = SessionContext(
        source=source, home_channels=(HomeChannel("telegram", ids[5], name()),)
    )
    redactor = Redactor(SECRET)
    prompt = build_session_context_prompt(context, redact_pii=True, redactor=redactor)
    for id in ids:
        assume(not any(id.lower() in other.lower() for other in ids if other != id))
        assert id.lower() not in prompt.lower()
        assert id.lstrip("+-").partition("@")[0].lower() not in prompt.lower()
    assert redactor.redact(" ".join(ids), source).count(PHONE) <= 1, "only the home is no id of it"
    back = redactor.restore(redactor.redact(f"{ids[1]} {ids[0]}", source))
    assert back == f"{ids[1]} {ids[0]}"


# The secret


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_secret_is_created_for_the_owner_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "data" / "amux" / "redaction.key"
    secret = load_secret(path)
    assert len(secret) == 32
    assert path.read_bytes() == secret == load_secret(path)
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path], "no draft is left"
    assert load_secret(tmp_path / "other.key") != secret


def test_a_redactor_uses_the_secret_of_the_installation(tmp_path: Path) -> None:
    host = Host(tmp_path, env={"AMUX_DATA_DIR": str(tmp_path / "data")})
    redactor = Redactor(host=host)
    path = tmp_path / "data" / "redaction.key"
    assert not path.exists(), "nothing is written before a token is needed"
    token = redactor.token("user", "1", "telegram")
    assert token == expected_token("user", "telegram", "1", path.read_bytes())
    assert Redactor(host=host).token("user", "1", "telegram") == token
    given_one = Redactor(SECRET, host=host).token("user", "1", "telegram")
    assert given_one == expected_token("user", "telegram", "1")


def test_without_a_host_the_process_says_where_the_secret_is(tmp_path: Path) -> None:
    code = (
        "from amux.lifecycle.redaction import Redactor;"
        "print(Redactor().token('user', '1', 'telegram'))"
    )
    env = child_env(HOME=str(tmp_path), AMUX_DATA_DIR=str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    secret = (tmp_path / "data" / "redaction.key").read_bytes()
    assert done.stdout.strip() == expected_token("user", "telegram", "1", secret)


def test_processes_that_create_the_secret_together_have_one(tmp_path: Path) -> None:
    path = tmp_path / "data" / "redaction.key"
    code = (
        "import sys; from pathlib import Path; from amux.lifecycle.redaction import load_secret;"
        "print('ready', flush=True); sys.stdin.readline();"
        "print(load_secret(Path(sys.argv[1])).hex())"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            env=child_env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    secrets = {child.communicate()[0].strip() for child in children}
    assert secrets == {path.read_bytes().hex()}
    assert list(path.parent.iterdir()) == [path]


def test_a_secret_that_appears_in_between_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the file after this one found that there is none."""
    path = tmp_path / "redaction.key"

    def link(draft: Path, target: Path) -> None:
        assert (draft.stat().st_size, mode_of(draft)) == (32, 0o600)
        target.write_bytes(b"y" * 32)
        raise FileExistsError(17, "exists")

    monkeypatch.setattr("amux.lifecycle.redaction.os.link", link)
    assert load_secret(path) == b"y" * 32
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_damaged_secret_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "redaction.key"
    path.write_bytes(b"x" * size)
    with pytest.raises(ConfigError) as caught:
        load_secret(path)
    assert caught.value.code is ErrorCode.CONFIG_ERROR
    assert caught.value.message == f"`{path}` is not a secret of 32 bytes"
    assert caught.value.hint == "remove it to get a new one; the same ids have other tokens then"
    assert path.stat().st_size == size


def test_a_secret_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "redaction.key"
    with pytest.raises(ConfigError) as caught:
        load_secret(path)
    assert caught.value.message == (
        f"the secret of the redaction in `{path}` cannot be used (Not a directory)"
    )
    assert caught.value.hint == "pass `secret` to the Redactor, or set AMUX_DATA_DIR"
