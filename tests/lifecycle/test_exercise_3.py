"""The third exercise of the comparison of session models, and the guide, as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from child_processes import child_env

ROOT = Path(__file__).parent.parent.parent
GUIDE = ROOT / "docs" / "guides" / "lifecycle-hooks.md"
_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(home: Path, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *words],
        env=child_env(HOME=str(home)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_clear_and_resume_differ_on_the_costs(tmp_path: Path) -> None:
    example = ROOT / "examples" / "ex3_lifecycle.py"
    assert run(tmp_path, str(example), str(tmp_path / "store")) == [
        "after one answer: context 0.50, billing 0.50",
        "after resume: context 0.50, billing 0.50",
        "after clear: context 0.00, billing 0.50",
        "`fork` is no lifecycle source",
        "startup",
        "resume: 1 calls so far",
        "clear: 0 messages left",
    ]


def test_the_samples_of_the_guide_work_in_order(tmp_path: Path) -> None:
    samples = "\n".join(_PYTHON_BLOCK.findall(GUIDE.read_text(encoding="utf-8")))
    printed = run(tmp_path, "-c", samples)
    assert printed[1] == "> The project is /project."
    assert printed[-1] == "session_ended {'reason': 'user_exit'}"
