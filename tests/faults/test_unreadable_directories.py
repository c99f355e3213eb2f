"""Read-only homes and unreadable directories.

The command runs without the privileges of root, to which permissions do not apply.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from builders import CAPTURES, write_claude
from child_processes import child_env

from amux.testing import fingerprint

BOTH = ("claude-2.1.50", "codex-0.42.0")
RIGHT = "your user needs read permission"

# Root keeps its identity, so that it can read its own interpreter, but permissions hold for it too.
_WITHOUT_POWERS = """
import ctypes, os, sys
DROP_FROM_BOUNDING_SET, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2
if os.geteuid() == 0:
    for power in (DAC_OVERRIDE, DAC_READ_SEARCH):
        if ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, power, 0, 0, 0):
            sys.exit("the tests run as root and cannot give up its powers: run them as a user")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

# Every way to change a file goes through one of these events.
_WATCHED = """
import os, sys
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate",
           "os.chmod", "os.chown", "os.utime", "tempfile.mkdtemp", "tempfile.mkstemp")
def watch(event, arguments):
    changes = event in CHANGES
    if event == "open" and isinstance(arguments[2], int):
        changes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if changes and "/.cache" not in str(arguments[0]):  # the index is ours
        os.write(2, f"CHANGED {event} {arguments}\\n".encode())
sys.addaudithook(watch)
from amux.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run_without_powers(home: Path, *words: str, **env: str) -> Result:
    """Run Python like an ordinary user whose home this is."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_POWERS, "-B", *words],
        env=child_env(**{"HOME": str(home), "TMPDIR": str(home), **env}),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def amux(home: Path, *words: str, **env: str) -> Result:
    return run_without_powers(home, "-c", _WATCHED, *words, **env)


@pytest.fixture
def captured(copy_capture: Callable[[str], Path]) -> Iterator[Path]:
    """A home with two agents; what a test closes is opened again."""
    first, second = (copy_capture(name) for name in BOTH)
    (second / ".codex").rename(first / ".codex")
    yield first
    first.chmod(0o755)
    for folder, folders, _ in os.walk(first):
        for name in folders:
            Path(folder, name).chmod(0o755)


def close_for_writing(home: Path) -> None:
    for folder, _, files in os.walk(home):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            path.chmod(path.stat().st_mode & ~0o222)


COMMANDS = (
    "list --json --all",
    "show claude:0c067a2d --json",
    "search the --json",
    "cost report --group-by model --json",
    "agents --json",
    "--json",
)


def _id_of(session: dict[str, Any]) -> str:
    return str(session["unifiedId"])


def without_scores(result: Result) -> Result:
    """The same but for relevance and the order by it: with an index it is weighed differently."""
    if "relevanceScore" not in result.out:
        return result
    found: list[dict[str, Any]] = json.loads(result.out)
    for each in found:
        del each["relevanceScore"]
    found.sort(key=_id_of)
    return result._replace(out=json.dumps(found))


def test_the_tests_run_without_root_permissions(home: Path) -> None:
    home.chmod(0o555)
    tried = run_without_powers(home, "-c", "open('file', 'w')")
    home.chmod(0o755)
    assert "PermissionError" in tried.err, tried


def test_a_read_only_home_gives_the_same_answers(captured: Path) -> None:
    opened = [amux(captured, *words.split()) for words in COMMANDS]
    close_for_writing(captured)
    before = fingerprint(captured)
    closed = [amux(captured, *words.split()) for words in COMMANDS]
    captured.chmod(0o755)
    assert list(map(without_scores, closed)) == list(map(without_scores, opened))
    assert [result.code for result in closed] == [0] * len(COMMANDS)
    assert not any("CHANGED" in result.err or "warning" in result.err for result in closed)
    assert all(result.out.strip("[]{}\n ") for result in closed)
    assert fingerprint(captured) == before


