"""Full disks, limits, forbidden directories, killed and concurrent writers lose nothing."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_env

from amux.errors import StoreError
from amux.rollout.line_file import LineFile

NUMBERED = """
import sys
from pathlib import Path
from amux.rollout.line_file import LineFile
file = LineFile(Path(sys.argv[1]), fsync="never")
name, count, size = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    file.append(f"{name} {number} {'x' * size}\\n".encode())
    print(number, flush=True)
"""

LIMITED = """
import resource, sys
from pathlib import Path
from amux.errors import StoreError
from amux.rollout.line_file import LineFile
path, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
file = LineFile(path, fsync=sys.argv[3])
try:
    file.create(b"c" * 39 + b"\\n") if sys.argv[4] == "create" else file.append(b"a" * 39 + b"\\n")
except StoreError as error:
    print(error.message, "|", error.hint)
"""

# Root keeps its identity, but permissions hold for it too.
FORBIDDEN = """
import ctypes, os, sys
from pathlib import Path
if os.geteuid() == 0:
    for power in (1, 2):
        assert ctypes.CDLL(None).prctl(24, power, 0, 0, 0) == 0
if len(sys.argv) < 4:
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], *sys.argv[1:], "again"])
from amux.errors import StoreError
from amux.rollout.line_file import LineFile
file = LineFile(Path(sys.argv[1]))
try:
    file.create(b"x\\n") if sys.argv[2] == "create" else file.append(b"x\\n")
except StoreError as error:
    print(error.message, "|", error.hint)
"""


def run(script: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=child_env(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


class Writer:
    """A process that appends numbered lines and says each number after its line is written."""

    def __init__(self, path: Path, name: str, *, count: int, size: int = 10) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NUMBERED, str(path), name, str(count), str(size)],
            env=child_env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.orders, self.says = self.process.stdin, self.process.stdout

    def begin(self) -> None:
        assert self.says.readline() == "ready\n"
        self.orders.write("\n")
        self.orders.flush()

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> list[int]:
        """The numbers it acknowledged; a last one without its end was cut off by the kill."""
        said = [int(line) for line in self.says.readlines() if line.endswith("\n")]
        self.orders.close()
        self.says.close()
        self.process.wait()
        return said


def numbers_of(path: Path, name: str) -> list[int]:
    words = [line.split() for line in path.read_text().splitlines()]
    return [int(word[1]) for word in words if word[0] == name]


@pytest.mark.parametrize("limit", [41, 55, 79])
@pytest.mark.parametrize("policy", ["never", "always"])
def test_a_batch_that_fits_only_in_part_leaves_nothing(
    limit: int, policy: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"o" * 39 + b"\n")
    said = run(LIMITED, str(path), str(limit), policy, "append")
    assert f"only {limit - 40} of 40 bytes fit" in said
    assert f"`{path}`" in said
    assert "nothing of it was kept" in said
    assert path.read_bytes() == b"o" * 39 + b"\n"


def test_a_batch_of_which_nothing_fits_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"o" * 39 + b"\n")
    said = run(LIMITED, str(path), "40", "never", "append")
    assert os.strerror(errno.EFBIG) in said
    assert path.read_bytes() == b"o" * 39 + b"\n"


def test_a_torn_line_stays_torn_if_sealing_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"o" * 40)
    run(LIMITED, str(path), "60", "never", "append")
    assert path.read_bytes() == b"o" * 40
    LineFile(path).append(b"next\n")
    assert path.read_bytes() == b"o" * 40 + b"\nnext\n"


@pytest.mark.parametrize("limit", ["0", "17"])
def test_a_file_that_cannot_get_its_first_lines_does_not_remain(limit: str, tmp_path: Path) -> None:
    said = run(LIMITED, str(tmp_path / "a.jsonl"), limit, "turn", "create")
    assert "cannot create" in said
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.symlink_to("/dev/full")
    with pytest.raises(StoreError) as caught:
        LineFile(path).append(b"x\n")
    assert caught.value.message == f"cannot append to `{path}` (No space left on device)"
    assert caught.value.hint == (
        "nothing of it was kept; free disk space or raise the limit on file sizes"
    )
    assert caught.value.exit_code == 1


def test_a_read_only_directory_is_an_error_with_a_hint(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    said = run(FORBIDDEN, str(folder / "a.jsonl"), "create")
    assert "Permission denied" in said
    assert "your user needs write permission" in said
    folder.chmod(0o700)
    assert list(folder.iterdir()) == []


def test_a_read_only_file_is_an_error_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x\n")
    path.chmod(0o400)
    assert "Permission denied" in run(FORBIDDEN, str(path), "append")
    assert path.read_bytes() == b"x\n"


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot create"):
        LineFile(tmp_path / "file" / "a.jsonl").create(b"x\n")


def test_lines_of_several_processes_are_never_mixed_or_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    LineFile(path).create(b"first 0 x\n")
    appends_of_processes(path, names="abc", count=200, size=5_000)


@pytest.mark.slow
def test_eight_processes_append_a_thousand_lines_each(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    LineFile(path).create(b"first 0 x\n")
    appends_of_processes(path, names="abcdefgh", count=1_000, size=100)


def appends_of_processes(path: Path, *, names: str, count: int, size: int) -> None:
    writers = [Writer(path, name, count=count, size=size) for name in names]
    for writer in writers:
        writer.begin()
    assert [len(writer.end()) for writer in writers] == [count] * len(names)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + count * len(names)
    assert {line.split()[2] for line in lines[1:]} == {"x" * size}
    for name in names:
        assert numbers_of(path, name) == list(range(count))


def test_a_process_that_forks_shares_its_file_with_its_child(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    script = """
import os, sys
from pathlib import Path
from amux.rollout.line_file import LineFile
file = LineFile(Path(sys.argv[1]), fsync="never")
file.create(b"")
child = os.fork()
name = "parent" if child else "child"
for number in range(300):
    file.append(f"{name} {number}\\n".encode())
