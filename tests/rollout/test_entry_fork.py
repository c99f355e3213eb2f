"""A fork copies the end of a log, is linked well, and leaves its parent as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from entry_samples import Clock, Json, answer, call, lines_of, result, texts, user

from amux import EntryLog, ValidationError

CWD = "/home/user/project"


@pytest.fixture
def log(tmp_path: Path) -> EntryLog:
    return EntryLog.create(tmp_path / "sessions", CWD, now=Clock(step=1), fsync="never")


def fill(log: EntryLog, count: int) -> list[str]:
    return [log.append_message(user(str(number))) for number in range(count)]


def entries(log: EntryLog) -> list[Json]:
    return lines_of(log.file_path.read_bytes())[1:]


def check_chain(fork: EntryLog) -> None:
    """The branch comes first, and every other entry follows the one before it."""
    branch, *copies = entries(fork)
    assert branch["type"] == "branch"
    assert "parent_id" not in branch
    ids = [branch["id"], *(each["id"] for each in copies)]
    assert [each["parent_id"] for each in copies] == ids[:-1]
    assert len(set(ids)) == len(ids)
    assert fork.leaf_id == ids[-1]
    assert branch["fork_entry_id"] in {"", *ids[1:]}
    assert not copies or copies[0].get("role") != "tool_result"


@pytest.mark.parametrize(
    ("messages", "keep", "copied"), [(25, None, 20), (25, 10, 10), (5, 20, 5), (5, 5, 5), (5, 0, 0)]
)
def test_a_fork_keeps_the_last_messages(
    messages: int, keep: int | None, copied: int, log: EntryLog, tmp_path: Path
) -> None:
    fill(log, messages)
    fork = log.fork(tmp_path / "forks") if keep is None else log.fork(tmp_path / "forks", keep)
    check_chain(fork)
    assert texts(fork.messages()) == [str(each) for each in range(messages - copied, messages)]
    last_copy = fork.leaf_id if copied else ""
    assert entries(fork)[0]["fork_entry_id"] == last_copy


def test_a_fork_remembers_its_parent_and_has_an_id_of_its_own(
    log: EntryLog, tmp_path: Path
) -> None:
    ids = fill(log, 3)
    fork = log.fork(tmp_path / "forks", 2, "Exploring an alternative")
    header, branch, *_ = lines_of(fork.file_path.read_bytes())
    assert header["id"] == fork.id != log.id
    assert (header["version"], fork.cwd) == (1, CWD)
    assert Path(branch["parent_session_path"]).is_absolute()
    assert branch["parent_session_path"] == str(log.file_path)
    assert branch["branch_summary"] == "Exploring an alternative"
    assert [entry["id"] for entry in entries(fork)[1:]] == ids[1:], "copies keep their ids"


def test_a_fork_without_a_summary_has_no_field_for_it(log: EntryLog, tmp_path: Path) -> None:
    assert "branch_summary" not in entries(log.fork(tmp_path))[0]


def test_a_relative_path_of_the_parent_is_recorded_as_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = EntryLog.create(Path("logs"), CWD)
    branch = entries(log.fork(Path("forks")))[0]
    assert branch["parent_session_path"] == str(tmp_path / "logs" / log.file_path.name)


def test_parent_and_fork_go_on_alone(log: EntryLog, tmp_path: Path) -> None:
    fill(log, 2)
    before = log.file_path.read_bytes()
    fork = log.fork(tmp_path / "forks")
    fork.append_message(user("theirs"))
    assert log.file_path.read_bytes() == before
    log.append_message(user("ours"))
    assert texts(log.messages()) == ["0", "1", "ours"]
    assert texts(fork.messages()) == ["0", "1", "theirs"]
    check_chain(fork)


def test_a_loaded_fork_goes_on_after_its_last_copy(log: EntryLog, tmp_path: Path) -> None:
    fill(log, 2)
    fork = EntryLog.load(tmp_path, log.fork(tmp_path).id)
    fork.append_message(user("next"))
    check_chain(fork)


def test_a_fork_of_an_empty_log_begins_at_its_branch(log: EntryLog, tmp_path: Path) -> None:
    fork = log.fork(tmp_path)
    check_chain(fork)
    again = EntryLog.load(tmp_path, fork.id)
    again.append_message(user("first"))
    check_chain(again)


def test_copies_do_not_begin_with_a_tool_result(log: EntryLog, tmp_path: Path) -> None:
    for message in (
        user("go"),
        call("c1", "ls"),
        result("c1", "one"),
        result("c2", "two"),
        answer("done"),
    ):
        log.append_message(message)
    for keep in (2, 3, 4):
        fork = log.fork(tmp_path / str(keep), keep)
        check_chain(fork)
        assert texts(fork.messages()) == ["", "one", "two", "done"]


def test_results_at_the_beginning_of_a_log_are_not_copied(log: EntryLog, tmp_path: Path) -> None:
    for message in (result("c1", "one"), result("c2", "two"), answer("done")):
        log.append_message(message)
    fork = log.fork(tmp_path)
    check_chain(fork)
    assert texts(fork.messages()) == ["done"]


def test_a_log_of_results_alone_leaves_nothing_to_copy(log: EntryLog, tmp_path: Path) -> None:
    log.append_message(result("c1", "one"))
    fork = log.fork(tmp_path)
    check_chain(fork)
    assert fork.messages() == []


@pytest.mark.parametrize(("keep", "has_summary"), [(2, False), (3, True), (20, True)])
def test_a_fork_has_the_summary_if_it_has_everything_the_summary_kept(
    keep: int, has_summary: bool, log: EntryLog, tmp_path: Path
) -> None:
    ids = fill(log, 5)
    log.append_compaction("so far", ids[3], 9)
    log.append_message(user("5"))
    fork = log.fork(tmp_path / "forks", keep)
    check_chain(fork)
    conversation = log.messages()
    assert fork.messages() == (conversation if has_summary else conversation[-keep:])


def test_only_the_compaction_that_counts_is_copied(log: EntryLog, tmp_path: Path) -> None:
    ids = fill(log, 5)
    log.append_compaction("early", ids[4], 9)
    log.append_compaction("late", ids[1], 9)
    log.append_message(user("5"))
    for keep in (3, 5, 20):
        fork = log.fork(tmp_path / str(keep), keep)
        check_chain(fork)
        conversation = log.messages()
        assert fork.messages() == (conversation if keep >= 5 else conversation[-keep:])


def test_a_compaction_at_the_end_is_the_last_entry_copied(log: EntryLog, tmp_path: Path) -> None:
    ids = fill(log, 3)
    last = log.append_compaction("all", ids[2], 9)
    fork = log.fork(tmp_path)
    check_chain(fork)
    assert entries(fork)[0]["fork_entry_id"] == last
    assert fork.messages() == log.messages()


def test_a_fork_can_begin_at_an_earlier_entry(log: EntryLog, tmp_path: Path) -> None:
    ids = fill(log, 6)
    fork = log.fork(tmp_path, 2, until=ids[3])
    check_chain(fork)
    assert texts(fork.messages()) == ["2", "3"]


def test_a_fork_can_keep_the_first_messages(log: EntryLog, tmp_path: Path) -> None:
    ids = fill(log, 4)
    log.append_compaction("s", ids[3], 9)
    log.append_message(user("4"))
    first = log.fork(tmp_path / "1", keep_first=2)
    check_chain(first)
    assert texts(first.messages()) == ["0", "1"]
    every = log.fork(tmp_path / "2", keep_first=5)
    check_chain(every)
    assert every.messages() == log.messages()
    none = log.fork(tmp_path / "3", keep_first=0)
    check_chain(none)
    assert none.messages() == []


def test_a_fork_at_an_unknown_entry_or_of_less_than_nothing_is_refused(
    log: EntryLog, tmp_path: Path
) -> None:
    fill(log, 2)
    folder = tmp_path / "forks"
    with pytest.raises(ValidationError, match="ffffffff"):
        log.fork(folder, until="ffffffff")
    with pytest.raises(ValidationError) as caught:
        log.fork(folder, -1)
    assert caught.value.fields == ("keep_last",)
    with pytest.raises(ValidationError) as caught:
        log.fork(folder, keep_first=-2)
    assert caught.value.fields == ("keep_first",)
    assert not folder.exists()


def test_lines_of_other_programs_are_copied_byte_for_byte(log: EntryLog, tmp_path: Path) -> None:
    """The first copy gets another parent; spaces, escapes and large numbers stay in all of them."""
    body = r'{ "role":"user", "content":[{"type":"text","text":"\u003cb\u003e"}], "n":1.50e3 }'
    more = f'"role":"user","message":{body},"x":123456789012345678901234567890'
    first = f'{{"type":"message","id":"aaaaaaaa","parent_id":"", {more}}}'
    second = f'{{ "type":"message", "id":"bbbbbbbb","parent_id":"aaaaaaaa",  {more} }}'
    with log.file_path.open("a") as stream:
        stream.write(f"{first}\n{second}\n")
    fork = log.fork(tmp_path)
    check_chain(fork)
    lines = fork.file_path.read_text().splitlines()
    branch = json.loads(lines[1])["id"]
    assert lines[2] == first.replace('"parent_id":"", ', f'"parent_id":"{branch}",')
    assert lines[3] == second


def test_entries_without_an_id_or_with_one_twice_get_new_ids(log: EntryLog, tmp_path: Path) -> None:
    with log.file_path.open("a") as stream:
        for id in ({"id": "aaaaaaaa"}, {}, {"id": "aaaaaaaa"}, {"id": 7}, {"id": ""}):
            entry = {"type": "message", **id, "role": "user", "message": user("x")}
            stream.write(json.dumps(entry) + "\n")
    fork = log.fork(tmp_path)
    check_chain(fork)
    assert len(fork.messages()) == 5
    assert entries(fork)[1]["id"] == "aaaaaaaa"


def test_what_cannot_be_read_is_not_copied(log: EntryLog, tmp_path: Path) -> None:
    fill(log, 2)
    with log.file_path.open("a") as stream:
        stream.write('{"type":"message","id":"bad"}\n{"type":"poem"}\nnonsense\n{"type":"mess')
    fork = log.fork(tmp_path)
    check_chain(fork)
    assert (texts(fork.messages()), fork.problems) == (["0", "1"], ())


def test_a_fork_of_a_fork_is_linked_to_the_fork(log: EntryLog, tmp_path: Path) -> None:
    fill(log, 3)
    child = log.fork(tmp_path / "a")
    grandchild = child.fork(tmp_path / "b")
    check_chain(grandchild)
    assert [each["type"] for each in entries(grandchild)].count("branch") == 1
    assert entries(grandchild)[0]["parent_session_path"] == str(child.file_path)
    assert grandchild.messages() == log.messages()
