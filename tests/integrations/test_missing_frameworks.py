"""An integration whose framework is missing says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest
from child_processes import child_env

FRAMEWORKS = {
    "claude": ("claude_agent_sdk", "claude"),
    "openai_agents": ("agents", "openai-agents"),
    "langgraph": ("langchain_core", "langgraph"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "adk": ("google", "adk"),
    "strands": ("strands", "strands"),
    "strands_storage": ("strands", "strands"),
}


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_missing_framework_is_named_with_the_extra_that_installs_it(module: str) -> None:
    package, extra = FRAMEWORKS[module]
    program = f"import sys; sys.modules[{package!r}] = None; import amux.integrations.{module}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=child_env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f'pip install "agent-mux[{extra}]"' in last