if child:
    os.waitpid(child, 0)
"""
    run(script, str(path))
    assert numbers_of(path, "parent") == numbers_of(path, "child") == list(range(300))


def killed_writers(path: Path, rounds: int) -> None:
    chance = random.Random(7)
    LineFile(path).create(b"")
    for number in range(rounds):
        name = f"w{number}"
        writer = Writer(path, name, count=1_000_000, size=chance.choice((10, 300, 70_000)))
        writer.begin()
        for _ in range(chance.randrange(1, 40)):
            writer.says.readline()
        writer.kill()
        writer.end()
        complete = path.read_bytes()
        complete = complete[: complete.rfind(b"\n") + 1]
        written = [
            int(line.split()[1]) for line in complete.decode().splitlines() if line.startswith(name)
        ]
        assert written == list(range(len(written)))
        LineFile(path).append(f"after {name}\n".encode())
        assert path.read_bytes().startswith(complete)
        assert path.read_bytes().endswith(f"\nafter {name}\n".encode())


def test_a_killed_writer_has_lost_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    LineFile(path).create(b"")
    writer = Writer(path, "w", count=1_000_000)
    writer.begin()
    heard = [int(writer.says.readline()) for _ in range(25)]
    writer.kill()
    heard += writer.end()
    assert numbers_of(path, "w")[: len(heard)] == heard == list(range(len(heard)))


def test_after_a_kill_at_any_moment_the_next_line_is_a_fresh_one(tmp_path: Path) -> None:
    killed_writers(tmp_path / "a.jsonl", 5)


@pytest.mark.slow
def test_after_many_kills_every_complete_line_is_still_there(tmp_path: Path) -> None:
    killed_writers(tmp_path / "a.jsonl", 200)


@pytest.mark.parametrize("kept", range(16))
def test_a_line_cut_at_any_byte_costs_only_itself(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = b"first\nsecond\n"
    path.write_bytes(whole + b"a torn line...\n"[:kept])
    LineFile(path).append(b"third\n")
    lines = path.read_bytes().split(b"\n")
    assert lines[:2] == [b"first", b"second"]
    assert lines[-2:] == [b"third", b""]
