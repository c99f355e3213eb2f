"""The documentation agrees with the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from child_processes import child_env

from amux._version import __version__
from amux.model.annotation import Note, SessionAnnotations
from amux.model.base import Model
from amux.model.change import SessionChange
from amux.model.cost import (
    BlockProjection,
    BurnRate,
    CostBlock,
    CostBreakdown,
    CostRecord,
    CostSummary,
    UnattributedCalls,
    UnpricedModel,
)
from amux.model.diff import DiffOperation, DiffSide, DiffStats, SessionDiff
from amux.model.incomplete import REASONS
from amux.model.message import SessionMessage, SessionToolCall, TokenUsage, ToolResult
from amux.model.problems import Problem, ProblemCode
from amux.model.reports import (
    AgentStatus,
    CostExplanation,
    ExplainedCall,
    FileReport,
    IndexCheck,
    IndexedSources,
    IndexerStatus,
    IndexMismatch,
    IndexStatus,
    NextLoss,
    Overview,
    RootReport,
    UnknownField,
    UnknownFile,
    UnknownReport,
    UnknownType,
)
from amux.model.session import SearchHit, Session, SessionSummary
from amux.model.usage import Call, Tokens
from amux.runs.events import AgentEvent
from amux.runs.launch import Launch

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

PUBLIC_TYPES: tuple[type[Model], ...] = (
    SessionSummary, SearchHit, Session, SessionMessage, SessionToolCall, ToolResult, TokenUsage,
    CostRecord, Call, Tokens, CostSummary, CostBreakdown, UnattributedCalls, UnpricedModel,
    CostBlock, BurnRate, BlockProjection,
    SessionDiff, DiffSide, DiffOperation, DiffStats, CostExplanation, ExplainedCall,
    AgentStatus, Overview, Problem, Note, SessionAnnotations, SessionChange,
    RootReport, FileReport, NextLoss, IndexStatus, IndexerStatus, IndexedSources, IndexCheck,
    IndexMismatch, AgentEvent, Launch, UnknownReport, UnknownType, UnknownField, UnknownFile,
)  # fmt: skip
_ASKS_FOR_A_VARIABLE = re.compile(r"\b(?:path_from|env\.get|dir_from)\(\s*\"([A-Z][A-Z0-9_]*)\"")
_ROW = re.compile(r"^\| `(\w+)` \|[^|]*\|\s*(always)?\s*\|", re.MULTILINE)
_PLAIN_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def run_tool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_every_relative_link_leads_somewhere() -> None:
    found = run_tool("tools/links.py")
    assert (found.returncode, found.stderr) == (0, "")


def test_generated_reference_pages_are_up_to_date() -> None:
    found = run_tool("tools/reference.py", "--check")
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("public_type", PUBLIC_TYPES, ids=lambda public_type: public_type.__name__)
def test_the_json_page_lists_exactly_the_fields_of_a_type(public_type: type[Model]) -> None:
    section = read(DOCS / "reference" / "json.md").split(f"\n## {public_type.__name__}\n")[1]
    documented = dict(_ROW.findall(section.split("\n## ")[0]))
    everything_is_written = not public_type.__struct_config__.omit_defaults
    fields = msgspec.structs.fields(public_type)
    assert documented == {
        field.encode_name: "always" if field.required or everything_is_written else ""
        for field in fields
    }


def test_every_public_type_has_a_section() -> None:
    assert {public_type.__name__ for public_type in PUBLIC_TYPES} == set(schema_of_all())


@pytest.mark.parametrize("public_type", PUBLIC_TYPES, ids=lambda public_type: public_type.__name__)
def test_the_schema_requires_what_the_json_page_calls_always_present(
    public_type: type[Model],
) -> None:
    section = read(DOCS / "reference" / "json.md").split(f"\n## {public_type.__name__}\n")[1]
    rows = dict(_ROW.findall(section.split("\n## ")[0]))
    always = {name for name, present in rows.items() if present}
    assert set(schema_of_all()[public_type.__name__]["required"]) == always


def schema_of_all() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((DOCS / "reference" / "schema.json").read_bytes())
    return found["$defs"]


def test_every_environment_variable_the_code_asks_for_is_documented() -> None:
    page = read(DOCS / "reference" / "environment.md")
    asked = {
        name
        for module in (ROOT / "src").rglob("*.py")
        for name in _ASKS_FOR_A_VARIABLE.findall(read(module))
    }
    assert asked
    assert {name for name in asked if f"`{name}`" not in page} == set()


def test_every_problem_code_is_explained() -> None:
    page = read(DOCS / "concepts" / "errors.md")
    assert [code for code in get_args(ProblemCode) if f"| `{code}` |" not in page] == []


def test_every_reason_for_an_incomplete_cost_is_documented() -> None:
    pages = "".join(map(read, (DOCS / "concepts" / "counting.md", *DOCS.glob("agents/*.md"))))
    assert [reason for reason in REASONS if f"`{reason}`" not in pages] == []


def test_every_decision_has_its_four_parts_on_one_page_and_is_listed() -> None:
    listed = read(DOCS / "adr" / "README.md")
    records = sorted((DOCS / "adr").glob("0*.md"))
    assert records
    for record in records:
        text = read(record)
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences", "Rejected"], record.name
        assert len(text.splitlines()) <= 60, record.name
        assert f"({record.name})" in listed


def test_the_routing_page_stays_short() -> None:
    assert len(read(ROOT / "AGENTS.md").splitlines()) <= 120
    assert "AGENTS.md" in read(ROOT / "CLAUDE.md")


def test_the_changelog_knows_this_version() -> None:
    assert __version__ in read(ROOT / "CHANGELOG.md")


def test_the_adapter_of_the_guide_works(tmp_path: Path) -> None:
    import amux

    blocks = _PYTHON_BLOCK.findall(read(DOCS / "guides" / "write-an-adapter.md"))
    names: dict[str, Any] = {}
    exec(compile(blocks[0], "write-an-adapter.md", "exec"), names)
    folder = tmp_path / ".notes"
    folder.mkdir()
    (folder / "first.jsonl").write_text(
        '{"role": "user", "text": "say hello", "time": 1790000000}\n'
        '{"role": "assistant", "text": "hello", "time": 1790000002, "usage": {"in": 7, "out": 2}}\n'
    )
    client = amux.create_client(home=tmp_path, env={})
    client.adapters.register(names["NotesAdapter"](tmp_path))
    [summary] = client.sessions.list("notes")
    assert (summary.unified_id, summary.title) == ("notes:first", "say hello")
    assert (summary.turn_count, summary.message_count) == (1, 2)
    assert summary.cost is not None
    assert (summary.cost.input_tokens, summary.cost.output_tokens) == (7, 2)


def python_of(page: Path) -> str:
    """All Python samples of a page, in one program."""
    return "\n".join(_PYTHON_BLOCK.findall(read(page)))


def run_in(folder: Path, words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env=child_env(HOME=str(folder), USERPROFILE=str(folder), **env),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_python_samples_of_the_store_work(tmp_path: Path) -> None:
    samples = python_of(DOCS / "guides" / "keep-sessions.md")
    done = run_in(tmp_path, [sys.executable, "-c", samples])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_in_the_guide_of_the_store_work_in_order(tmp_path: Path) -> None:
    page = DOCS / "guides" / "keep-sessions.md"
    assert run_in(tmp_path, [sys.executable, "-c", python_of(page)]).returncode == 0
    lines = [
        line
        for block in _PLAIN_BLOCK.findall(_PYTHON_BLOCK.sub("", read(page)))
        for line in block.splitlines()
    ]
    assert len(lines) > 30
    program = f'amux() {{ "{sys.executable}" -m amux "$@"; }}\nset -e\n' + "\n".join(lines)
    done = run_in(tmp_path, ["sh", "-c", program])
    assert (done.returncode, "error:" in done.stderr) == (0, False), done.stderr


def test_the_sample_of_the_readme_keeps_a_session(tmp_path: Path) -> None:
    [sample] = [each for each in _PYTHON_BLOCK.findall(read(ROOT / "README.md")) if "store" in each]
    assert len([line for line in sample.splitlines() if line]) <= 15
    done = run_in(tmp_path, [sys.executable, "-c", sample])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "user Why is the total off by a cent?",
        "assistant The discount is rounded per item.",
    ]
    assert ">>>discount<<<" in done.stdout


def test_the_reader_in_twenty_lines_reads_every_rollout(tmp_path: Path) -> None:
    from amux.rollout.rollout_reader import read_forward

    sample = python_of(DOCS / "internals" / "rollout-format.md")
    function = sample[sample.index("def ") : sample.index("\nfor record")]
    assert len([line for line in function.splitlines() if line]) <= 20
    captured = sorted((ROOT / "tests" / "captures" / "amux").rglob("rollout-*.jsonl"))
    begun = b'{"type":"event_msg","seq":98,"id":"x","timestamp":"2026-01-01T00:00:00Z",'
    begun += b'"batch":[1,2],"payload":{}}\n'
    last = begun.replace(b"98", b"99").replace(b"[1,2]", b"[1,1]")
    ends = (
        b"",
        begun + b'{"ty',
        begun + last.removesuffix(b"\n"),
        begun + b'{"ty\n' + last.replace(b'"payload"', b'"after_cut":true,"payload"'),
    )
    for number, path in enumerate(captured):
        for end in ends:
            copy = tmp_path / path.name
            lines = path.read_bytes().splitlines(keepends=True)
            del lines[number : number % 2 * (number + 1)]  # of every second file one line is lost
            copy.write_bytes(b"".join(lines) + end)
            done = run_in(tmp_path, [sys.executable, "-c", sample, str(copy)])
            assert (done.returncode, done.stderr) == (0, "")
            expected = [(str(each.seq), each.type) for each in read_forward(str(copy))]
            assert [tuple(line.split()[:2]) for line in done.stdout.splitlines()] == expected


def test_the_samples_of_the_session_database_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import amux

    monkeypatch.chdir(tmp_path)
    blocks = _PYTHON_BLOCK.findall(read(DOCS / "guides" / "session-db.md"))
    for block in blocks:
        exec(compile(block, "session-db.md", "exec"), {})
    shown = re.search(r"print\(.*\)  # (.+)", blocks[0])
    assert shown is not None
    assert capsys.readouterr().out.split() == shown[1].split()
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.db"]
    with amux.SessionDB("sessions.db") as db:
        assert db.session_count() == 1002


def test_every_command_in_the_guides_is_understood() -> None:
    from amux.faces.cli.parser import build_parser

    guides = [read(DOCS / "guides" / name) for name in ("first-steps.md", "cost-reports.md")]
    lines = [line for page in guides for line in page.splitlines() if re.match(r"amux\b", line)]
    assert lines
    for line in lines:
        words = shlex.split(re.split(r" [|>] ", line)[0])[1:]
        _, extra = build_parser().parse_known_args(words)
        assert extra == [], line


def test_the_makefile_lists_every_target() -> None:
    makefile = read(ROOT / "Makefile")
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)) == set(phony[1].split())
