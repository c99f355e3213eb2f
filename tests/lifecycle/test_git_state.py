"""The commit and the branch of a directory are those that Git itself names."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from repositories import commit, git, make_repository

from amux.lifecycle.git_state import GitState, git_state


def test_the_state_names_the_commit_and_the_branch(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    assert git_state(tmp_path) == GitState(sha=sha, branch="main")
    assert git_state(str(tmp_path)) == GitState(sha=sha, branch="main")


def test_a_directory_inside_a_repository_belongs_to_it(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert git_state(inner) == GitState(sha=sha, branch="main")


def test_a_branch_name_may_have_slashes(tmp_path: Path) -> None:
    sha = make_repository(tmp_path, branch="feat/refs/heads/x")
    assert git_state(tmp_path) == GitState(sha=sha, branch="feat/refs/heads/x")


def test_only_the_first_line_of_a_reference_counts(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    for name in (".git/HEAD", ".git/refs/heads/main"):
        with (tmp_path / name).open("a") as file:
            file.write("another line\nand one more\n")
    assert git_state(tmp_path) == GitState(sha=sha, branch="main")


def test_a_detached_head_has_no_branch(tmp_path: Path) -> None:
    first = make_repository(tmp_path)
    commit(tmp_path, "second")
    git(tmp_path, "checkout", "--quiet", first)
    assert git_state(tmp_path) == GitState(sha=first, branch=None)


def test_packed_references_are_found(tmp_path: Path) -> None:
    make_repository(tmp_path)
    git(tmp_path, "branch", "other")
    sha = commit(tmp_path, "second")
    git(tmp_path, "pack-refs", "--all")
    assert not (tmp_path / ".git/refs/heads/main").exists()
    assert git_state(tmp_path) == GitState(sha=sha, branch="main")


def test_a_loose_reference_is_newer_than_the_packed_one(tmp_path: Path) -> None:
    make_repository(tmp_path)
    git(tmp_path, "pack-refs", "--all")
    sha = commit(tmp_path, "second")
    assert git_state(tmp_path) == GitState(sha=sha, branch="main")


def test_a_linked_worktree_has_a_head_of_its_own(tmp_path: Path) -> None:
    main = tmp_path / "main"
    first = make_repository(main)
    git(main, "worktree", "add", "--quiet", "-b", "topic", str(tmp_path / "linked"))
    second = commit(tmp_path / "linked", "second")
    assert git_state(tmp_path / "linked") == GitState(sha=second, branch="topic")
    assert git_state(main) == GitState(sha=first, branch="main")
    git(main, "pack-refs", "--all")
    assert git_state(tmp_path / "linked") == GitState(sha=second, branch="topic")


def test_a_new_repository_has_a_branch_and_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=trunk")
    assert git_state(tmp_path) == GitState(sha=None, branch="trunk")


def test_a_symbolic_reference_is_followed(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    git(tmp_path, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/alias\n")
    assert git_state(tmp_path) == GitState(sha=sha, branch="alias")


def test_a_head_outside_of_branches_has_no_branch(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    git(tmp_path, "update-ref", "refs/review/one", sha)
    (tmp_path / ".git/HEAD").write_text("ref: refs/review/one\n")
    assert git_state(tmp_path) == GitState(sha=sha, branch=None)


def test_a_longer_commit_id_is_known(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("0" * 64 + "\n")
    assert git_state(tmp_path) == GitState(sha="0" * 64)


@pytest.mark.parametrize("name", [".git", ".git/HEAD", ".git/refs/heads/main", ".git/packed-refs"])
def test_a_pipe_in_place_of_a_file_keeps_nothing_waiting(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name not in {".git", ".git/HEAD"}:
        (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    os.mkfifo(path)
    found: list[GitState | None] = []
    reader = threading.Thread(target=lambda: found.append(git_state(tmp_path)), daemon=True)
    reader.start()
    reader.join(30)
    unknown = None if name in {".git", ".git/HEAD"} else GitState(branch="main")
    assert found == [unknown]


def test_a_packed_line_of_any_length_is_passed_over(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    git(tmp_path, "pack-refs", "--all")
    packed = tmp_path / ".git" / "packed-refs"
    packed.write_bytes(b"# " + b"x" * 1_000_000 + b"\n" + packed.read_bytes())
    assert git_state(tmp_path) == GitState(sha=sha, branch="main")


def test_a_directory_without_a_repository_has_no_state(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    assert git_state(tmp_path / "missing") is None


def test_a_repository_without_a_head_has_no_state(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert git_state(tmp_path) is None


@pytest.mark.parametrize(
    "head",
    [
        "ref: ../../secret",
        "ref: refs/heads/../../../secret",
        "garbage",
        "",
        "ref: ",
        "0" * 39,
        "0" * 41,
        "refs/heads/main",
    ],
)
def test_a_damaged_head_names_nothing(tmp_path: Path, head: str) -> None:
    make_repository(tmp_path)
    (tmp_path / "secret").write_text("0" * 40)
    (tmp_path / ".git/HEAD").write_text(head)
    assert git_state(tmp_path) == GitState()


def test_references_that_name_each_other_end(tmp_path: Path) -> None:
    make_repository(tmp_path)
    heads = tmp_path / ".git/refs/heads"
    (heads / "a").write_text("ref: refs/heads/b\n")
    (heads / "b").write_text("ref: refs/heads/a\n")
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/a\n")
    assert git_state(tmp_path) == GitState(branch="a")


def test_a_reference_with_garbage_has_no_commit(tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / ".git/refs/heads/main").write_bytes(b"\xff\xfe\n")
    assert git_state(tmp_path) == GitState(branch="main")


def test_packed_lines_of_other_branches_do_not_count(tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / ".git/refs/heads/main").unlink()
    (tmp_path / ".git/packed-refs").write_text(
        f"# pack-refs with: peeled\n{'1' * 40} refs/heads/main2\nzz refs/heads/main\n^{'2' * 40}\n"
    )
    assert git_state(tmp_path) == GitState(branch="main")


def test_a_file_named_git_that_names_no_folder_is_passed_over(tmp_path: Path) -> None:
    sha = make_repository(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".git").write_text("something else\n")
    assert git_state(inner) == GitState(sha=sha, branch="main")
