from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amux.faces.cli.commands import COMMANDS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "cli.md"


@pytest.mark.parametrize("command", [command.words for command in COMMANDS])
def test_every_command_is_documented(command: str) -> None:
    assert f"## amux {command}\n" in PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    check = [sys.executable, str(ROOT / "tools" / "gen_cli_docs.py"), "--check"]
    assert subprocess.run(check, capture_output=True, check=False).stderr == b""
