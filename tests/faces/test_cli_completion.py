from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_process import Cli

from amux.faces.cli.commands import COMMANDS
from amux.faces.cli.parser import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_every_command_and_its_options(empty: Cli, shell: str) -> None:
    result = empty("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert result.out == empty("--completions", shell).out
    for command in COMMANDS:
        assert command.words.split()[-1] in result.out
    for option in ("since", "group-by", "config-dir", "no-color"):
        assert option in result.out


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_shell_itself_accepts_its_script(empty: Cli, tmp_path: Path, shell: str) -> None:
    script = tmp_path / "completion"
    script.write_text(empty("completion", shell).out, encoding="utf-8")
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("amux se", {"search", "sessions"}),
        ("amux sessions ex", {"export"}),
        ("amux list --dir", {"--direction"}),
        ("amux list --sort ", {"date", "cost", "turns", "updated"}),
        ("amux cost report --by mo", {"model", "month"}),
        ("amux completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes_partial_words(
    empty: Cli, tmp_path: Path, line: str, expected: set[str]
) -> None:
    script = tmp_path / "completion"
    script.write_text(empty("completion", "bash").out, encoding="utf-8")
    ask = (
        f"source {script}; COMP_WORDS=({line}); "
        + ("COMP_WORDS+=(''); " if line.endswith(" ") else "")
        + "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9; "
        "$(complete -p amux | sed 's/.*-F \\([^ ]*\\) .*/\\1/') amux; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
    assert {word.strip() for word in done.stdout.split()} == expected, done.stderr
