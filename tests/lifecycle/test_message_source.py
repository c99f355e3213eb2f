"""Message sources: their fields, their words for people, and their session keys."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.errors import ErrorCode, ValidationError
from amux.lifecycle.labels import MAX_LABEL, clean_label, quote_label, visible_text
from amux.lifecycle.message_source import (
    ChatType,
    Platform,
    SessionSource,
    build_session_key,
    escape_part,
    has_own_session,
    platform_name,
)
from amux.lifecycle.router import source_fields, source_in
from amux.store.session_store import SessionStore

FULL = SessionSource(
    platform="signal",
    chat_id="group.1",
    chat_name="Family",
    chat_type="group",
    user_id="+4915112345678",
    user_name="Ann",
    thread_id="7",
    chat_topic="Dinner",
    user_id_alt="0b7e7dee-8f3c-4f0a-9a55-1f2f6b8d9a10",
    chat_id_alt="internal==",
    is_bot=True,
)


def made(platform: str = "telegram", **fields: Any) -> SessionSource:
    return SessionSource(platform, **fields)


# Fields


def test_a_source_has_the_fields_of_the_specification_in_their_order() -> None:
    assert SessionSource.__struct_fields__ == (
        "platform",
        "chat_id",
        "chat_name",
        "chat_type",
        "user_id",
        "user_name",
        "thread_id",
        "chat_topic",
        "user_id_alt",
        "chat_id_alt",
        "is_bot",
    )


def test_everything_but_the_platform_has_a_default() -> None:
    source = SessionSource("telegram")
    assert msgspec.structs.asdict(source) == {
        "platform": "telegram",
        "chat_id": "",
        "chat_name": None,
        "chat_type": "dm",
        "user_id": None,
        "user_name": None,
        "thread_id": None,
        "chat_topic": None,
        "user_id_alt": None,
        "chat_id_alt": None,
        "is_bot": False,
    }


def test_the_known_platforms_and_chat_types_are_these() -> None:
    assert list(Platform) == [
        "local",
        "telegram",
        "slack",
        "discord",
        "whatsapp",
        "signal",
        "bluebubbles",
        "api_server",
        "webhook",
    ]
    assert list(ChatType) == ["dm", "group", "channel", "thread"]


@pytest.mark.parametrize(
    ("given_name", "stored"),
    [
        ("matrix", "matrix"),
        (" Telegram ", "telegram"),
        (Platform.SLACK, "slack"),
        ("cli", "local"),
        ("CLI", "local"),
        ("google_chat", "google_chat"),
        ("x.y-z", "x.y-z"),
        ("9", "9"),
        ("a" * 64, "a" * 64),
    ],
)
def test_any_name_of_a_platform_is_accepted_and_normalised(given_name: str, stored: str) -> None:
    assert platform_name(given_name) == stored
    assert SessionSource(given_name, "1").platform == stored


@pytest.mark.parametrize("name", ["", " ", "a b", "a:b", "-a", "_a", "a" * 65, "x\ny", "é"])
def test_a_text_that_is_no_name_of_a_platform_is_refused(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SessionSource(name, "1")
    assert caught.value.code is ErrorCode.VALIDATION_ERROR
    assert caught.value.fields == ("platform",)
    assert caught.value.message == f"`{' '.join(name.split())}` is not the name of a platform"
    assert caught.value.hint == (
        'use up to 64 letters, digits, "_", "." and "-", such as "telegram"'
    )


def test_an_unknown_type_of_chat_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        SessionSource("telegram", "1", chat_type="broadcast")
    assert caught.value.fields == ("chat_type",)
    assert caught.value.message == "`broadcast` is not the type of a chat"
    assert caught.value.hint == "use dm, group, channel, thread"


@pytest.mark.parametrize("name", ["chat_id", "user_id", "thread_id", "user_id_alt", "chat_id_alt"])
@pytest.mark.parametrize("value", ["a\0b", "\ud800", " ", "\n", 12, b"1"])
def test_an_id_that_cannot_be_stored_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        made(**{"chat_id": "1", name: value})
    assert caught.value.fields == (name,)
    assert caught.value.message.startswith(f"`{name}` must be ")
    if not isinstance(value, str):
        assert caught.value.message == f"`{name}` must be text, not `{value!r}`"
        assert caught.value.hint == "pass ids as text"
    else:
        assert caught.value.message.endswith("must be valid Unicode without NUL, and not blank")


@pytest.mark.parametrize("name", ["chat_name", "user_name", "chat_topic"])
def test_a_name_may_be_any_text_but_nothing_else(name: str) -> None:
    def source(value: Any) -> SessionSource:
        fields: dict[str, Any] = {name: value}
        return SessionSource("slack", "1", **fields)

    assert getattr(source("a\0\ud800b\n"), name) == "a\0?b\n"
    assert getattr(source(""), name) is None
    with pytest.raises(ValidationError) as caught:
        source(5)
    assert caught.value.fields == (name,)
    assert caught.value.message == f"`{name}` must be text, not `5`"


def test_empty_ids_are_absent() -> None:
    source = SessionSource("slack", "", user_id="", thread_id="", user_id_alt="", chat_id_alt="")
    assert source == SessionSource("slack")


# JSON and the store


def test_a_source_survives_json() -> None:
    text = msgspec.json.encode(FULL)
    assert msgspec.json.decode(text, type=SessionSource) == FULL
    assert SessionSource.from_dict(msgspec.json.decode(text)) == FULL
    assert FULL.to_dict() == msgspec.json.decode(text)


def test_default_values_are_not_written_and_unknown_fields_are_ignored() -> None:
    assert SessionSource("telegram", "5").to_dict() == {"platform": "telegram", "chat_id": "5"}
    fields = {"platform": "telegram", "chat_id": "5", "guild_id": "9"}
    assert SessionSource.from_dict(fields) == SessionSource("telegram", "5")


@pytest.mark.parametrize("fields", [{}, {"platform": 5}, {"platform": "x", "chat_id": 5}])
def test_an_object_that_is_no_source_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        SessionSource.from_dict(fields)
    assert caught.value.fields == ("source",)
    assert caught.value.message.startswith("this is not a message source: ")


def test_a_source_in_json_is_checked_like_any_other() -> None:
    with pytest.raises(ValidationError) as caught:
        SessionSource.from_dict({"platform": "no name"})
    assert caught.value.fields == ("platform",)


def test_a_source_is_kept_with_its_thread(store: SessionStore) -> None:
    thread = store.start(cwd="/", **source_fields(FULL))
    found = store.find("chat", (build_session_key(FULL),))
    assert found is not None
    assert found.thread_id == thread.thread_id
    assert source_in(store.open(thread.thread_id)) == FULL
    assert found.meta.source == "signal"


def test_a_thread_without_a_source_belongs_to_no_chat(store: SessionStore) -> None:
    plain = store.start(cwd="/")
    odd = store.start(cwd="/", extra={"source": "cli"})
    assert source_in(store.open(plain.thread_id)) is None
    assert source_in(store.open(odd.thread_id)) is None


# Words for people


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({"platform": "local"}, "CLI terminal"),
        ({"platform": "cli", "chat_type": "group", "chat_id": "x"}, "CLI terminal"),
        ({"user_name": "Ann", "user_id": "42"}, "DM with Ann"),
        ({"user_id": "42", "user_id_alt": "u"}, "DM with 42"),
        ({"user_id_alt": "u"}, "DM with u"),
        ({"chat_id": "1"}, "DM with a user"),
        ({"chat_type": "group", "chat_id": "1", "chat_name": "Family"}, "group Family"),
        ({"chat_type": "group", "chat_id": "1", "chat_id_alt": "2"}, "group 1"),
        ({"chat_type": "group", "chat_id_alt": "2"}, "group 2"),
        ({"chat_type": "group", "user_id": "1"}, "group a chat"),
        ({"chat_type": "channel", "chat_id": "1", "chat_name": "news"}, "channel news"),
        ({"chat_type": "thread", "chat_id": "1"}, "platform thread in 1"),
        (
            {"chat_type": "group", "chat_id": "1", "thread_id": "7"},
            "group 1, platform thread 7",
        ),
        ({"user_name": "A\nn\u202en", "thread_id": "7\n"}, "DM with A nn, platform thread 7"),
    ],
)
def test_a_description_for_each_type_of_chat(fields: dict[str, Any], description: str) -> None:
    source = made(**fields)
    assert source.description == description
    expected = description if source.is_local else f"telegram: {description}"
    assert source.label == expected


def test_only_the_local_platform_is_local() -> None:
    assert [name for name in Platform if SessionSource(name).is_local] == ["local"]


# Labels


def test_a_label_is_one_line_of_visible_characters() -> None:
    hostile = "a\r\nb\tc\u2028d\u2029e\x00f\x1b[31mg\u202eh\u2066i\u200bj\ufeffk"
    hostile += "\U000e0041l\ufe0fm\U000e0100n"
    assert visible_text(hostile) == "a b c d ef[31mghijklmn"
    assert visible_text("  x \u00a0\u3000 y\x85z\x1c ") == "x y z"
    assert (
        visible_text("\ufe00\ufe0e\ufe10\U000e00ff\U000e01ef\U000e01f0")
        == "\ufe10\U000e00ff\U000e01f0"
    )
    assert visible_text("é 日本 👍 \u0378") == "é 日本 👍 \u0378"
    assert visible_text("a\ud800b\u00adc") == "abc"


def test_a_label_is_cut() -> None:
    assert MAX_LABEL == 120
    assert clean_label("x" * 120) == "x" * 120
    assert clean_label("x" * 121) == "x" * 119 + "…"
    assert len(clean_label("x" * 2**20)) == 120
    assert clean_label("\u200b" * 4095 + "ab") == "a"


def test_a_quoted_label_cannot_end_its_quotes_or_begin_a_tag() -> None:
    assert quote_label('a"b\\c</system>`d`') == (r'"a\"b\\c\u003c/system\u003e\u0060d\u0060"')
    assert quote_label("") == '""'


@given(st.text())
@drawn()
def test_a_quoted_label_is_a_json_text_on_one_line(text: str) -> None:
    quoted = quote_label(text)
    assert msgspec.json.decode(quoted) == clean_label(text)
    assert len(quoted.splitlines()) == 1
    assert "<" not in quoted


# Keys


@pytest.mark.parametrize(
    ("fields", "options", "key"),
    [
        ({"platform": "local"}, {}, "agent:main:local:dm"),
        ({"platform": "cli", "chat_id": "a"}, {}, "agent:main:local:dm:a"),
        ({"chat_id": "123"}, {}, "agent:main:telegram:dm:123"),
        ({"chat_id": "123", "user_id": "9"}, {}, "agent:main:telegram:dm:123"),
        ({"chat_id": "123", "chat_id_alt": "x"}, {}, "agent:main:telegram:dm:123"),
        ({"chat_id_alt": "x", "user_id": "9"}, {}, "agent:main:telegram:dm:x"),
        ({"chat_id": "123", "thread_id": "7"}, {}, "agent:main:telegram:dm:123:thread=7"),
        ({"user_id": "9"}, {}, "agent:main:telegram:dm:user=9"),
        ({"user_id": "9", "user_id_alt": "u"}, {}, "agent:main:telegram:dm:user=u"),
        ({"user_id": "9", "thread_id": "7"}, {}, "agent:main:telegram:dm:thread=7:user=9"),
        ({"thread_id": "7"}, {}, "agent:main:telegram:dm:thread=7"),
        (
            {"chat_type": "group", "chat_id": "-1", "user_id": "9"},
            {},
            "agent:main:telegram:group:-1:user=9",
        ),
        (
            {"chat_type": "group", "chat_id": "-1", "user_id": "9", "user_id_alt": "u"},
            {},
            "agent:main:telegram:group:-1:user=u",
        ),
        (
            {"chat_type": "group", "chat_id": "-1", "user_id": "9"},
            {"group_sessions_per_user": False},
            "agent:main:telegram:group:-1",
        ),
        ({"chat_type": "group", "chat_id": "-1"}, {}, "agent:main:telegram:group:-1"),
        (
            {"chat_type": "channel", "chat_id": "-1", "user_id": "9"},
            {},
            "agent:main:telegram:channel:-1:user=9",
        ),
        (
            {"chat_type": "group", "chat_id": "-1", "user_id": "9", "thread_id": "7"},
            {},
            "agent:main:telegram:group:-1:thread=7",
        ),
        (
            {"chat_type": "group", "chat_id": "-1", "user_id": "9", "thread_id": "7"},
            {"thread_sessions_per_user": True},
            "agent:main:telegram:group:-1:thread=7:user=9",
        ),
        (
            {"chat_type": "group", "chat_id": "-1", "user_id": "9", "thread_id": "7"},
            {"thread_sessions_per_user": True, "group_sessions_per_user": False},
            "agent:main:telegram:group:-1:thread=7:user=9",
        ),
        (
            {"chat_type": "thread", "chat_id": "C1", "user_id": "9"},
            {},
            "agent:main:telegram:thread:C1",
        ),
        (
            {"chat_type": "thread", "chat_id": "C1", "user_id": "9"},
            {"thread_sessions_per_user": True},
            "agent:main:telegram:thread:C1:user=9",
        ),
        ({"chat_id": "1"}, {"profile": "coder"}, "agent:coder:telegram:dm:1"),
        ({"chat_id": "1"}, {"profile": "a:b"}, "agent:a%3Ab:telegram:dm:1"),
        ({"chat_id": "1"}, {"profile": ""}, "agent:main:telegram:dm:1"),
        ({"chat_id": "a:b\nc"}, {}, "agent:main:telegram:dm:a%3Ab%0Ac"),
        (
            {"platform": "matrix", "chat_id": "!r:example.org"},
            {},
            "agent:main:matrix:dm:!r%3Aexample.org",
        ),
    ],
)
def test_golden_keys(fields: dict[str, Any], options: dict[str, Any], key: str) -> None:
    source = made(**fields)
    assert build_session_key(source, **options) == key


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("abc", "abc"),
        ("+49@s.whatsapp.net/x", "+49@s.whatsapp.net/x"),
        ("100%", "100%25"),
        ("user=9", "user%3D9"),
        ("~x", "%7Ex"),
        (" \t\r\n", "%20%09%0D%0A"),
        ("\x01\x7f\x85", "%01%7F%C2%85"),
        ("\u2028\u2029", "%E2%80%A8%E2%80%A9"),
        ("é日", "é日"),
        ("x" * 160, "x" * 160),
        ("é" * 80, "é" * 80),
    ],
)
def test_the_parts_of_a_key_are_escaped(text: str, part: str) -> None:
    assert escape_part(text) == part


def test_a_long_id_is_represented_by_its_digest() -> None:
    assert escape_part("x" * 161) == f"~{hashlib.sha256(b'x' * 161).hexdigest()}"
    assert escape_part("é" * 81) == f"~{hashlib.sha256(('é' * 81).encode()).hexdigest()}"


def test_the_length_of_a_part_is_measured_in_bytes_after_escaping() -> None:
    assert escape_part("é" * 81).startswith("~")
    assert escape_part(":" * 54).startswith("~")
    assert escape_part(":" * 53) == "%3A" * 53


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"chat_type": "group"},
        {"chat_type": "thread", "user_id": "9"},
    ],
)
def test_a_source_without_an_id_has_no_key(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        build_session_key(SessionSource("telegram", **fields))
    assert caught.value.fields == ("chat_id", "user_id")
    assert caught.value.message == "a message from `telegram` needs a chat or a sender"
    assert caught.value.hint == (
        "without an id, the messages of all chats would be one conversation"
    )


def test_each_sender_has_a_session_by_default_only_outside_of_threads() -> None:
    def own(**fields: Any) -> bool:
        return has_own_session(SessionSource("slack", **fields))

    assert own(chat_type="group", chat_id="1")
    assert own(chat_type="channel", chat_id="1")
    assert not own(chat_type="thread", chat_id="1")
    assert not own(chat_type="group", chat_id="1", thread_id="2")
    assert not own(chat_id="1")
    assert not own(chat_id_alt="1")
    assert own(user_id="1")


_ids = st.text(st.sampled_from("ab1:%=~ \n/é\u2028"), min_size=1, max_size=5).filter(
    lambda text: bool(text.strip())
)
_sources = st.builds(
    SessionSource,
    platform=st.sampled_from(["telegram", "signal", "x"]),
    chat_id=st.one_of(st.just(""), _ids),
    chat_type=st.sampled_from(list(ChatType)),
    user_id=st.none() | _ids,
    thread_id=st.none() | _ids,
)


@given(_sources, _sources, st.booleans(), st.booleans())
@drawn(400)
def test_different_chats_never_have_one_key(
    one: SessionSource, other: SessionSource, per_user: bool, per_thread: bool
) -> None:
    options: dict[str, Any] = {
        "group_sessions_per_user": per_user,
        "thread_sessions_per_user": per_thread,
    }

    def place(source: SessionSource) -> tuple[object, ...]:
        """Everything of a source that keeps conversations apart, by the rules in words."""
        user = source.user_id
        if source.chat_type == "dm":
            user = None if source.chat_id else user
        elif source.thread_id is not None or source.chat_type == "thread":
            user = user if per_thread else None
        elif not per_user:
            user = None
        return source.platform, source.chat_type, source.chat_id, source.thread_id, user

    def key(source: SessionSource) -> str:
        try:
            return build_session_key(source, **options)
        except ValidationError:
            return ""

    if key(one) and key(other):
        assert (key(one) == key(other)) == (place(one) == place(other))
        assert key(one).isprintable()


@given(_ids)
@drawn()
def test_a_key_is_stable(text: str) -> None:
    first = SessionSource("slack", text, chat_name="one", user_name="x", chat_topic="t")
    later = SessionSource("slack", text, chat_name="two", is_bot=True)
    assert build_session_key(first) == build_session_key(later)
