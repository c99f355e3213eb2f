"""The package has the promised names, and importing it loads nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import amux

ROOT = Path(__file__).parent.parent.parent


def test_every_promised_name_is_there_and_sorted() -> None:
    assert list(amux.__all__) == sorted(amux.__all__)
    for name in amux.__all__:
        assert getattr(amux, name) is not None


def test_dir_shows_the_promised_names_only() -> None:
    assert dir(amux) == sorted(amux.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(amux, "watch")


def test_importing_the_package_loads_nothing_else() -> None:
    script = (
        "import sys; before = set(sys.modules); import amux; print(*sys.modules.keys() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert {name for name in done.stdout.split() if name.split(".")[0] == "amux"} == {
        "amux",
        "amux._version",
    }
    assert "msgspec" not in done.stdout


def test_the_package_is_typed() -> None:
    assert (ROOT / "src" / "amux" / "py.typed").is_file()


def test_generated_files_are_up_to_date() -> None:
    for tool in (
        *("gen_aio.py", "gen_cli_docs.py", "gen_rates.py", "gen_known_fields.py"),
        "reference.py",
    ):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools" / tool), "--check"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