def test_an_unreadable_folder_is_reported_and_the_others_are_read(captured: Path) -> None:
    projects = captured / ".claude" / "projects"
    whole = amux(captured, "list", "--all")
    (captured / ".codex" / "sessions" / "2026").chmod(0)
    without_codex = amux(captured, "list", "--all")
    assert without_codex.code == 0
    assert without_codex.err.count("Permission denied") == 1
    assert "/.codex/sessions/2026" in without_codex.err
    rows = [row for row in whole.out.splitlines() if row.startswith("claude:")]
    assert without_codex.out.splitlines() == rows
    (folder := next(projects.iterdir())).chmod(0)
    less = amux(captured, "list", "--all")
    assert less.code == 0
    assert less.err.count("Permission denied") == 2
    assert str(folder) in less.err


@pytest.mark.parametrize("place", [".claude", ".claude/projects", ".codex", ".codex/sessions"])
def test_an_unreadable_root_is_reported_and_the_other_agent_is_read(
    captured: Path, place: str
) -> None:
    (captured / place).chmod(0)
    other = "codex" if "claude" in place else "claude"
    for words in ("list", "search the", "agents"):
        result = amux(captured, *words.split())
        assert result.code == 0
        assert other in result.out
        assert words == "agents" or "Permission denied" in result.err


def test_a_folder_whose_files_cannot_be_examined_is_reported_once(captured: Path) -> None:
    folder = next((captured / ".codex" / "sessions").glob("*/*/*"))
    assert len(list(folder.iterdir())) > 1
    folder.chmod(0o644)
    for words in ("list codex", "list codex --debug"):
        listed = amux(captured, *words.split())
        assert listed.code == 0
        assert listed.err.count("Permission denied") == 1
        assert listed.err.rstrip().endswith(str(folder))


@pytest.mark.parametrize("place", [".codex/sessions", ".codex/sessions/2026"])
def test_a_total_over_an_unreadable_folder_is_a_lower_bound(captured: Path, place: str) -> None:
    (captured / place).chmod(0)
    for words in ("cost", "cost --agent codex"):
        summed = amux(captured, *words.split())
        assert summed.code == 0
        assert "Permission denied" in summed.err
        assert "unreadable-source" in summed.err
    assert summed.out.splitlines()[-1].split("\t")[-1] == "?"
    looked = amux(captured)
    assert looked.code == 0
    assert "Permission denied" in looked.err


def test_the_doctor_reports_an_unreadable_folder_as_a_file_status(captured: Path) -> None:
    folder = captured / ".codex" / "sessions" / "2026"
    folder.chmod(0)
    examined = amux(captured, "doctor", "--agent", "codex")
    assert examined.code == 0
    assert "1 problem while reading" in examined.err
    (row,) = [row.split("\t") for row in examined.out.splitlines() if "unread" in row]
    assert row[2:4] == ["sessions/2026", "unread"]
    assert row[-1] == f"cannot be read (Permission denied; {RIGHT})"
    (captured / ".codex").chmod(0)
    examined = amux(captured, "doctor", "--agent", "codex")
    (row,) = [row.split("\t") for row in examined.out.splitlines()]
    assert row[2:4] == [".", "unread"]


