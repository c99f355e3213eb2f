"""`amux show` for people: what a terminal gets, and the pager between."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from cli_process import Cli, copied_home
from pseudo_terminal import COLOR, on_terminal
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

SESSION = "f0bf3d71"
CALLS = ("claude/2.1.50", "f0bf3d71-12c1-49ee-8165-bdc437954d91")
COMPACTED = ("claude/2.1.50", "a2bd492f-1ec2-4192-8c57-9bf35a677b10")
SUB_AGENT = ("codex/0.120.0", "01a1e0cd-ba46-7121-83d2-62787d756114")

PAGER = """\
import os, sys
lines = sys.stdin.readlines()
print("argv", *sys.argv[1:])
print("environment", os.environ.get("LESS"), os.environ.get("LV"))
print("lines", len(lines), lines[0].strip(), "|", lines[-1].strip())
"""


def pager(tmp_path: Path, code: str = PAGER) -> str:
    """A command line that starts a pager of our own, with a path that needs quotes."""
    script = tmp_path / "my pager.py"
    script.write_text(code, encoding="utf-8")
    return f"{sys.executable} '{script}'"


def with_env(cli: Cli, **env: str) -> Cli:
    return Cli(cli.home, env)


def tagged(screen: str) -> str:
    """Colours as visible words; a snapshot is a text."""
    return re.sub(r"\x1b\[([0-9;]*)m", lambda code: f"<{code[1]}>", screen)


@pytest.mark.parametrize("options", [(), ("--no-color",)], ids=["colour", "plain"])
@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("captured", [CALLS, COMPACTED, SUB_AGENT], ids=lambda pair: pair[1][:8])
def test_a_captured_session_looks_like_this(
    tmp_path: Path,
    captured: tuple[str, str],
    columns: int,
    options: tuple[str, ...],
    snapshot: SnapshotAssertion,
) -> None:
    capture, session = captured
    cli = Cli(copied_home(tmp_path, capture))
    assert tagged(on_terminal(cli, "show", session, *options, columns=columns)) == snapshot


@pytest.mark.parametrize("columns", [40, 80])
def test_no_row_is_wider_than_the_terminal_except_ids(claude: Cli, columns: int) -> None:
    screen = on_terminal(claude, "show", "ca8df1fb", "--no-color", columns=columns)
    assert "日本語" in screen
    assert all(cell_len(row) <= columns for row in screen.splitlines() if "claude:" not in row)


def test_pipes_and_other_formats_are_as_they_were(claude: Cli) -> None:
    markdown = claude("show", SESSION)
    assert markdown.out.startswith("# Run the failing command.\n\n- **Agent:** claude\n")
    assert claude("show", SESSION, "--format", "markdown") == markdown
    assert claude("show", SESSION, "--full", "--no-pager") == markdown
    screen = on_terminal(claude, "show", SESSION, "--format", "markdown")
    assert screen == markdown.out
    assert on_terminal(claude, "show", SESSION, "--json").startswith("{\n")


def test_colour_can_be_switched_off_and_forced(claude: Cli) -> None:
    assert "\x1b[1;36muser" in on_terminal(claude, "show", SESSION)
    assert "\x1b" not in on_terminal(claude, "show", SESSION, "--no-color")
    assert "\x1b" not in on_terminal(with_env(claude, NO_COLOR="1"), "show", SESSION)
    assert "\x1b" not in on_terminal(with_env(claude, TERM="dumb"), "show", SESSION)
    forced = with_env(claude, COLUMNS="60", AMUX_PAGER="false")(
        "show", SESSION, "--color", "always"
    )
    assert "\x1b[1;36muser" in forced.out
    plain = COLOR.sub("", forced.out)
    assert plain == on_terminal(claude, "show", SESSION, "--no-color", columns=60)


def test_full_unfolds_everything(claude: Cli) -> None:
    folded = on_terminal(claude, "show", COMPACTED[1], "--no-color")
    full = on_terminal(claude, "show", COMPACTED[1], "--no-color", "--full")
    assert "more lines" in folded
    assert "--full shows what is folded" in folded
    assert "more lines" not in full
    assert "injected: <command-name>/compact</command-name>" in folded
    assert "\n  <command-name>/compact</command-name>\n" in full


def test_a_terminal_without_symbols_gets_plain_ones(claude: Cli) -> None:
    screen = on_terminal(with_env(claude, PYTHONIOENCODING="ascii"), "show", SESSION, "--no-color")
    assert "\n  x Bash  echo oops >&2; exit 1  failed\n" in screen
    assert "\n  + Bash  echo alpha\n" in screen
    assert "-- 2026-11-15 ----" in screen
    assert screen.isascii()


# The pager


def test_a_session_that_fits_on_the_screen_is_printed(claude: Cli, tmp_path: Path) -> None:
    cli = with_env(claude, AMUX_PAGER=pager(tmp_path))
    screen = on_terminal(cli, "show", SESSION, rows=100)
    assert screen == on_terminal(claude, "show", SESSION, rows=100)
    height = len(screen.splitlines())
    assert on_terminal(cli, "show", SESSION, rows=height + 1) == screen
    assert on_terminal(cli, "show", SESSION, rows=height).startswith("argv")


def test_a_longer_session_goes_through_the_pager(claude: Cli, tmp_path: Path) -> None:
    cli = with_env(claude, AMUX_PAGER=f"{pager(tmp_path)} -x 'a b'", PAGER="false")
    whole = on_terminal(claude, "show", SESSION, "--no-color").splitlines()
    assert on_terminal(cli, "show", SESSION, "--no-color").splitlines() == [
        "argv -x a b",
        "environment FRX -c",
        f"lines {len(whole)} {whole[0]} | {whole[-1]}",
    ]


def test_an_own_setting_of_less_stays(claude: Cli, tmp_path: Path) -> None:
    cli = with_env(claude, AMUX_PAGER=pager(tmp_path), LESS="-S")
    assert "\nenvironment -S -c\n" in on_terminal(cli, "show", SESSION)


@pytest.mark.parametrize("choice", ["", "cat"])
def test_no_pager_is_started_if_none_is_wanted(claude: Cli, tmp_path: Path, choice: str) -> None:
    whole = on_terminal(claude, "show", SESSION)
    assert on_terminal(with_env(claude, AMUX_PAGER=choice), "show", SESSION) == whole
    cli = with_env(claude, AMUX_PAGER=pager(tmp_path))
    assert on_terminal(cli, "show", SESSION, "--no-pager") == whole


@pytest.mark.parametrize(
    "choice", ["no-such-pager -R", "cat; touch {made}", "$(touch {made})", "'unclosed", "/"]
)
def test_a_missing_pager_is_no_obstacle_and_no_shell_is_asked(
    claude: Cli, tmp_path: Path, choice: str
) -> None:
    made = tmp_path / "made"
    cli = with_env(claude, AMUX_PAGER=choice.format(made=made))
    assert on_terminal(cli, "show", SESSION) == on_terminal(claude, "show", SESSION)
    assert not made.exists()


@pytest.mark.parametrize("code", ["import sys; print(sys.stdin.readline())", "raise SystemExit(3)"])
def test_a_pager_may_be_left_early(claude: Cli, tmp_path: Path, code: str) -> None:
    cli = with_env(claude, AMUX_PAGER=pager(tmp_path, code))
    assert len(on_terminal(cli, "show", SESSION, "--full").splitlines()) <= 2


def test_an_interrupt_is_for_the_pager(claude: Cli, tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getppid(), signal.SIGINT)\n" + PAGER
    cli = with_env(claude, AMUX_PAGER=pager(tmp_path, code))
    assert "\nlines " in on_terminal(cli, "show", SESSION)


def test_less_is_the_pager_if_none_is_named(claude: Cli, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    less = programs / "less"
    less.write_text(f"#!{sys.executable}\n{PAGER}", encoding="utf-8")
    less.chmod(0o755)
    cli = with_env(claude, PATH=str(programs))
    screen = on_terminal(cli, "show", SESSION, is_paged=True)
    assert screen.startswith("argv -R\nenvironment FRX -c\n")
    less.unlink()
    whole = on_terminal(claude, "show", SESSION)
    assert on_terminal(cli, "show", SESSION, is_paged=True) == whole
    dumb = with_env(claude, PATH=str(programs), TERM="dumb")
    assert on_terminal(dumb, "show", SESSION, is_paged=True) == COLOR.sub("", whole)


def test_an_empty_pager_variable_of_ours_comes_before_the_general_one(
    claude: Cli, tmp_path: Path
) -> None:
    cli = with_env(claude, AMUX_PAGER="", PAGER=pager(tmp_path))
    assert "argv" not in on_terminal(cli, "show", SESSION)
    general = with_env(claude, PAGER=pager(tmp_path))
    assert on_terminal(general, "show", SESSION, is_paged=True).startswith("argv\n")
