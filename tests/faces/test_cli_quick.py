"""A list from what is kept is the list made the long way, byte by byte, or it is not given."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from builders import write_claude
from cli_process import Cli, copied_home

RUN_ALL = """
import io, json, sys
from amux.__main__ import main

def run(words):
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in "oe")
    try:
        code = main(words)
        sys.stdout.flush(), sys.stderr.flush()
        return [code, *(each.buffer.getvalue().decode() for each in (sys.stdout, sys.stderr))]
    finally:
        sys.stdout, sys.stderr = streams

answers = [[*run(words), "msgspec" in sys.modules] for words in json.loads(sys.argv[1])]
print(json.dumps(answers))
"""
CAPTURES = ("claude/2.1.325", "claude/2.0.77", "codex/0.166.0", "gemini/0.61.0", "pi/1.5.0")
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
LONG = ["list --starred", "list --tag x", "list --cwd .", "list --debug", "list nobody"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str
    is_long: bool  # something was loaded that only the long way needs


def answers(cli: Cli, lines: Iterable[str], *, index: str = "on") -> list[Answer]:
    words = json.dumps([line.split() for line in lines])
    result = Cli(cli.home, {**cli.env, "AMUX_INDEX": index}).python("-c", RUN_ALL, words)
    assert result.code == 0, result.err
    return [Answer(*each) for each in json.loads(result.out)]


@pytest.fixture
def many(tmp_path: Path) -> Cli:
    """Several agents, sub-agents, archived sessions; titles with what a terminal would obey."""
    home = copied_home(tmp_path, *CAPTURES)
    write_claude(home, 1, prompt='a "quoted" \x1b[31m\x7f\u202e\u2028 title \U0001f600 \\ /')
    write_claude(home, 2, prompt="without usage")
    time.sleep(0.1)  # what was written this very moment is not trusted
    return Cli(home)


def test_quick_lists_are_those_of_the_long_way(many: Cli) -> None:
    lines = [f"{line}{shown}" for line in QUICK for shown in SHOWN]
    expected = answers(many, lines, index="off")
    answers(many, ["list"])
    found = answers(many, lines)
    for line, one, other in zip(lines, found, expected, strict=True):
        assert one[:3] == other[:3], line
        assert not one.is_long, line
    assert {one.code for one in found} == {0}
    assert sum(bool(one.err) for one in found) > 2, "something was left out and said"


def test_tables_are_drawn_alike(many: Cli) -> None:
    expected = answers(many, DRAWN, index="off")
    answers(many, ["list"])
    assert [one[:3] for one in answers(many, DRAWN)] == [one[:3] for one in expected]


def test_what_a_quick_list_cannot_tell_takes_the_long_way(many: Cli) -> None:
    expected = answers(many, LONG, index="off")
    answers(many, ["list"])
    for line, other in zip(LONG, expected, strict=True):
        (one,) = answers(many, [line])
        assert one[:3] == other[:3], line
        assert one.is_long, line


def test_nothing_is_taken_from_an_index_that_is_behind(many: Cli) -> None:
    lines = ["list", "list --json"]
    answers(many, lines)
    grown = write_claude(many.home, 3, prompt="new").path
    new, as_json = answers(many, lines)
    assert new.out.count("\n") == len(json.loads(as_json.out))
    assert "new" in new.out
    time.sleep(0.1)
    answers(many, lines)
    with grown.open("ab") as file:  # the folder does not change with it
        file.write(grown.read_bytes().replace(b"new", b"old"))
    (after,) = answers(many, ["list --json"])
    assert after.out == answers(many, ["list --json"], index="off")[0].out


def test_annotated_and_broken_homes_take_the_long_way(many: Cli, tmp_path: Path) -> None:
    lines = ["list", "list --json"]
    answers(many, lines)
    assert not any(one.is_long for one in answers(many, lines))
    starred = json.loads(answers(many, lines)[1].out)[0]["unifiedId"]
    assert many("star", starred).code == 0
    for one, other in zip(answers(many, lines), answers(many, lines, index="off"), strict=True):
        assert one.is_long
        assert one[:3] == other[:3]
        assert "star" in one.out
    shutil.rmtree(many.home / ".local")
    assert not any(one.is_long for one in answers(many, lines))
    (index,) = (tmp_path / "cache").glob("index-*.db")
    index.write_bytes(b"no database" * 1000)
    for one, other in zip(answers(many, lines), answers(many, lines, index="off"), strict=True):
        assert one[:3] == other[:3]


def test_a_link_to_nothing_hides_no_change(many: Cli) -> None:
    folder = write_claude(many.home, 4, prompt="beside a link").path.parent
    for number in range(20):  # wherever in the folder they are met
        (folder / f"{number}.lock").symlink_to("nowhere")
    time.sleep(0.1)
    answers(many, ["list"])
    assert not answers(many, ["list"])[0].is_long
    for path in sorted(folder.glob("*.jsonl")):
        path.write_bytes(path.read_bytes().replace(b"beside", b"besides"))
        time.sleep(0.1)
        assert answers(many, ["list"])[0].is_long, path