def test_an_unreadable_file_affects_no_other_session(captured: Path) -> None:
    whole = amux(captured, "list", "--all").out.splitlines()
    victim = next((captured / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    victim.chmod(0)
    listed = amux(captured, "list", "--all")
    assert listed.code == 0
    assert "Permission denied" in listed.err
    assert victim.name in listed.err
    assert listed.out.splitlines() == [row for row in whole if victim.stem not in row]
    shown = amux(captured, "show", victim.stem)
    assert (shown.code, shown.out) == (1, "")
    assert "Permission denied" in shown.err


# every folder of every agent

_CLOSING_EACH = """
import json, os, sys
from amux import SessionNotFoundError, create_client
from amux.model.options import SessionListOptions

agent, home = sys.argv[1:]
everything = SessionListOptions(limit=None, include_children=True, include_archived=True)

def answers_with(index):
    store = os.path.join(home, ".local/share/amux/store")
    client = create_client(
        env={"HOME": home, "AMUX_INDEX": index, "AMUX_DATA_DIR": "/nowhere", "AMUX_STORE": store}
    )
    report = client.list_report(None, everything)
    client.sessions.search("x")
    client.sessions.total_cost()
    client.agents()
    client.doctor()
    try:
        client.sessions.get(agent, "zzz")
    except SessionNotFoundError as error:
        hint = error.hint
    client.close()
    found = sorted(each.unified_id for each in report.sessions if each.agent == agent)
    others = [each.unified_id for each in report.sessions if each.agent != agent]
    return found, len(others), [each.path for each in report.problems], hint

folders = []
for folder, inner, _ in os.walk(home):
    folders += [os.path.join(folder, name) for name in inner[:3] if name != ".cache"]
    del inner[3:]  # those beside them are alike
answers = {"": answers_with("off")}
for folder in folders:
    os.chmod(folder, 0)
    answers[folder] = answers_with("off")
    if answers_with("on") != answers[folder] or answers_with("on") != answers[folder]:
        sys.exit(f"the index tells something else about {folder}")
    os.chmod(folder, 0o755)
print(json.dumps(answers))
"""
_CAPTURED = {capture.agent: capture.name for capture in CAPTURES}
_AT_ONCE = {"claude", "codex", "gemini", "opencode"}  # of files, days, folders, a database


@pytest.mark.parametrize(
    "agent",
    [pytest.param(each, marks=() if each in _AT_ONCE else pytest.mark.slow) for each in _CAPTURED],
)
def test_any_unreadable_folder_is_named_and_everything_else_is_read(
    agent: str, copy_capture: Callable[[str], Path]
) -> None:
    home = copy_capture(_CAPTURED[agent])
    if agent != "claude":
        write_claude(home, 1)
    done = run_without_powers(home, "-c", _CLOSING_EACH, agent, str(home))
    assert done.code == 0, done.err
    answers: dict[str, tuple[list[str], int, list[str], str]] = json.loads(done.out)
    whole, others, before, _ = answers.pop("")
    for folder, (found, rest, problems, hint) in answers.items():
        is_elsewhere = ".claude" in folder and agent != "claude"
        assert rest == (0 if is_elsewhere else others)
        assert set(found) <= set(whole)
        new = set(problems) - set(before)
        assert new <= {folder}, "only the closed folder is named"
        assert is_elsewhere or found == whole or new == {folder}
        assert is_elsewhere or folder in hint or not new


def test_the_doctor_names_an_unreadable_folder(captured: Path) -> None:
    folder = next((captured / ".claude" / "projects").iterdir())
    folder.chmod(0)
    result = amux(captured, "doctor")
    assert result.code == 0
    assert f"claude: 1 problem while reading: cannot be read (Permission denied; {RIGHT})" in (
        result.err
    )
    assert str(folder) in result.err


def test_a_home_below_an_unreadable_folder_is_an_invalid_argument(captured: Path) -> None:
    (captured / "closed" / "home").mkdir(parents=True)
    (captured / "closed").chmod(0)
    result = amux(captured, "list", "--home", str(captured / "closed" / "home"))
    assert result.code == 2
    assert "is not a directory" in result.err


def test_an_unreadable_home_is_reported_once(captured: Path) -> None:
    captured.chmod(0)
    for words in ("list", "search the", "cost", "agents", "doctor"):
        result = amux(captured, *words.split(), AMUX_DATA_DIR="/nowhere")
        assert result.code == 0, result.err
        if words in ("list", "search the"):
            assert result.err.count("Permission denied") == 1
            assert "1 problem while reading: cannot be read (Permission denied" in result.err
            assert result.err.rstrip().endswith(str(captured))
    shown = amux(captured, "show", "0c067a2d")
    assert shown.code == 8
    assert str(captured) in shown.err


@pytest.mark.parametrize("has_index", [False, True])
def test_an_unreadable_cache_directory_changes_no_answer(captured: Path, has_index: bool) -> None:
    cache = captured / ".cache" / "kept"
    cache.mkdir(parents=True)
    words = [each.split() for each in COMMANDS]
    opened = [amux(captured, *each, AMUX_INDEX="off") for each in words]
    if has_index:
        amux(captured, "list", AMUX_CACHE_DIR=str(cache))
    cache.chmod(0)
    closed = [amux(captured, *each, AMUX_CACHE_DIR=str(cache)) for each in words]
    assert list(map(without_scores, closed)) == list(map(without_scores, opened))
    assert [result.code for result in closed] == [0] * len(COMMANDS)


@pytest.mark.parametrize("words", ["list", "list --json", "search the", "cost", "agents", ""])
def test_unreadable_annotations_hide_no_session(captured: Path, words: str) -> None:
    data = captured / "data"
    data.mkdir()
    env = {"AMUX_DATA_DIR": str(data), "AMUX_STORE": str(captured / "store")}
    opened = amux(captured, *words.split(), **env)
    data.chmod(0)
    closed = amux(captured, *words.split(), **env)
    assert (closed.code, closed.out) == (0, opened.out)
    if words.startswith(("list", "search")):
        assert "annotations cannot be read (Permission denied)" in closed.err


def test_the_library_logs_one_warning_that_names_the_unreadable_root(captured: Path) -> None:
    store = captured / ".codex"
    store.chmod(0)
    ask = "import amux; print(amux.create_client().sessions.list('codex'))"
    result = run_without_powers(captured, "-c", ask)
    assert (result.code, result.out) == (0, "[]\n")
    (line,) = result.err.splitlines()
    assert line.endswith(f"cannot be read (Permission denied; {RIGHT}) in {store}")


@pytest.mark.parametrize("place", [".agent-mux", "project/.agent-mux"])
@pytest.mark.parametrize("mode", [0, 0o600])
def test_an_unreadable_folder_of_settings_is_an_error(
    captured: Path, place: str, mode: int
) -> None:
    folder = captured / place
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("timezone: Asia/Tokyo\n", encoding="utf-8")
    assert amux(captured, "list", "--project-dir", "project").code == 0  # quick from now on
    folder.chmod(mode)
    for words in ("list", "cost", "config show"):
        closed = amux(captured, *words.split(), "--project-dir", "project")
        assert (closed.code, closed.out) == (7, ""), words
        assert f"error: `{folder}` cannot be read (Permission denied)" in closed.err


def test_settings_of_an_unreadable_home_can_be_shown(captured: Path) -> None:
    captured.chmod(0)
    shown = run_without_powers(Path("/"), "-m", "amux", "config", "show", "--home", str(captured))
    captured.chmod(0o755)
    assert shown.code == 0, shown.err


def test_a_file_without_read_permission_is_not_reported_as_damaged(captured: Path) -> None:
    victim = next((captured / ".claude" / "projects").rglob("0c067a2d*.jsonl"))
    victim.chmod(0)
    result = amux(captured, "show", "claude:0c067a2d")
    victim.chmod(0o644)
    assert result.code != 0
    assert "Permission denied" in result.err
    assert "damaged" not in result.err


@pytest.mark.parametrize("words", ["append {} hello", "new", "archive {}", "title {} x"])
def test_a_store_that_may_not_be_written_to_is_read_and_says_so(
    copy_capture: Callable[[str], Path], words: str
) -> None:
    home = copy_capture("amux-0.2")
    store = home / ".local" / "share" / "amux" / "store"
    thread = "00000001-a11c-4e5e-9000-000000000001"
    close_for_writing(store)
    before = fingerprint(store)
    listed = run_without_powers(home, "-m", "amux", "store", "list")
    assert (listed.code, len(listed.out.splitlines())) == (0, 6), listed.err
    assert run_without_powers(home, "-m", "amux", "store", "show", thread).code == 0
    failed = run_without_powers(home, "-m", "amux", "store", *words.format(thread).split())
    assert failed.code == 1, failed.err
    assert failed.err.startswith("error: cannot "), failed.err
    assert "Permission denied\nhint: " in failed.err
    assert fingerprint(store) == before
    for folder, folders, _ in os.walk(store):
        for name in folders:
            Path(folder, name).chmod(0o755)
    store.chmod(0o755)
