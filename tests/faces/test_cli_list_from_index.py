"""A list from the index equals the list from reading, byte by byte, or is not used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from builders import age, write_claude, write_runs
from cli_process import Cli, copied_home

RUN_ALL = """
import io, json, os, sys
from amux.__main__ import main
from amux.client import Client

long_way, asked = Client.list_report, []

def noting(self, *arguments):
    asked.append(arguments)
    return long_way(self, *arguments)

def run(index, words):
    os.environ["AMUX_INDEX"] = index
    asked.clear()
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in "oe")
    try:
        code = main(words)
        sys.stdout.flush(), sys.stderr.flush()
        said = [each.buffer.getvalue().decode() for each in (sys.stdout, sys.stderr)]
        return [code, *said, bool(asked), "msgspec" in sys.modules]
    finally:
        sys.stdout, sys.stderr = streams

Client.list_report = noting
print(json.dumps([run(*each) for each in json.loads(sys.argv[1])]))
"""
CAPTURES = ("claude/2.1.325", "codex/0.166.0", "gemini/0.61.0", "pi/1.5.0")
QUICK = [
    "list",
    "sessions list",
    "list claude",
    "list --agent codex",
    "list --limit 2",
    "list --limit 0",
    "list --limit all --all",
    "list --children",
    "list --archived",
    *(f"list --sort {word}" for word in ("date", "cost", "turns", "updated")),
    "list --sort cost --direction asc --limit 3",
    "list --since 2025-01-01 --until 2099-01-01",
    "list --until 1999-12-31",
    "list -m no-such-model",
    "list -m claude-haiku-4-5-20251001",
    "list -q --limit 1",
]
SHOWN = ["", " --json"]
DRAWN = ["list --color always", "list --color always --no-color", "list --color always --all"]
LISTS = ["list", "list --json"]
LONG = ["list --starred", "list --tag x", "list --cwd .", "list --debug", "list nobody"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str
    is_long: bool  # the sources, or the whole index, were asked
    is_heavy: bool  # what only the long way needs was loaded so far


def run(cli: Cli, *orders: tuple[str, str]) -> list[Answer]:
    """Lines in one process, each with or without the index."""
    words = json.dumps([(index, line.split()) for index, line in orders])
    result = cli.python("-c", RUN_ALL, words)
    assert result.code == 0, result.err
    return [Answer(*each) for each in json.loads(result.out)]


def answers(cli: Cli, lines: Sequence[str]) -> list[Answer]:
    return run(cli, *(("on", line) for line in lines))


def answers_both_ways(cli: Cli, lines: Sequence[str]) -> list[Answer]:
    """What is said from the index, after it was found to be what is said without."""
    every = run(cli, *((index, line) for line in lines for index in ("on", "off")))
    for line, one, other in zip(lines, every[::2], every[1::2], strict=True):
        assert one[:3] == other[:3], line
    return every[::2]


@pytest.fixture
def many(tmp_path: Path) -> Cli:
    """Several agents, sub-agents, archived sessions; titles with what a terminal would obey."""
    home = copied_home(tmp_path, *CAPTURES)
    write_claude(home, 1, prompt='a "quoted" \x1b[31m\x7f\u202e\u2028 title \U0001f600 \\ /')
    write_claude(home, 2, prompt="without usage")
    age(*home.rglob("*"))
    return Cli(home)


def test_fast_lists_equal_full_lists(many: Cli) -> None:
    lines = [f"{line}{shown}" for line in QUICK for shown in SHOWN]
    answers(many, ["list"])
    found = answers_both_ways(many, [*lines, *DRAWN])
    assert not any(one.is_long for one in found)
    assert {one.code for one in found} == {0}
    assert sum(bool(one.err) for one in found) > 2, "something was left out and said"
    assert not any(one.is_heavy for one in answers(many, lines))


def test_unsupported_options_do_not_use_the_fast_list(many: Cli) -> None:
    answers(many, ["list"])
    assert all(one.is_long for one in answers_both_ways(many, LONG))


def test_an_outdated_index_is_not_used_for_the_fast_list(many: Cli) -> None:
    answers(many, LISTS)
    grown = write_claude(many.home, 3, prompt="new").path
    new, _ = answers_both_ways(many, LISTS)
    assert new.is_long
    assert "new" in new.out
    age(grown)
    answers(many, LISTS)
    with grown.open("ab") as file:  # the folder does not change with it
        file.write(grown.read_bytes().replace(b"new", b"old"))
    age(grown, seconds=30)
    first, _ = answers_both_ways(many, LISTS)
    assert first.is_long


def test_stars_tags_runs_and_settings_are_in_quick_lists(many: Cli) -> None:
    answers(many, LISTS)
    _, as_json = answers(many, LISTS)
    assert not as_json.is_long
    first, second, *_ = (each["unifiedId"] for each in json.loads(as_json.out))
    assert many("star", first).code == 0
    assert many("tag", first, 'a"quoted', "\u2028\u00e9").code == 0
    agent, session_id = second.split(":")
    run = {"agent": agent, "sessionId": session_id, "tags": ["x", "y"]}
    settings = write_runs(many.home, run).with_name("config.yaml")
    settings.write_text("timezone: Asia/Tokyo\ncolor: always\n", encoding="utf-8")
    age(*settings.parent.iterdir())
    (made,) = answers(many, ["list"])
    assert made.is_long
    lines = [*LISTS, *DRAWN, "list --since 2025-01-01 --until 2026-06-30 --json", "list claude"]
    found = answers_both_ways(many, lines)
    assert not any(one.is_long for one in found)
    assert "\u2605" in found[0].out
    assert '"starred": true' in found[1].out
    assert not any(one.is_heavy for one in answers(many, lines))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "no_such_setting: 1\n"),
        ("run-index.jsonl", "no JSON\n"),
        ("../.local/share/amux/annotations.jsonl", "no JSON\n"),
    ],
)
def test_a_quick_list_hides_no_warning(many: Cli, name: str, content: str) -> None:
    path = many.home / ".agent-mux" / name
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    age(path)
    answers(many, LISTS)
    for one in answers_both_ways(many, LISTS):
        assert one.is_long
        assert "warning: " in one.err


def test_a_broken_index_is_not_used_for_lists(many: Cli, tmp_path: Path) -> None:
    answers(many, LISTS)
    (index,) = (tmp_path / "cache").glob("index-*.db")
    index.write_bytes(b"no database" * 1000)
    first, _ = answers_both_ways(many, LISTS)
    assert first.is_long


def test_a_dangling_link_hides_no_change(many: Cli) -> None:
    folder = write_claude(many.home, 4, prompt="beside a link").path.parent
    for number in range(20):  # wherever in the folder they are met
        (folder / f"{number}.lock").symlink_to("nowhere")
    age(*folder.iterdir())
    _, again = answers(many, ["list", "list"])
    assert not again.is_long
    for path in sorted(folder.glob("*.jsonl")):
        path.write_bytes(path.read_bytes() + b"\n")
        age(path, seconds=30)
        first, again = answers(many, ["list", "list"])
        assert first.is_long, path
        assert not again.is_long, path
