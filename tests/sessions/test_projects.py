"""Working directories are mapped to their repository: by the disk if possible, else by path."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import open_client, write_claude

from amux.model.usage import Tokens
from amux.sessions.cost.projects import Projects


def project_of(cwd: Path | str | None) -> str:
    return Projects().of(cwd if cwd is None else str(cwd))


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    program = shutil.which("git")
    assert program is not None, "these tests need git"
    subprocess.run([program, *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code" / "app"
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


# The disk tells


def test_a_folder_inside_a_repository_counts_for_it(repository: Path) -> None:
    inner = repository / "src" / "deep"
    inner.mkdir(parents=True)
    assert project_of(repository) == project_of(inner) == str(repository)
    assert project_of(f"{repository}/") == str(repository)


def test_a_folder_that_is_gone_counts_for_the_repository_it_was_in(repository: Path) -> None:
    assert project_of(repository / "removed" / "deep") == str(repository)


@pytest.mark.parametrize("place", ["../elsewhere/topic", ".worktrees/topic", "topic"])
def test_a_worktree_counts_for_its_main_repository_wherever_it_is(
    repository: Path, place: str
) -> None:
    git(repository, "worktree", "add", "-q", place)
    inner = (repository / place / "src").resolve()
    inner.mkdir()
    assert project_of(inner.parent) == project_of(inner) == str(repository)


def test_a_git_file_may_contain_a_relative_path(tmp_path: Path, repository: Path) -> None:
    worktree = tmp_path / "topic"
    worktree.mkdir()
    (worktree / ".git").write_text("gitdir: ../code/app/.git/worktrees/topic\n")
    assert project_of(worktree) == str(repository)


@pytest.mark.parametrize(("bare", "project"), [("app.git", "app.git"), (".bare", ".")])
def test_a_worktree_of_a_bare_repository_counts_for_that(
    repository: Path, tmp_path: Path, bare: str, project: str
) -> None:
    home = tmp_path / "bare"
    home.mkdir()
    git(home, "clone", "-q", "--bare", str(repository), bare)
    git(home / bare, "worktree", "add", "-q", "-b", "topic", str(home / "topic"))
    assert project_of(home / "topic") == str(home / project)


def test_a_submodule_is_a_repository_of_its_own(repository: Path) -> None:
    library = repository / "vendor" / "library"
    library.mkdir(parents=True)
    (library / ".git").write_text("gitdir: ../../.git/modules/vendor/library\n")
    assert project_of(library / "src") == str(library)


def test_a_repository_inside_another_is_a_project_of_its_own(repository: Path) -> None:
    inner = repository / "tools" / "inner"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    assert project_of(inner / "x") == str(inner)


# The path alone tells


@pytest.mark.parametrize(
    ("cwd", "project"),
    [
        ("/nowhere/app", "/nowhere/app"),
        ("/nowhere/app/src", "/nowhere/app/src"),
        ("/nowhere/app/", "/nowhere/app"),
        ("/nowhere/app/.worktrees/topic", "/nowhere/app"),
        ("/nowhere/app/.worktrees/topic/src/deep", "/nowhere/app"),
        ("/nowhere/app/.claude/worktrees/topic", "/nowhere/app"),
        ("/nowhere/app/.worktrees/a/.worktrees/b", "/nowhere/app"),
        ("/nowhere/app-worktrees/topic/src", "/nowhere/app"),
        ("/nowhere/app.worktrees/topic", "/nowhere/app"),
        ("/nowhere/app/.worktrees", "/nowhere/app/.worktrees"),
        ("/nowhere/-worktrees/topic", "/nowhere/-worktrees/topic"),
        ("/nowhere/worktrees/topic", "/nowhere/worktrees/topic"),
        ("C:/code/app/.worktrees/topic", "C:/code/app"),
        ("relative/app", "relative/app"),
        ("/", "/"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_folder_that_the_disk_does_not_know_is_folded_by_known_patterns_only(
    cwd: str | None, project: str
) -> None:
    assert project_of(cwd) == project


def test_a_worktree_that_was_removed_counts_for_the_repository_beside_it(
    repository: Path,
) -> None:
    inner = repository / "packages"
    assert project_of(f"{repository}-worktrees/topic") == str(repository)
    assert project_of(f"{inner}-worktrees/topic") == str(repository)


# Hostile


@pytest.mark.parametrize(
    "cwd", ["/a\0b", "/" + "x" * 5000, "//server/share/app", "\\\\server\\share", "/\udc80"]
)
def test_a_hostile_folder_is_a_project_like_any_other(cwd: str) -> None:
    assert project_of(cwd) == cwd


@pytest.mark.parametrize(
    "pointer", [b"", b"gitdir:", b"nonsense", b"\xff\xfe\0", b"gitdir: " + b"../" * 50_000]
)
def test_a_damaged_git_file_marks_a_separate_repository(tmp_path: Path, pointer: bytes) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / ".git").write_bytes(pointer)
    assert project_of(folder) == str(folder)


def test_a_git_entry_that_is_a_pipe_does_not_block(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    os.mkfifo(folder / ".git")
    assert project_of(folder) == str(folder)


def test_the_search_ends_after_a_bounded_number_of_folders() -> None:
    deep = "/nowhere" + "/x" * 2000
    assert project_of(deep) == deep


# In a report


def test_a_report_by_project_sums_all_worktrees(home: Path, repository: Path) -> None:
    (repository / "src").mkdir()
    git(repository, "worktree", "add", "-q", "../topic")
    topic = repository.parent / "topic"
    for number, cwd in enumerate([repository, repository / "src", topic, "/nowhere/other"]):
        write_claude(home, number, cwd=str(cwd), tokens=Tokens(input=10**number))
    total = open_client(home).sessions.total_cost(group_by="project")
    found = {key: one.input_tokens for key, one in (total.breakdowns or {}).items()}
    assert found == {str(repository): 111, "/nowhere/other": 1000}
