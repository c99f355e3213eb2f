"""The four exercises, the agent in forty lines and its guide, run as a user runs them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_env

from amux import SessionStore

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
GUIDE = (ROOT / "docs" / "guides" / "build-your-own-agent.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=child_env(HOME=str(folder)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ex1_rollout.py", '"type":"session_meta"'),
        ("ex2_index.py", "75 threads; the newest says: question 149"),
        ("ex3_lifecycle.py", "after clear: context 0.00, billing 0.50"),
        ("ex4_reset.py", "both: None, daily, daily"),
    ],
)
def test_every_exercise_runs(tmp_path: Path, name: str, expected: str) -> None:
    assert expected in run(tmp_path, str(EXAMPLES / name), str(tmp_path / "store"))


def test_the_guide_shows_the_agent_of_forty_lines() -> None:
    text = (EXAMPLES / "minimal_agent.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    assert BLOCKS[0] == text.replace("  # noqa: PTH109", "")


def test_the_conversation_of_the_guide_is_a_real_one(tmp_path: Path) -> None:
    (tmp_path / "minimal_agent.py").write_text(BLOCKS[0], encoding="utf-8")
    found = re.search(r"^```\n(\$ .*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    shown = found[1]
    real = ""
    for line in re.findall(r"^\$ python (.*)$", shown, re.MULTILINE):
        output = run(tmp_path, *shlex.split(line))
        real += f"$ python {line}\n" + "".join(f"{each.rstrip()}\n" for each in output.splitlines())
    assert real == shown


def test_the_agent_keeps_its_sessions_in_files(tmp_path: Path) -> None:
    script = str(EXAMPLES / "minimal_agent.py")
    for words in (["one"], ["two"], ["/new"], ["three"]):
        run(tmp_path, script, *words)
    with SessionStore(tmp_path / "sessions") as store:
        newest, oldest = store.list()
        assert (oldest.message_count, newest.message_count) == (4, 4)
        assert store.stats().resumes.complete == 2
        texts = [each["content"] for each in store.open(oldest.thread_id).conversation()]
        assert texts[::2] == ["one", "two"]
        first = store.open(oldest.thread_id).path.read_text(encoding="utf-8").splitlines()[0]
    assert json.loads(first)["type"] == "session_meta"


def test_the_code_of_the_guide_works(tmp_path: Path) -> None:
    assert len(BLOCKS) == 5
    run(tmp_path, "-c", "\n".join(BLOCKS[1:]))
