"""Work for pools, in a module that spawned workers can import."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path


def process_ids(worker: int, tasks: Iterator[object]) -> Generator[bytes]:
    """The process that did each task."""
    del worker
    for _ in tasks:
        yield os.getpid().to_bytes(4)


def squares(worker: int, tasks: Iterator[int]) -> Generator[bytes]:
    """A large result for each task, and one more at the end of every worker."""
    for task in tasks:
        yield b"%d" % (task * task) + bytes(100_000)
    yield b"end %d" % worker


def dying(folder: str, worker: int, tasks: Iterator[int]) -> Generator[bytes]:
    """The first worker that gets task 3 dies; what a worker has is saved when it has to end."""
    done: list[int] = []
    try:
        for task in tasks:
            if task == 3:
                os._exit(9)
            done.append(task)
            yield b"%d" % task
    finally:
        Path(folder, f"saved-{worker}").write_text(f"{done}", encoding="utf-8")


def in_folder(folder: Path) -> partial[Generator[bytes]]:
    return partial(dying, str(folder))
