"""A log grows entry by entry, whoever writes it, and gives a resumed model what it needs."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from entry_samples import Clock, Json, answer, call, lines_of, result, texts, user

from amux import EntryLog, Host, ParseError, StoreError, ValidationError, parse_messages
from amux.model.problems import Problem

CWD = "/home/user/project"


@pytest.fixture
def log(tmp_path: Path) -> EntryLog:
    return EntryLog.create(tmp_path / "sessions", CWD, now=Clock(step=1))


def entries(log: EntryLog) -> list[Json]:
    return lines_of(log.file_path.read_bytes())[1:]


def read_again(log: EntryLog) -> EntryLog:
    return EntryLog.load(log.file_path.parent, log.id)


def test_a_new_log_has_an_id_a_folder_and_no_entry(log: EntryLog) -> None:
    assert len(log.id) == 36
    assert (log.cwd, log.leaf_id, log.messages(), log.problems) == (CWD, None, [], ())


def test_the_directory_is_created_for_the_owner_alone(tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path / "new" / "sessions", CWD)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (log.file_path.parent, log.file_path)]
    assert modes == [0o700, 0o600]


def test_the_directory_of_a_program_follows_the_settings_folder(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert EntryLog.sessions_dir("mine", host) == tmp_path / ".config" / "mine" / "sessions"
    moved = Host(tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path / "x")}, platform="darwin")
    assert EntryLog.sessions_dir("mine", moved) == tmp_path / "x" / "mine" / "sessions"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "/etc", "a\\b", "a\nb"])
def test_a_program_cannot_name_any_other_directory(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        EntryLog.sessions_dir(name, Host(tmp_path))


def test_many_logs_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    logs = [EntryLog.create(tmp_path, CWD, now=Clock(), fsync="never") for _ in range(100)]
    assert len({log.file_path for log in logs}) == 100


def test_every_entry_names_the_one_before_it(log: EntryLog) -> None:
    ids = [log.append_message(user("a")), log.append_message(answer("b"))]
    ids.append(log.append_compaction("s", ids[1], 7))
    ids.append(log.append_message(user("c")))
    assert [entry["id"] for entry in entries(log)] == ids
    assert [entry["parent_id"] for entry in entries(log)] == ["", *ids[:-1]]
    assert log.leaf_id == ids[-1]
    assert len(set(ids)) == 4


def test_a_loaded_log_goes_on_where_it_ended(log: EntryLog) -> None:
    last = log.append_message(user("a"))
    again = read_again(log)
    assert (again.id, again.cwd, again.leaf_id) == (log.id, CWD, last)
    again.append_message(answer("b"))
    assert entries(log)[-1]["parent_id"] == last
    assert texts(log.messages()) == ["a", "b"]


def test_two_writers_of_one_log_make_one_chain(log: EntryLog) -> None:
    other = read_again(log)
    ids = [(log if number % 3 else other).append_message(user(str(number))) for number in range(10)]
    assert [entry["id"] for entry in entries(log)] == ids
    assert [entry["parent_id"] for entry in entries(log)] == ["", *ids[:-1]]


def test_threads_may_share_a_log(log: EntryLog) -> None:
    def write() -> None:
        for number in range(40):
            log.append_message(user(str(number)))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = entries(log)
    assert len(written) == 160
    assert [each["parent_id"] for each in written[1:]] == [each["id"] for each in written[:-1]]


def test_a_half_written_line_of_another_program_is_read_once_it_is_whole(log: EntryLog) -> None:
    foreign = {"type": "message", "id": "ffffffff", "role": "user", "message": user("theirs")}
    line = json.dumps(foreign).encode() + b"\n"
    with log.file_path.open("ab", buffering=0) as stream:
        stream.write(line[:20])
        loaded = read_again(log)
        stream.write(line[20:])
    loaded.append_message(user("ours"))
    assert entries(log)[-1]["parent_id"] == "ffffffff"
    assert texts(loaded.messages()) == ["theirs", "ours"]


def test_a_torn_line_costs_itself_alone_and_is_reported(log: EntryLog) -> None:
    first = log.append_message(user("kept"))
    with log.file_path.open("ab") as stream:
        stream.write(b'{"type":"message","id":"to')
    assert [problem.code for problem in read_again(log).problems] == ["torn-tail"]
    log.append_message(user("after"))
    assert log.file_path.read_bytes().splitlines()[2] == b'{"type":"message","id":"to'
    assert texts(log.messages()) == ["kept", "after"]
    assert [(each.code, each.line, each.path) for each in log.problems] == [
        ("bad-line", 3, str(log.file_path))
    ]
    assert json.loads(log.file_path.read_bytes().splitlines()[3])["parent_id"] == first


def test_a_last_line_without_its_line_break_counts(log: EntryLog) -> None:
    log.append_message(user("a"))
    whole = log.file_path.read_bytes()
    log.file_path.write_bytes(whole[:-1])
    again = read_again(log)
    assert again.problems == ()
    assert texts(again.messages()) == ["a"]
    again.append_message(user("b"))
    assert texts(again.messages()) == ["a", "b"]


def test_the_summary_replaces_everything_before_the_first_kept_message(log: EntryLog) -> None:
    ids = [log.append_message(user(text)) for text in "abcd"]
    log.append_compaction("The alphabet.", ids[2], 100)
    log.append_message(user("e"))
    summary, *kept = texts(log.messages())
    assert "<summary>\nThe alphabet.\n</summary>" in summary
    assert kept == ["c", "d", "e"]
    assert len(entries(log)) == 6, "nothing was removed"


def test_only_the_last_of_several_compactions_counts(log: EntryLog) -> None:
    ids = [log.append_message(user(text)) for text in "abcd"]
    log.append_compaction("first", ids[1], 1)
    ids.append(log.append_message(user("e")))
    log.append_compaction("second", ids[3], 1)
    log.append_message(user("f"))
    summary, *kept = texts(log.messages())
    assert "second" in summary
    assert "first" not in summary
    assert kept == ["d", "e", "f"]


def test_a_compaction_can_keep_nothing(log: EntryLog) -> None:
    log.append_message(user("a"))
    log.append_compaction("all", "", 1)
    assert len(log.messages()) == 1
    log.append_message(user("b"))
    assert texts(log.messages())[1:] == ["b"]
    assert log.problems == ()


def test_a_compaction_cannot_keep_what_is_not_there(log: EntryLog) -> None:
    log.append_message(user("a"))
    compaction = log.append_compaction("s", "", 1)
    before = log.file_path.read_bytes()
    for unknown in ("ffffffff", compaction):
        with pytest.raises(ValidationError) as caught:
            log.append_compaction("s", unknown, 1)
        assert unknown in caught.value.message
    assert log.file_path.read_bytes() == before


def test_a_compaction_can_keep_a_message_of_another_writer(log: EntryLog) -> None:
    id = read_again(log).append_message(user("theirs"))
    log.append_compaction("s", id, 1)
    assert texts(log.messages())[1:] == ["theirs"]


def test_a_foreign_compaction_with_an_unknown_entry_keeps_what_follows(log: EntryLog) -> None:
    log.append_message(user("a"))
    foreign = {"type": "compaction", "id": "c", "summary": "s", "first_kept_entry_id": "gone"}
    with log.file_path.open("a") as stream:
        stream.write(json.dumps(foreign) + "\n")
    log.append_message(user("b"))
    assert texts(log.messages())[1:] == ["b"]
    (problem,) = log.problems
    assert (problem.code, problem.line) == ("bad-record", 3)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "message"},
        {"type": "message", "role": "user"},
        {"type": "message", "role": "user", "message": []},
        {"type": "message", "role": "user", "message": {}},
        {"type": "message", "role": "oracle", "message": {"content": "x"}},
        {"type": "message", "message": {"role": 7, "content": "x"}},
    ],
)
def test_a_message_that_cannot_be_read_is_skipped_and_reported(entry: Json, log: EntryLog) -> None:
    log.append_message(user("a"))
    with log.file_path.open("a") as stream:
        stream.write(json.dumps(entry) + "\n")
    log.append_message(user("b"))
    assert texts(log.messages()) == ["a", "b"]
    assert [(problem.code, problem.line) for problem in log.problems] == [("bad-record", 3)]


def test_a_message_without_its_role_has_that_of_its_entry() -> None:
    entry = b'{"type":"message","role":"user","message":{"content":[]}}'
    assert parse_messages(entry) == [{"role": "user", "content": []}]


def test_entries_of_other_types_are_no_problem(log: EntryLog) -> None:
    with log.file_path.open("a") as stream:
        stream.write('{"type":"poem"}\n{}\n\n')
    log.append_message(user("a"))
    assert (texts(log.messages()), log.problems) == (["a"], ())


def test_problems_are_given_or_logged_and_never_lost(caplog: pytest.LogCaptureFixture) -> None:
    data = b"nonsense\n[]\n"
    problems: list[Problem] = []
    with caplog.at_level(logging.WARNING, logger="amux"):
        assert parse_messages(data, problems=problems) == []
        assert caplog.records == []
        assert parse_messages(data) == []
    assert [(each.code, each.line) for each in problems] == [("bad-line", 1), ("bad-record", 2)]
    assert len(caplog.records) == 1
    assert "2 problems" in caplog.text


def test_a_newer_format_is_not_interpreted(log: EntryLog) -> None:
    log.append_message(user("a"))
    data = log.file_path.read_bytes().replace(b'"version":1', b'"version":2')
    log.file_path.write_bytes(data)
    problems: list[Problem] = []
    assert parse_messages(data, problems=problems) == []
    assert [problem.code for problem in problems] == ["unknown-format"]
    with pytest.raises(ParseError) as caught:
        read_again(log)
    assert str(log.file_path) in caught.value.message
    assert "version 2" in caught.value.message


def test_a_log_that_is_gone_is_an_error(log: EntryLog) -> None:
    log.file_path.unlink()
    for action in (
        log.messages,
        lambda: log.append_message(user("a")),
        lambda: log.fork(log.file_path.parent),
        log.sync,
    ):
        with pytest.raises(StoreError) as caught:
            action()
        assert str(log.file_path) in caught.value.message
        assert caught.value.hint
    assert list(log.file_path.parent.iterdir()) == []


def test_a_log_that_was_emptied_begins_a_new_chain(log: EntryLog) -> None:
    log.append_message(user("a"))
    log.file_path.write_bytes(b"")
    log.append_message(user("b"))
    (entry,) = lines_of(log.file_path.read_bytes())
    assert entry["parent_id"] == ""


def test_the_end_of_a_turn_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EntryLog.create(tmp_path, CWD)
    synced: list[int] = []
    for name in ("fsync", "fdatasync"):
        original = getattr(os, name)

        def counted(descriptor: int, original: Callable[[int], None] = original) -> None:
            synced.append(descriptor)
            original(descriptor)

        monkeypatch.setattr(os, name, counted)
    for message in (user("a"), call("c1", "ls"), result("c1", "x")):
        log.append_message(message)
    assert synced == []
    log.append_message(answer("done"))
    assert len(synced) == 1
    log.append_compaction("s", "", 1)
    assert len(synced) == 2
    log.sync()
    assert len(synced) == 4, "the file and its directory"


def test_appending_does_not_slow_down_with_the_length_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that an append reads are counted, not seconds: the last one, for a torn line."""
    log = EntryLog.create(tmp_path, CWD, fsync="never")
    amounts: list[int] = []
    read = os.read

    def counted(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        amounts.append(len(data))
        return data

    monkeypatch.setattr(os, "read", counted)
    for number in range(300):
        log.append_message(user(str(number)))
    assert amounts == [1] * 300


def test_times_are_written_in_utc_to_the_second(tmp_path: Path) -> None:
    at = datetime(2026, 2, 26, 16, 30, 12, 987654, tzinfo=timezone(timedelta(hours=2)))
    log = EntryLog.create(tmp_path, CWD, now=lambda: at)
    log.append_message(user("a"))
    header, entry = lines_of(log.file_path.read_bytes())
    assert header["timestamp"] == entry["timestamp"] == "2026-02-26T14:30:12Z"
    assert entry["message"]["timestamp"] == 1772116212987
    assert log.file_path.name.startswith("20260226-143012-")
