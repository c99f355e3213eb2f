"""The lists of injected texts, and the rule of the conformance suite that uses them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from amux.adapters import BUILTIN, load_builtin
from amux.adapters._base import AgentInfo, InjectedText
from amux.client import create_client
from amux.testing import find_captures, injected_openings

FIXTURES = Path(__file__).parent.parent / "fixtures"
WITHOUT_INJECTED_TEXTS = {"agent", "amux"}  # formats in which only the person has the role


def info_of(name: str) -> AgentInfo:
    adapter = load_builtin(name)
    assert adapter is not None
    return adapter.info


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_every_agent_says_where_each_of_its_injected_texts_was_seen(name: str) -> None:
    texts = info_of(name).injected_texts
    assert bool(texts) is (name not in WITHOUT_INJECTED_TEXTS)
    assert [each.opening for each in texts if not re.search(r"\d", each.seen)] == []


@pytest.mark.parametrize(
    ("opening", "found"),
    [
        ("Where are prices", ["title", "prompt"]),
        ("Your task is to do a deep", ["title", "prompt"]),  # of a sub-agent
        ("Prices are rounded", []),  # an answer
        ("You have exceeded the maximum", []),  # injected, and marked as such
    ],
)
def test_the_rule_finds_titles_and_prompts_also_of_sub_agents_that_no_list_shows(
    opening: str, found: list[str], tmp_path: Path
) -> None:
    captures = find_captures(FIXTURES, "gemini")
    (fixture,) = (each for each in captures if each.version == "subagent-beside-its-session")
    client = create_client(home=fixture.copy_to(tmp_path))
    listed = (InjectedText(opening, seen="0.20.0"),)
    info = msgspec.structs.replace(info_of("gemini"), injected_texts=listed)
    wrong = injected_openings(client, "gemini", info)
    assert [re.findall(r" (title|prompt): '", each) for each in wrong] == [[what] for what in found]
