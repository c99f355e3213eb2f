"""Every failure is reported in one sentence with an exit code, never as a traceback."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import Cli

AMBIGUOUS = "0"


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        ("list nobody", 3, "AGENT_NOT_FOUND"),
        ("show nobody abc", 3, "AGENT_NOT_FOUND"),
        ("export claude nothing", 8, "SESSION_NOT_FOUND"),
        ("show claude:nothing", 8, "SESSION_NOT_FOUND"),
        ("show ../../../etc/passwd", 8, "SESSION_NOT_FOUND"),
        ("diff claude:nothing claude:nothing", 8, "SESSION_NOT_FOUND"),
        ("cost explain nothing", 8, "SESSION_NOT_FOUND"),
        (f"show claude {AMBIGUOUS}", 8, "AMBIGUOUS_ID"),
    ],
)
def test_a_failure_is_a_sentence_for_people_and_an_object_for_programs(
    claude: Cli, words: str, exit_code: int, code: str
) -> None:
    if code == "AMBIGUOUS_ID":
        project = claude.home / ".claude" / "projects" / "-home-dev-src-webapp-claude"
        twin = project / "0c067a2d-8135-4688-9bee-31151abb9240.jsonl"
        copy = twin.read_text(encoding="utf-8").replace("0c067a2d", "0c067a2e")
        (project / twin.name.replace("0c067a2d", "0c067a2e")).write_text(copy, encoding="utf-8")
    people, programs = claude(*words.split()), claude(*words.split(), "--json")
    assert (people.code, people.out) == (exit_code, "")
    assert people.err.startswith("error: ")
    assert "Traceback" not in people.err
    assert programs.code == exit_code
    answer = programs.json()
    assert answer["ok"] is False
    assert answer["error"].keys() == {"code", "message", "recoverable"}
    assert answer["error"]["code"] == code


def test_candidates_of_an_ambiguous_id_are_named(claude: Cli) -> None:
    result = claude("show", "a")
    assert result.code == 8
    assert "claude:aa25bd55" in result.err
    assert "claude:a2bd492f" in result.err


def test_a_corrupt_file_affects_no_other_session(claude: Cli) -> None:
    before = len(claude("list").rows())
    victim = next((claude.home / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    victim.write_bytes(b"\x00\xff not json\n" * 3)
    result = claude("list")
    assert (result.code, len(result.rows())) == (0, before - 1)
    assert victim.name in result.err
    assert result.err.count("warning: ") == 1
    assert len(claude("list", "--debug").err.splitlines()) > len(result.err.splitlines())
    shown = claude("show", "0c067a2d-8135-4688-9bee-31151abb9240")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("error: ")


def test_broken_settings_are_an_error_that_names_the_file(claude: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{\n  broken")
    result = claude("list", "--config-dir", str(tmp_path))
    assert (result.code, result.out) == (7, "")
    assert "config.json" in result.err


def test_a_home_that_does_not_exist_has_no_sessions(tmp_path: Path) -> None:
    nowhere = Cli(tmp_path / "gone" / "home")
    for words in ([], ["list"], ["cost"], ["agents"], ["search", "x"]):
        assert nowhere(*words).code == 0, words


def test_bytes_that_are_no_text_are_refused_without_a_traceback(claude: Cli) -> None:
    done = subprocess.run(
        [*map(os.fsencode, claude.command("show", "--json")), b"\xff\xfe"],
        env=claude.env,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 8
    assert b"Traceback" not in done.stderr
    assert b'"SESSION_NOT_FOUND"' in done.stdout


@pytest.mark.parametrize("words", ["list", "list --json", "export aa25bd55", "--help"])
def test_a_closed_output_pipe_is_not_an_error(claude: Cli, words: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        claude.command(*words.split(), "--quiet"),
        env=claude.env,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", ["list -q", "list --help", "--version", "-V", "--help", "-h"])
def test_a_full_disk_is_reported_once(claude: Cli, words: str) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            claude.command(*words.split()),
            env=claude.env,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: cannot write the output: No space left on device"]


@pytest.mark.parametrize("word", ["list", "--version", "--help"])
def test_closed_standard_streams_cause_no_error(claude: Cli, word: str) -> None:
    command = " ".join(f"'{word}'" for word in claude.command(word))
    done = subprocess.run(["bash", "-c", f"{command} >&- 2>&-"], env=claude.env, check=False)
    assert done.returncode == 0


def test_an_interrupt_exits_with_130_and_no_traceback(claude: Cli) -> None:
    victim = next((claude.home / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    text = victim.read_text(encoding="utf-8")
    more_than_a_pipe_holds = "poem " * 100_000
    victim.write_text(text.replace("Write a long poem", more_than_a_pipe_holds), encoding="utf-8")
    process = subprocess.Popen(
        claude.command("export", "0c067a2d"),
        env=claude.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"{"  # now it writes, and cannot come to an end
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b"note: interrupted\n"


def test_an_unexpected_failure_is_one_line_and_a_hint(claude: Cli, tmp_path: Path) -> None:
    broken = (
        "import sys\n"
        "import amux.client\n"
        "def fail(**_): raise RuntimeError('the sky fell\\x1b[31m')\n"
        "amux.client.create_client = fail\n"
        "from amux.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    result = claude.python("-c", broken, "list")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "error: unexpected RuntimeError: the sky fell\u241b[31m",
        "hint: run it again with `--debug` for a traceback, and please report it",
    ]
    assert "Traceback" in claude.python("-c", broken, "list", "--debug").err
    assert claude.python("-c", broken, "list", "--json").json()["error"]["code"] == "INTERNAL"


@pytest.mark.parametrize("words", ["list --json", "doctor --json", "search hi --json", "list"])
def test_a_folder_name_that_is_not_utf8_is_accepted(words: str, tmp_path: Path) -> None:
    name = "11111111-2222-4333-8444-555555555555"
    folder = tmp_path / ".claude" / "projects" / os.fsdecode(b"-caf\xe9")
    folder.mkdir(parents=True)
    line = (
        '{"type":"user","uuid":"a","parentUuid":null,"timestamp":"2026-11-01T00:00:00Z",'
        f'"sessionId":"{name}","message":{{"role":"user","content":"hi"}}}}\nnot json\n'
    )
    (folder / f"{name}.jsonl").write_text(line, encoding="utf-8")
    result = Cli(tmp_path)(*words.split())
    assert result.code == 0
    assert name in result.out


def test_index_commands_report_an_unusable_index(claude: Cli) -> None:
    cache = claude.home.parent / "cache"
    listed = claude("list", "--limit", "all").out
    (index,) = cache.glob("index-*.db")
    for path in cache.glob("index-*.db*"):
        path.unlink()
    index.mkdir()
    status = claude("index", "status")
    assert (status.code, status.err.count("\n")) == (0, 1)
    assert "the index cannot be used: unable to open database file" in status.err
    for verb in ("update", "rebuild", "check"):
        result = claude("index", verb)
        assert result.code == 1, verb
        assert result.err.startswith("error: the index cannot be used: unable to open"), verb
        assert "hint: its folder must be open to writing" in result.err
    assert claude("list", "--limit", "all").out == listed


def test_an_index_that_another_program_writes_to_is_in_use(claude: Cli) -> None:
    assert claude("list").code == 0
    (index,) = (claude.home.parent / "cache").glob("index-*.db")
    victim = next((claude.home / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    victim.write_bytes(victim.read_bytes() + b"\n")
    with closing(sqlite3.connect(index, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        result = claude("index", "update")
    assert result.code == 1
    assert "the index cannot be used: database is locked" in result.err
    assert "hint: another program is using it: try again" in result.err


def test_exporting_to_a_dash_writes_to_stdout(claude: Cli, tmp_path: Path) -> None:
    plain = claude("export", "claude:0c067a2d")
    dashed = claude("export", "claude:0c067a2d", "--output", "-", cwd=tmp_path)
    assert (dashed.code, dashed.out) == (0, plain.out)
    assert not (tmp_path / "-").exists()


def test_a_missing_home_is_not_created(tmp_path: Path) -> None:
    home = tmp_path / "nowhere"
    cli = Cli(home)
    del cli.env["AMUX_CACHE_DIR"]
    for words in ((), ("list",), ("search", "word"), ("cost",), ("index", "update")):
        assert "unexpected" not in cli(*words).err
    assert not home.exists()


def test_a_check_without_sources_reports_that_nothing_was_checked(claude: Cli) -> None:
    without = Cli(claude.home, {"AMUX_INDEX": "off"})
    for cli, words in ((claude, ["--sample", "0"]), (without, [])):
        result = cli("index", "check", *words)
        assert (result.code, result.out) == (0, "")
        assert "nothing was checked" in result.err
    assert claude("index", "check", "--sample", "-1").code == 2
