"""Claude Code: where sessions are searched for, and how the agent is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claude_transcripts import (
    SESSION,
    Json,
    Transcript,
    read_path,
    sessions_of,
)
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import Adapter, SourceRef
from amux.adapters.claude import ADAPTER, FolderMatch, encode_cwd
from amux.host import Host
from amux.model.problems import Problem


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def test_the_adapter_keeps_the_protocol() -> None:
    assert isinstance(ADAPTER, Adapter)
    assert (ADAPTER.info.name, ADAPTER.info.cli_command) == ("claude", "claude")


def test_the_root_is_below_the_home_directory(tmp_path: Path) -> None:
    assert ADAPTER.roots(Host(tmp_path)) == [tmp_path / ".claude" / "projects"]


def test_the_config_variable_replaces_the_home_and_may_list_several(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    host = Host(tmp_path, env={"CLAUDE_CONFIG_DIR": f"{one}, {two},~/three,{one},"})
    assert ADAPTER.roots(host) == [
        one / "projects",
        two / "projects",
        tmp_path / "three" / "projects",
    ]
    blank = Host(tmp_path, env={"CLAUDE_CONFIG_DIR": "  "})
    assert ADAPTER.roots(blank) == [tmp_path / ".claude" / "projects"]


def lay_out(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def found(root: Path, **options: Any) -> dict[str, SourceRef]:
    sources = list(ADAPTER.discover(root, **options))
    by_name = {source.path.relative_to(root).as_posix(): source for source in sources}
    assert len(by_name) == len(sources)
    return by_name


def test_sources_are_distinguished_by_name_alone(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        f"-x/{SESSION}.jsonl",
        "-x/my-session.jsonl",
        "-x/agent-a1b2c3d.jsonl",
        "-x/sessions-index.json",
        f"-x/{SESSION}/subagents/agent-a9.jsonl",
        f"-x/{SESSION}/subagents/agent-a9.meta.json",
        f"-x/{SESSION}/subagents/workflows/run/agent-b8.jsonl",
        f"-x/{SESSION}/subagents/journal.jsonl",
        f"-x/{SESSION}/resume-head.jsonl",
        f"-x/{SESSION}/custom-title.json",
        "stray.jsonl",
    )
    sources = found(tmp_path)
    assert {name: (s.role, s.session_id, s.parent, s.group) for name, s in sources.items()} == {
        f"-x/{SESSION}.jsonl": ("session", SESSION, None, "-x"),
        "-x/my-session.jsonl": ("session", "my-session", None, "-x"),
        "-x/agent-a1b2c3d.jsonl": ("subagent", "a1b2c3d", None, "-x"),
        f"-x/{SESSION}/subagents/agent-a9.jsonl": ("subagent", "a9", SESSION, "-x"),
        f"-x/{SESSION}/subagents/workflows/run/agent-b8.jsonl": ("subagent", "b8", SESSION, "-x"),
        f"-x/{SESSION}/custom-title.json": ("names", SESSION, None, "-x"),
    }


def test_discovering_opens_no_file(tmp_path: Path) -> None:
    lay_out(tmp_path, f"-x/{SESSION}.jsonl")
    (tmp_path / "-x" / f"{SESSION}.jsonl").chmod(0)
    assert len(found(tmp_path)) == 1


def test_missing_and_foreign_roots_hold_nothing(tmp_path: Path) -> None:
    lay_out(tmp_path, "file")
    assert not found(tmp_path / "missing")
    assert not list(ADAPTER.discover(tmp_path / "file"))
    assert not found(tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    lay_out(outside, "a.jsonl")
    lay_out(root, "-x/b.jsonl")
    (root / "-x" / "linked.jsonl").symlink_to(outside / "a.jsonl")
    (root / "-linked").symlink_to(outside, target_is_directory=True)
    (root / "-x" / "again.jsonl").symlink_to(root / "-x" / "b.jsonl")
    assert set(found(root)) == {"-x/b.jsonl"}


def test_a_directory_instead_of_a_transcript_is_not_a_source(tmp_path: Path) -> None:
    (tmp_path / "-x" / "s.jsonl").mkdir(parents=True)
    assert not found(tmp_path)


def test_a_title_file_is_a_note_for_its_session(tmp_path: Path) -> None:
    lay_out(tmp_path, f"projects/-x/{SESSION}/custom-title.json")
    path = tmp_path / "projects" / "-x" / SESSION / "custom-title.json"
    path.write_text('{"customTitle": "my title"}')
    (read,) = read_path(path)
    assert not read.facts.attributed
    assert [(note.text, note.session_id) for note in read.facts.notes] == [("my title", SESSION)]
    path.write_text("[]")
    source = found(tmp_path / "projects")[f"-x/{SESSION}/custom-title.json"]
    (problem,) = ADAPTER.read(source, want="facts")
    assert isinstance(problem, Problem)
    assert problem.code == "bad-record"


def test_an_unreadable_transcript_is_a_problem(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.read()
    source = SourceRef(agent="claude", path=transcript.path, root=transcript.path.parents[1])
    transcript.path.unlink()
    (read,) = sessions_of(ADAPTER.read(source, want="all"))
    assert [problem.code for problem in read.problems] == ["unreadable"]


def test_a_working_directory_narrows_the_walk_to_its_folder(tmp_path: Path) -> None:
    cwd = "/home/dev/src/my app_v2.0-ünï (日本)"
    lay_out(tmp_path, "-home-dev-src-my-app-v2-0--n------/a.jsonl", "-home-dev-src/b.jsonl")
    assert set(found(tmp_path, cwd=cwd)) == {"-home-dev-src-my-app-v2-0--n------/a.jsonl"}
    assert set(found(tmp_path, cwd="/home/dev/src/")) == {"-home-dev-src/b.jsonl"}


def test_an_emoji_is_found_however_it_was_encoded(tmp_path: Path) -> None:
    lay_out(tmp_path, "-src---x/cli.jsonl", "-src--x/sdk.jsonl", "-src-x/other.jsonl")
    assert set(found(tmp_path, cwd="/src/🚀x")) == {"-src---x/cli.jsonl", "-src--x/sdk.jsonl"}


def test_decomposed_letters_find_the_folder_of_the_composed_ones() -> None:
    assert FolderMatch("/src/u\u0308")(encode_cwd("/src/ü"))


def test_a_long_working_directory_is_found_by_its_prefix(tmp_path: Path) -> None:
    cwd = "/" + "/".join(f"very_long_directory_name_number_{n:02d}" for n in range(8))
    prefix = encode_cwd(cwd)[:200]
    lay_out(tmp_path, f"{prefix}-mr80z1/a.jsonl", f"{prefix[:150]}/b.jsonl")
    assert set(found(tmp_path, cwd=cwd)) == {f"{prefix}-mr80z1/a.jsonl"}


@given(st.text())
def test_a_working_directory_is_encoded_per_utf_16_unit(cwd: str) -> None:
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    plain = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    assert encode_cwd(cwd) == plain


@pytest.mark.parametrize(
    ("action", "options", "argv"),
    [
        ("new", {}, ("claude",)),
        ("new", {"prompt": "hi"}, ("claude", "-p", "hi")),
        ("resume", {"session_id": "s"}, ("claude", "--resume", "s")),
        ("resume", {"session_id": "s", "prompt": "hi"}, ("claude", "-p", "--resume", "s", "hi")),
        ("fork", {"session_id": "s"}, ("claude", "--resume", "s", "--fork-session")),
        (
            "fork",
            {"session_id": "s", "prompt": "hi", "version": "1.0.128"},
            ("claude", "-p", "--resume", "s", "--fork-session", "hi"),
        ),
        ("fork", {"session_id": "s", "version": "1.0.59"}, None),
        ("resume", {}, None),
    ],
)
def test_commands_start_resume_and_fork(
    action: Any, options: Json, argv: tuple[str, ...] | None
) -> None:
    command = ADAPTER.command(action, cwd="/src", **options)
    assert (None if command is None else command.argv) == argv
    assert command is None or command.cwd == "/src"
