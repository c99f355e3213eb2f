"""`amux store` with wrong words, damaged files and unusable places: one sentence, one exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_process import Cli, copied_home
from test_cli_store import ARCHIVED, CLEARED, REWOUND, TOOLS, rollouts

NOWHERE = "99999999-a11c-4e5e-9000-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> Cli:
    return Cli(copied_home(tmp_path, "amux/0.2"))


def file_of(cli: Cli, thread: str) -> Path:
    [path] = (cli.home / ".local" / "share" / "amux" / "store").glob(f"*sessions/*{thread}.jsonl")
    return path


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["show", NOWHERE], 8, f"the store has no thread `{NOWHERE}`"),
        (["show", "no-uuid"], 8, "the store has no thread `no-uuid`"),
        (["show", "../../etc/passwd"], 8, "the store has no thread `../../etc/passwd`"),
        (["delete", "sessions/*", "--yes"], 8, "the store has no thread `sessions/*`"),
        (["show", " "], 8, "the store has no thread ` `"),
        (["show", "x\0y"], 8, "the store has no thread `x\u2400y`"),
        (["show", "0000000"], 8, "`0000000` is the beginning of 7 thread ids"),
        (["delete", TOOLS, NOWHERE, "--yes"], 8, f"the store has no thread `{NOWHERE}`"),
        (["archive", TOOLS, NOWHERE], 8, f"the store has no thread `{NOWHERE}`"),
        (["archive"], 2, "name threads or use `--older-than`"),
        (["append", TOOLS, " "], 2, "the message is empty"),
        (["append", TOOLS, "x", "--role", "robot"], 2, "--role: `robot` is not one of user, "),
        (["append", TOOLS, "{", "--json-payload"], 2, "the payload of a record must be JSON: "),
        (["append", "nobody", "x"], 8, "the store has no thread `nobody`"),
        (["new", "--title", "Release notes"], 1, f"thread `{ARCHIVED}` has the title `Release "),
        (["title", TOOLS, "Release notes"], 1, f"thread `{ARCHIVED}` has the title `Release "),
        (["title", TOOLS, "x", "--remove"], 2, "TITLE and `--remove` cannot be combined"),
        (["tag", TOOLS, "--remove"], 2, "no tag is given"),
        (["fork", TOOLS, "--last", "1", "--first", "1"], 2, "a fork takes one of "),
        (["fork", TOOLS, "--until", "x"], 2, "the conversation has no record `x`"),
        (["fork", TOOLS, "--title", "Release notes"], 1, f"thread `{ARCHIVED}` has the title "),
        (["compact", TOOLS, "--summary", " "], 2, "the summary is empty"),
        (["compact", TOOLS, "--summary", "x", "--first-kept", "y"], 2, "the conversation has no "),
        (["vacuum", REWOUND, "--erase", "x", "--yes"], 2, f"thread `{REWOUND}` has no record `x`"),
        (["prune", "--older-than", "soon"], 2, "--older-than: `soon` is not a number of days"),
        (["export"], 2, "name one thread or use `--all`"),
        (["export", "--all", "--format", "html"], 2, "`--all` writes jsonl only"),
        (["import", "./missing.jsonl"], 1, "cannot read `missing.jsonl`: there is no such file"),
        (["import", "claude:nobody"], 8, "no session `claude:nobody` of claude"),
        (["unpack", "./missing.zip"], 1, "`missing.zip` is not a packed thread: "),
        (["unpack", "x.zip", "--map", "here"], 2, "`here` is not OLD=NEW"),
        (["pack", TOOLS, "/proc/nowhere/x.zip"], 1, "cannot write `/proc/nowhere/x.zip`: "),
        (["search", " "], 2, "no words to search for"),
        (["search", "x", "--thread", "nobody"], 8, "the store has no thread `nobody`"),
        (["lineage", "nobody"], 8, "the store has no thread `nobody`"),
        (["doctor", "nobody"], 8, "the store has no thread `nobody`"),
        (["forget", TOOLS], 2, "unknown command `forget`"),
    ],
)
def test_a_wrong_word_is_one_sentence_and_changes_nothing(
    store: Cli, words: list[str], code: int, error: str
) -> None:
    before = rollouts(store)
    failed = store("store", *words)
    assert failed.code == code, failed.err
    assert failed.err.startswith(f"error: {error}"), failed.err
    assert "Traceback" not in failed.err
    as_json = store("store", *words, "--json")
    assert as_json.code == code
    assert as_json.json()["ok"] is False
    assert rollouts(store) == before


def test_an_ambiguous_beginning_names_the_threads(store: Cli) -> None:
    hint = store("store", "show", "0000000").err.splitlines()[1]
    assert hint == "hint: give more characters of the id"


@pytest.mark.parametrize("words", [["list"], ["new"], ["stats"], ["append", TOOLS, "x"]])
def test_a_server_that_cannot_be_reached_is_one_sentence(empty: Cli, words: list[str]) -> None:
    address = "postgresql://nobody:secret@127.0.0.1:1/x"
    cli = Cli(empty.home, {"AMUX_STORE": address})
    failed = cli("store", *words)
    assert failed.code == 1
    assert len(failed.err.splitlines()) <= 2
    assert failed.err.startswith("error: ")
    assert "secret" not in failed.err
    assert cli("store", *words, "--json").json()["error"]["code"] == "STORE_ERROR"


@pytest.mark.parametrize("words", [["new"], ["import", "-"]])
def test_a_place_that_cannot_be_written_is_one_sentence(
    empty: Cli, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "store", Path("/proc/nowhere")):
        cli = Cli(empty.home, {"AMUX_STORE": str(place)})
        failed = cli("store", *words)
        assert failed.code == (1 if words == ["new"] else 2), failed.err
        assert failed.err.startswith("error: ")
        assert "Traceback" not in failed.err


@pytest.mark.parametrize("words", [["list"], ["stats"], ["search", "x"]])
def test_an_absent_store_is_empty_and_reading_does_not_create_it(
    empty: Cli, words: list[str]
) -> None:
    read = empty("store", *words)
    assert (read.code, "error" in read.err) == (0, False)
    assert not (empty.home / ".local" / "share" / "amux" / "store" / "sessions").exists()


def test_the_demo_has_no_store(empty: Cli) -> None:
    failed = empty("--demo", "store", "new")
    assert (failed.code, failed.err) == (2, "error: the demo has no session store\n")


@pytest.mark.parametrize(
    "words", [["append", "x"], ["resume"], ["fork"], ["show"], ["clear", "--yes"], ["tag", "x"]]
)
def test_a_thread_of_a_newer_version_is_not_touched(store: Cli, words: list[str]) -> None:
    path = file_of(store, TOOLS)
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":9', 1))
    before = rollouts(store)
    failed = store("store", words[0], TOOLS, *words[1:])
    assert failed.code == 1
    assert failed.err == (
        f"error: thread `{TOOLS}` has version 9 of the format; this version of amux reads up to 1\n"
        "hint: update amux\n"
    )
    assert rollouts(store) == before
    assert store("store", "show", CLEARED).code == 0


def test_a_garbled_beginning_is_found_and_repaired(store: Cli) -> None:
    path = file_of(store, TOOLS)
    whole = path.read_bytes()
    path.write_bytes(b"\xff\x00 garbage" + whole[20:])
    failed = store("store", "resume", TOOLS)
    assert failed.code == 1
    assert failed.err.startswith(
        f"error: the first line of thread `{TOOLS}` is not its meta data\nhint: `amux store doctor`"
    )
    assert store("store", "list").code == 0
    report = store("store", "doctor", TOOLS, "--json").json()
    assert {each["code"] for each in report["threads"][0]["problems"]} == {
        "bad-line",
        "unknown-format",
    }
    damaged = path.read_bytes()
    repaired = store("store", "doctor", "--repair")
    assert f"note: amux:{TOOLS}: 10 records kept" in repaired.err
    [kept] = (path.parent.parent / "damaged").iterdir()
    assert kept.read_bytes() == damaged
    assert store("store", "doctor").err == "note: 7 threads checked, nothing is wrong\n"
    assert len(store("store", "resume", TOOLS, "--json").json()["conversation"]) == 8


def test_a_garbled_line_costs_one_record_and_a_torn_tail_none(store: Cli) -> None:
    path = file_of(store, CLEARED)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\xffnonsense\n", *lines[3:], b'{"type":"respo']))
    codes = [row[1] for row in store("store", "doctor").rows()]
    assert codes == ["bad-line", "torn-tail"]
    assert "1 damaged" in store("store", "doctor").err
    assert store("store", "append", CLEARED, "after the damage").code == 0
    said = store("store", "resume", CLEARED, "--json").json()["conversation"]
    assert [each["content"] for each in said] == [
        "Second subject",
        "Noted the second subject.",
        "after the damage",
    ]
    store("store", "doctor", CLEARED, "--repair")
    assert store("store", "doctor").err == "note: 7 threads checked, nothing is wrong\n"
    assert store("store", "resume", CLEARED, "--json").json()["conversation"] == said


def test_a_damaged_thread_can_be_deleted(store: Cli) -> None:
    path = file_of(store, TOOLS)
    path.write_bytes(b"garbage\n")
    assert store("store", "delete", TOOLS, "--yes").err == "note: 1 thread deleted\n"
    assert not path.exists()


def test_a_damaged_index_costs_nothing(store: Cli) -> None:
    before = store("store", "list", "--json").out
    folder = store.home / ".local" / "share" / "amux" / "store"
    (folder / "state.db").write_bytes(b"garbage" * 1000)
    for suffix in ("-wal", "-shm"):
        (folder / f"state.db{suffix}").unlink(missing_ok=True)
    assert store("store", "list", "--json").out == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 2),
        ("hello", 2),
        ("[]", 2),
        ('{"meta": {}}', 0),
        ('{"type": "session_meta"}', 2),
        ('{"meta": {"thread_id": "../../x", "session_id": "y", "created_at": "2026-01-01"}}', 0),
    ],
)
def test_an_unusable_import_stores_nothing(
    store: Cli, tmp_path: Path, text: str, code: int
) -> None:
    before = rollouts(store)
    file = tmp_path / "import.jsonl"
    file.write_text(text)
    done = store("store", "import", str(file))
    assert done.code == code, done.err
    assert done.out == ""
    assert done.err.startswith(
        "error: " if code else "warning: 1 problem while reading: document 1"
    )
    assert rollouts(store) == before


def test_a_packed_file_with_other_content_stores_nothing(store: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "rollout.jsonl").write_text("nothing\n")
    packed = shutil.make_archive(str(tmp_path / "x"), "zip", folder)
    failed = store("store", "unpack", packed)
    assert (failed.code, failed.err) == (1, f"error: `{packed}` holds no thread\n")


def test_hostile_text_never_reaches_the_terminal(empty: Cli) -> None:
    attack = "pwned \x1b[2J\x1b]0;title\x07 \x9b31m \u202eesrever"
    thread = empty("store", "new", "--message", attack, "--title", "a\x1b[2Jb").out.strip()
    for words in (["list"], ["show", thread], ["search", "pwned"], ["title", thread]):
        for option in ([], ["--json"], ["--color", "always"]):
            shown = empty("store", *words, *option)
            assert shown.code == 0, shown.err
            assert not {"\x1b[2J", "\x07", "\x9b", "\u202e"} & set(shown.out), words
            assert "\x1b[2J" not in shown.out + shown.err
