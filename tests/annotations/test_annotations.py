"""Tags, stars and notes added through the client appear wherever sessions are shown."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from builders import NOW, open_client, run_cost, uuid_of, write_runs
from notebook import ONE, OTHER, TWO, file_of, furnish, line, write_file

from amux import AmbiguousIdError, AmuxError, ErrorCode, SessionNotFoundError, ValidationError
from amux.client import Client, create_demo_client
from amux.model.options import ExportFormat
from amux.testing import fingerprint


@pytest.fixture
def client(home: Path) -> Client:
    return furnish(home)


def test_tags_are_kept_in_order_and_once(client: Client) -> None:
    client.annotations.tag(ONE, "b", " a ", "b")
    found = client.annotations.tag(ONE, "a", "c")
    assert found.tags == ("b", "a", "c")
    assert client.annotations.untag(ONE, "a", "never").tags == ("b", "c")
    assert client.annotations.of(ONE).tags == ("b", "c")
    assert client.annotations.of(TWO).tags == ()


def test_nothing_is_written_when_nothing_changes(client: Client, home: Path) -> None:
    client.annotations.tag(ONE, "a")
    client.annotations.star(ONE)
    before = file_of(home).read_bytes()
    client.annotations.tag(ONE, "a")
    client.annotations.star(ONE)
    client.annotations.untag(ONE, "b")
    client.annotations.unstar(TWO)
    assert file_of(home).read_bytes() == before


@pytest.mark.parametrize(
    "tag",
    [
        "",
        "  ",
        "a b",
        "a,b",
        "a\tb",
        "a\x00b",
        "a\x1b[31m",
        "a\u202eb",
        "a\u200bb",
        "a\ud800",
        "x" * 101,
    ],
)
def test_a_tag_is_one_visible_word(client: Client, home: Path, tag: str) -> None:
    with pytest.raises(ValidationError) as caught:
        client.annotations.tag(ONE, "fine", tag)
    assert (caught.value.fields, caught.value.hint is not None) == (("tags",), True)
    assert not file_of(home).exists()


@pytest.mark.parametrize("tag", ["to-review", "#12", "日本", "🎉", "a:b", "-x", "x" * 100])
def test_any_visible_word_is_a_tag(client: Client, tag: str) -> None:
    assert client.annotations.tag(ONE, tag).tags == (tag,)


def test_no_tag_at_all_is_refused(client: Client) -> None:
    with pytest.raises(ValidationError):
        client.annotations.tag(ONE)
    with pytest.raises(ValidationError):
        client.annotations.untag(ONE)


def test_notes_are_numbered_and_a_number_is_never_given_again(client: Client) -> None:
    manager = client.annotations
    assert [manager.add_note(ONE, text) for text in ("one", " two\nlines ", "three")] == [1, 2, 3]
    assert [note.text for note in manager.of(ONE).notes] == ["one", "two\nlines", "three"]
    assert manager.of(ONE).notes[0].at == NOW
    manager.remove_note(ONE, 1)
    manager.remove_note(ONE, 3)
    assert [note.number for note in manager.of(ONE).notes] == [2]
    assert manager.add_note(ONE, "four") == 4
    assert manager.add_note(TWO, "elsewhere") == 1


def test_a_missing_note_cannot_be_removed(client: Client) -> None:
    client.annotations.add_note(ONE, "one")
    with pytest.raises(ValidationError) as caught:
        client.annotations.remove_note(ONE, 2)
    assert caught.value.hint == "notes of this session: 1"
    with pytest.raises(ValidationError):
        client.annotations.remove_note(TWO, 1)


@pytest.mark.parametrize("text", ["", " \n ", "x" * 65_537, "half \udc80"])
def test_an_empty_note_is_refused(client: Client, text: str) -> None:
    with pytest.raises(ValidationError):
        client.annotations.add_note(ONE, text)


def test_a_session_is_found_by_title_id_and_prefix(client: Client) -> None:
    client.annotations.tag("first", "by-title")
    client.annotations.tag(uuid_of(1), "by-id")
    client.annotations.tag("00000001", "by-prefix", agent="claude")
    assert client.annotations.of(ONE).tags == ("by-title", "by-id", "by-prefix")
    with pytest.raises(AmbiguousIdError):
        client.annotations.star("0000000")


def test_only_what_exists_can_be_annotated(client: Client, home: Path) -> None:
    for change in (client.annotations.star, client.annotations.unstar, client.annotations.of):
        with pytest.raises(SessionNotFoundError):
            change("claude:nobody")
    assert not file_of(home).exists()


def test_tags_of_a_person_unite_with_those_of_runs(client: Client, home: Path) -> None:
    runs = {"sessionId": uuid_of(1), "tags": ["nightly", "both"], "cost": run_cost(1.0)}
    write_runs(home, runs)
    client.annotations.tag(ONE, "both", "mine")
    client.annotations.tag(TWO, "mine")
    assert client.sessions.get("claude", uuid_of(1)).tags == ("nightly", "both", "mine")
    assert client.annotations.tags() == {"both": 1, "mine": 2, "nightly": 1}
    for tag, sessions in {"nightly": {ONE}, "both": {ONE}, "mine": {ONE, TWO}}.items():
        assert {s.unified_id for s in client.sessions.list("claude", tags=[tag])} == sessions
        found = client.sessions.search("first OR second", tags=[tag])
        assert {s.unified_id for s in found} == sessions
    groups = client.sessions.total_cost(group_by="tag").breakdowns
    assert groups is not None
    assert {key: group.session_count for key, group in groups.items()} == {
        "nightly": 1,
        "both": 1,
        "mine": 2,
        "untagged": 1,
    }
    assert client.sessions.total_cost(tags=["mine"]).session_count == 2
    assert client.annotations.untag(ONE, "nightly").tags == ("both", "mine")
    assert "nightly" in client.sessions.get("claude", uuid_of(1)).tags


def test_stars_and_notes_are_on_the_session_and_absent_when_there_are_none(client: Client) -> None:
    client.annotations.star(ONE)
    client.annotations.add_note(ONE, "look here")
    starred = client.sessions.get("claude", uuid_of(1))
    assert (starred.starred, [note.text for note in starred.notes]) == (True, ["look here"])
    plain = client.sessions.get("claude", uuid_of(2)).to_dict()
    assert plain.keys().isdisjoint({"starred", "notes"})
    listed = {s.unified_id: s.starred for s in client.sessions.list("claude")}
    assert listed == {ONE: True, TWO: False}
    assert [s.unified_id for s in client.sessions.list("claude", starred=True)] == [ONE]
    assert [s.starred for s in client.sessions.search("first")] == [True]
    assert [s.unified_id for s in client.overview().recent if s.starred] == [ONE]


@pytest.mark.parametrize("format", get_args(ExportFormat))
def test_exports_show_what_was_added(client: Client, format: ExportFormat) -> None:
    client.annotations.tag(ONE, "flaky")
    client.annotations.star(ONE)
    client.annotations.add_note(ONE, "look <b>here</b>")
    text = "".join(client.stream_export("claude", uuid_of(1), format))
    assert "flaky" in text
    assert "tarred" in text
    assert "look" in text
    if format in ("markdown", "html"):
        assert "<b>" not in text.replace("\\<b", "")


def test_a_change_by_another_client_is_seen_at_once(client: Client, home: Path) -> None:
    assert client.sessions.list("claude", tags=["late"]) == []
    furnish(home).annotations.tag(ONE, "late")
    assert [s.unified_id for s in client.sessions.list("claude", tags=["late"])] == [ONE]


def test_annotations_outlive_their_session(client: Client, home: Path) -> None:
    client.annotations.tag(ONE, "kept")
    client.annotations.star(OTHER)
    client.annotations.star(TWO)
    client.annotations.add_note(ONE, "still here")
    assert client.lost_annotations() == ()
    for path in (home / ".claude").rglob(f"{uuid_of(1)}.jsonl"):
        path.unlink()
    for path in (home / ".codex").rglob("*.jsonl"):
        path.unlink()
    assert client.lost_annotations() == (ONE, OTHER)
    assert client.lost_annotations("codex") == (OTHER,)
    assert client.annotations.of(ONE).tags == ("kept",)
    with pytest.raises(SessionNotFoundError):
        client.annotations.tag(ONE, "more")
    client.annotations.untag(ONE, "kept")
    client.annotations.remove_note(uuid_of(1)[:12], 1)
    client.annotations.unstar("codex:0000")
    assert client.lost_annotations() == ()


def test_annotations_of_an_unknown_agent_can_still_be_removed(home: Path) -> None:
    client = furnish(home)
    write_file(home, line("star", session="gone:1"), line("star", session="gone:12"))
    assert client.lost_annotations() == ("gone:1", "gone:12")
    client.annotations.unstar("gone:1")
    assert [entry.unified_id for entry in client.annotations.entries()] == ["gone:12"]


def test_the_agents_own_files_stay_as_they_are(client: Client, home: Path) -> None:
    stores = [home / ".claude", home / ".codex"]
    before = [fingerprint(store) for store in stores]
    client.annotations.tag(ONE, "a")
    client.annotations.add_note(OTHER, "b")
    assert [fingerprint(store) for store in stores] == before


def test_reading_leaves_no_file(client: Client, home: Path) -> None:
    client.sessions.list("claude")
    client.annotations.tags()
    client.annotations.of(ONE)
    assert not file_of(home).parent.exists()


def test_an_error_names_the_unwritable_location(home: Path) -> None:
    furnish(home)
    (home / "blocked").write_text("a file")
    client = open_client(home, env={"AMUX_DATA_DIR": str(home / "blocked" / "amux")})
    with pytest.raises(AmuxError, match="blocked") as caught:
        client.annotations.star(ONE)
    assert caught.value.code == ErrorCode.STORE_ERROR
    assert "AMUX_DATA_DIR" in str(caught.value.hint)


def test_the_sample_sessions_cannot_be_annotated() -> None:
    client = create_demo_client()
    session = client.overview().recent[0].unified_id
    with pytest.raises(ValidationError, match="sample"):
        client.annotations.star(session)
    assert client.annotations.entries() == ()
