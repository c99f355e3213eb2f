"""`amux tag`, `star`, `unstar` and `note`, end to end."""

from __future__ import annotations

import subprocess
import unicodedata
from pathlib import Path

import pytest
from cli_process import Cli, Result
from test_cli_start_up import modules_after
from test_cli_terminal import COLOR, on_terminal

SHORT, WHOLE = "29c5cee3", "claude:29c5cee3-3f53-4795-b157-dccd1a4ec3a1"
ATTACK = "pwned \x1b[2J\x1b]0;title\x07 \x9b31m \u202eesrever\r\n\tend"


def say(cli: Cli, text: bytes, *words: str) -> Result:
    """Run the command with a text on its stdin."""
    done = subprocess.run(
        cli.command(*words), env=cli.env, input=text, capture_output=True, timeout=60, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_tags_are_given_shown_counted_and_taken_back(claude: Cli) -> None:
    given = claude("tag", SHORT, "flaky", "to-review")
    assert (given.code, given.out, given.err) == (0, "", f"note: {WHOLE}: flaky, to-review\n")
    claude("tag", "aa25bd55", "flaky")
    assert claude("tag", SHORT).rows() == [["flaky"], ["to-review"]]
    assert claude("tag").rows() == [["flaky", "2"], ["to-review", "1"]]
    assert [row[0] for row in claude("list", "--tag", "to-review").rows()] == [WHOLE]
    for words in (["--remove", SHORT, "flaky"], [SHORT, "--remove", "to-review"]):
        assert claude("tag", *words).code == 0
    assert claude("tag", SHORT).err == f"note: {WHOLE} has no tags of your own\n"
    assert claude("tag", "--json").json() == {"flaky": 1}


def test_a_list_without_tags_says_so(empty: Cli) -> None:
    result = empty("tag")
    assert (result.code, result.out, result.err) == (0, "", "note: no session has a tag\n")
    assert empty("tag", "--json").json() == {}


def test_stars_mark_sessions_in_lists(claude: Cli) -> None:
    assert claude("star", "claude", SHORT).err == f"note: {WHOLE}: starred\n"
    [row] = claude("list", "--starred").rows()
    assert (row[0], row[5]) == (WHOLE, "[starred] Use a subagent to count the files.")
    [summary] = claude("list", "--starred", "--json").json()
    assert summary["starred"] is True
    assert "\u2605 Use a" in COLOR.sub("", on_terminal(claude, "list", columns=140))
    assert "  \u2605 Use a" in COLOR.sub("", on_terminal(claude, "search", "subagent"))
    assert claude("unstar", SHORT).err == f"note: {WHOLE}: not starred\n"
    assert claude("list", "--starred").out == ""


def test_a_terminal_without_unicode_gets_a_plain_star(claude: Cli) -> None:
    claude("star", SHORT)
    plain = Cli(claude.home, {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    screen = COLOR.sub("", on_terminal(plain, "list", "--starred", columns=140))
    assert "* Use a subagent" in screen


def test_notes_are_written_shown_and_removed(claude: Cli) -> None:
    assert claude("note", SHORT, "the fix", "is", "here").err.startswith("note: note 1 added to")
    assert say(claude, "zwei\nZeilen ü\n".encode(), "note", SHORT, "-").code == 0
    claude("note", SHORT, "--", "--dashes", "too")
    rows = claude("note", SHORT).rows()
    assert [(row[0], row[2]) for row in rows] == [
        ("1", "the fix is here"),
        ("2", "zwei Zeilen ü"),
        ("3", "--dashes too"),
    ]
    assert claude("note", SHORT, "--remove", "1").err == f"note: note 1 removed from {WHOLE}\n"
    notes = claude("note", SHORT, "--json").json()["notes"]
    assert [(note["number"], note["text"]) for note in notes] == [
        (2, "zwei\nZeilen ü"),
        (3, "--dashes too"),
    ]
    assert "  Zeilen ü\n" in on_terminal(claude, "note", SHORT)


def test_show_prints_tags_star_and_notes(claude: Cli) -> None:
    claude("tag", SHORT, "flaky")
    claude("star", SHORT)
    claude("note", SHORT, "look *here*")
    shown = claude("show", SHORT).out
    for fact in ("**Tags:** `flaky`", "**Starred:** yes", r"**Note 1:** look \*here\*"):
        assert f"- {fact}\n" in shown
    session = claude("show", SHORT, "--json").json()
    assert (session["tags"], session["starred"]) == (["flaky"], True)
    assert [note["text"] for note in session["notes"]] == ["look *here*"]


@pytest.mark.parametrize(
    "words", [["tag", SHORT, "a"], ["star", SHORT], ["unstar", SHORT], ["note", SHORT, "text"]]
)
def test_every_change_can_be_printed_as_json(claude: Cli, words: list[str]) -> None:
    result = claude(*words, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json().keys() == {"unifiedId", "tags", "starred", "notes"}
    assert result.json()["unifiedId"] == WHOLE


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["tag", "--remove"], 2),
        (["tag", SHORT, "--remove"], 2),
        (["tag", SHORT, "two words"], 2),
        (["tag", "nobody", "x"], 8),
        (["tag", SHORT, "x", "--agent", "nobody"], 3),
        (["star"], 2),
        (["star", "nobody"], 8),
        (["star", "claude", "a", "b"], 2),
        (["unstar", "nobody"], 8),
        (["note"], 2),
        (["note", SHORT, " "], 2),
        (["note", SHORT, "--remove", "x"], 2),
        (["note", SHORT, "--remove", "1"], 2),
        (["note", SHORT, "text", "--remove", "1"], 2),
        (["note", "nobody"], 8),
    ],
)
def test_invalid_annotation_commands_are_errors(claude: Cli, words: list[str], code: int) -> None:
    result = claude(*words, "--json")
    assert (result.code, result.json()["ok"]) == (code, False)
    assert result.err.startswith("error: ")


def test_an_unwritable_data_directory_is_an_error_with_a_hint(claude: Cli) -> None:
    (claude.home / "file").write_text("")
    blocked = Cli(claude.home, {"AMUX_DATA_DIR": str(claude.home / "file" / "amux")})
    result = blocked("star", SHORT)
    assert result.code == 1
    assert "hint: set AMUX_DATA_DIR" in result.err


def test_the_data_directory_variable_applies_to_another_home(claude: Cli, tmp_path: Path) -> None:
    moved = Cli(tmp_path / "nowhere", {"AMUX_DATA_DIR": str(tmp_path / "mine")})
    assert moved("--home", str(claude.home), "star", SHORT).code == 0
    assert (tmp_path / "mine" / "annotations.jsonl").is_file()
    assert not (claude.home / ".local").exists()


def test_a_torn_line_is_reported_by_every_command_that_needs_it(claude: Cli) -> None:
    claude("tag", SHORT, "a")
    with (claude.home / ".local/share/amux/annotations.jsonl").open("ab") as stream:
        stream.write(b'{"at": "20')
    for words in ("tag", "note 29c5cee3", "list", "search subagent", "doctor -a claude"):
        assert "an annotation is not valid JSON" in claude(*words.split()).err


def test_doctor_counts_annotations_without_a_session(claude: Cli) -> None:
    claude("star", SHORT)
    assert "annotated" not in claude("doctor").err
    for path in (claude.home / ".claude").rglob(f"{SHORT}*.jsonl"):
        path.unlink()
    assert f"note: 1 annotated session no longer here: {WHOLE}\n" in claude("doctor").err
    assert "annotated" not in claude("doctor", "-a", "codex").err
    assert claude("unstar", WHOLE).code == 0


def test_notes_print_no_control_characters(claude: Cli) -> None:
    assert say(claude, ATTACK.encode(), "note", SHORT, "-").code == 0
    for words in (["note", SHORT], ["note", SHORT, "--json"], ["show", SHORT]):
        screen = COLOR.sub("", on_terminal(claude, *words, columns=200))
        assert "pwned" in screen
        hostile = {
            char
            for char in screen
            if unicodedata.category(char) == "Cc" or unicodedata.bidirectional(char) == "RLO"
        }
        assert hostile <= {"\n", "\t"}
    assert {len(row) for row in claude("note", SHORT).rows()} == {3}


def test_the_sample_sessions_cannot_be_annotated(empty: Cli) -> None:
    first = empty("--demo", "list").rows()[0][0]
    result = empty("--demo", "star", first)
    assert result.code == 2
    assert "sample sessions cannot be annotated" in result.err


@pytest.mark.parametrize("words", ["list claude", "cost -a claude", "show 29c5cee3"])
def test_reading_commands_do_not_import_the_annotation_writer(claude: Cli, words: str) -> None:
    modules = modules_after(claude, *words.split())
    assert not modules & {"amux.annotations.journal", "amux.annotations.manager"}
    claude("star", SHORT)
    assert "amux.annotations.journal" not in modules_after(claude, *words.split())
