"""One agent, one name: adapter, table, docs page, captures and suite agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from amux.adapters import BUILTIN, load_builtin
from amux.testing import find_captures

ROOT = Path(__file__).parent.parent.parent
ADAPTERS = ROOT / "src" / "amux" / "adapters"
WITHOUT_CAPTURES = {"agent"}  # known by its documentation; its tests build a home from the samples
HEADINGS = (
    "## Where",
    "## Formats by version",
    "## What is counted",
    "## Titles",
    "## Lineage",
    "## Known gaps",
    "## Resume and fork",
    "## Evidence",
)


def test_every_adapter_package_is_in_the_table_and_the_other_way_round() -> None:
    packages = {path.parent.name for path in ADAPTERS.glob("*/__init__.py")}
    assert packages - {"_kit"} == set(BUILTIN)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_built_in_agent_has_one_name_everywhere(name: str) -> None:
    adapter = load_builtin(name)
    assert adapter is not None
    assert adapter.info.name == name
    assert BUILTIN[name] == f"amux.adapters.{name}"


@pytest.mark.parametrize("name", sorted(BUILTIN.keys() - WITHOUT_CAPTURES))
def test_a_built_in_agent_has_captures(name: str) -> None:
    captures = find_captures(ROOT / "tests" / "captures", name)
    assert captures
    assert all(capture.sessions for capture in captures)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_built_in_agent_has_a_page_with_every_heading(name: str) -> None:
    text = (ROOT / "docs" / "agents" / f"{name}.md").read_text(encoding="utf-8")
    missing = [heading for heading in HEADINGS if f"\n{heading}\n" not in text]
    assert missing == []


@pytest.mark.parametrize("name", BUILTIN)
def test_a_built_in_agent_runs_the_whole_suite(name: str) -> None:
    tests = (ROOT / "tests" / "adapters").glob("test_*.py")
    texts = [path.read_text(encoding="utf-8") for path in tests]
    wanted = f"amux.adapters.{name} import ADAPTER"
    assert any(wanted in text and "(AdapterSuite)" in text for text in texts)
