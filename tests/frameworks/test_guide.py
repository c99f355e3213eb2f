"""The examples of docs/guides/frameworks.md run, without a network, and store a session."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_env

from amux.store.session_store import SessionStore

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "frameworks.md"
SECTIONS = {
    "Claude Agent SDK": "claude-agent-sdk",
    "OpenAI Agents SDK": "openai-agents",
    "LangGraph": "langgraph",
    "Pydantic AI": "pydantic-ai",
    "Google ADK": "google-adk",
    "Strands Agents": "strands",
}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_example_of_a_framework_stores_a_session(title: str, tmp_path: Path) -> None:
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert examples
    ran = subprocess.run(
        [sys.executable, "-c", examples[0]],
        cwd=tmp_path,
        env=child_env(HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (folder,) = [path for path in tmp_path.iterdir() if (path / "sessions").is_dir()]
    with SessionStore(folder) as store:
        threads = [each for each in store.list(limit=None) if each.message_count]
    assert {each.source for each in threads} == {SECTIONS[title]}
