"""Synthetic homes of heavy users: `python benchmarks/corpus.py XS|S|M DIRECTORY`.

Equal sizes give equal bytes, whatever the number of processes. The expected totals are written
next to the home: sessions, calls and tokens of every agent, and the words that can be searched for.
The writers record them while they write; no code of amux is involved.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any, Final, NamedTuple

from corpus_claude import write_claude
from corpus_codex import write_codex
from corpus_session import Bill, Job, line, moment, uuid4, uuid7, write_files
from corpus_texts import texts

Truth = dict[str, Any]

FORMAT: Final = 1
"""Increased with every change of the bytes: a corpus of another format is written again."""

PHRASE: Final = "quixotic marmalade bulkhead"
IDEOGRAPHS: Final = "検索索引構築"
_SEED: Final = "amux-bench"
_BEGIN: Final = 1_767_312_000_000  # 2026-01-02
_SPAN: Final = 27_388_000_000  # to 2026-11-14
_NEEDLES: Final = 18


class Size(NamedTuple):
    """The approximate size of a corpus."""

    sessions: int
    megabytes: int
    largest: int  # megabytes
    forked: float = 0.06  # part of the sessions


SIZES: Final = {
    "XS": Size(60, 6, 1, forked=0.4),
    "S": Size(1000, 200, 14),
    "M": Size(6000, 2000, 50),
}


class _Part(NamedTuple):
    """The expected totals of one job."""

    agent: str
    bill: Bill
    sessions: int
    files: int
    bytes: int
    needle: str | None


def make_corpus(place: Path, size: str, *, workers: int = 1) -> Truth:
    """Write the corpus of a size below `place` unless it exists; return its expected totals."""
    kept = place / "truth.json"
    if kept.is_file():
        truth: Truth = json.loads(kept.read_text(encoding="utf-8"))
        if truth["format"] == FORMAT:
            return truth
    shutil.rmtree(place, ignore_errors=True)
    truth = _write(place / "home", size, workers)
    kept.write_text(json.dumps(truth, ensure_ascii=False, indent=1), encoding="utf-8")
    return truth


def make_small_sessions(home: Path, count: int) -> None:
    """Write a home with very many sessions of a single exchange each, for lists."""
    if (home / "complete").is_file():
        return
    chance = random.Random(f"{_SEED}/small")
    for number in range(count):
        session_id, at = uuid4(chance), _BEGIN + number * 2_000_000
        folder = f"/home/dev/src/project-{number % 40}"
        shared = {"cwd": folder, "sessionId": session_id, "version": "2.1.325"}
        usage = {"input_tokens": 4, "output_tokens": chance.randint(20, 900)}
        said = [{"type": "text", "text": "Done: it works now."}]
        answer = {"model": "claude-haiku-4-5-20251001", "id": f"msg_{number}", "role": "assistant"}
        prompt = {"role": "user", "content": f"Please look at case {number}"}
        records = (
            {"type": "user", "message": prompt, "uuid": uuid4(chance), "timestamp": moment(at)},
            {
                "type": "assistant",
                "message": {**answer, "content": said, "usage": usage, "stop_reason": "end_turn"},
                "uuid": uuid4(chance),
                "timestamp": moment(at + 4000),
            },
        )
        path = f".claude/projects/{folder.replace('/', '-')}/{session_id}.jsonl"
        write_files(home, {path: [line({**shared, **record}) for record in records]})
    (home / "complete").touch()


def _hidden() -> dict[str, int]:
    """Return the words that can be searched for, and the number of sessions that contain each."""
    single = {f"zqneedle{number:03d}x": 1 for number in range(_NEEDLES)}
    return {**single, PHRASE: _NEEDLES, IDEOGRAPHS: 4}


def _write(home: Path, size: str, workers: int) -> Truth:
    work = partial(_write_one, home, size)
    jobs = sorted(_jobs(size), key=lambda job: -job[1])  # long ones first: no core waits at the end
    if workers > 1:
        with Pool(workers) as pool:
            parts = pool.map(work, jobs, chunksize=4)
    else:
        parts = list(map(work, jobs))
    return {"format": FORMAT, "size": size, "agents": _sums(parts), "needles": _needles(parts)}


def _needles(parts: list[_Part]) -> dict[str, int]:
    """Return the number of sessions that contain a needle, including forks."""
    said = dict.fromkeys(_hidden(), 0)
    for part in parts:
        if part.needle is not None:
            said[part.needle] += part.sessions
    return said


def _sums(parts: list[_Part]) -> dict[str, Truth]:
    agents: dict[str, Truth] = {}
    for name in sorted({part.agent for part in parts}):
        own, bill = [part for part in parts if part.agent == name], Bill()
        for part in own:
            bill.include(part.bill)
        agents[name] = {
            "sessions": sum(part.sessions for part in own),
            "files": sum(part.files for part in own),
            "bytes": sum(part.bytes for part in own),
            "calls": bill.calls,
            "tokens": bill.tokens,
        }
    return agents


def _jobs(size: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield the numbers, sizes and needles of all sessions."""
    chance = random.Random(f"{_SEED}/{size}/jobs")
    needles = [needle for needle, count in _hidden().items() for _ in range(count)]
    places = chance.sample(range(SIZES[size].sessions), len(needles))
    by_place = dict(zip(places, needles, strict=True))
    for number, length in enumerate(_lengths(chance, SIZES[size])):
        yield number, length, by_place.get(number)


def _lengths(chance: random.Random, size: Size) -> list[int]:
    """Return a random size: log-normal with a Pareto tail, so a few sessions are very large."""
    largest, total = size.largest * 1e6, size.megabytes * 1e6
    tail = [min(largest, 1e6 * chance.paretovariate(0.9)) for _ in range(size.sessions // 120)]
    tail = [largest, *tail]
    while sum(tail) > total / 4:
        tail[1:] = [length * 0.9 for length in tail[1:]]
    body = [chance.lognormvariate(0, 0.85) for _ in range(size.sessions - len(tail))]
    scale = (total - sum(tail)) / sum(body)
    lengths = [int(max(3000, length * scale)) for length in body] + [int(n) for n in tail]
    chance.shuffle(lengths)
    return lengths


def _write_one(home: Path, size: str, job: tuple[int, int, str | None]) -> _Part:
    number, length, needle = job
    seed = f"{_SEED}/{size}"
    stock, chance = texts(seed), random.Random(f"{seed}/{number}")
    begun = _BEGIN + int(_SPAN * chance.random())
    folder = stock.folders[min(len(stock.folders) - 1, int(chance.expovariate(1 / 9)))]
    is_forked = chance.random() < SIZES[size].forked
    if chance.random() < 0.72:
        era = chance.choices(("old", "mid", "new"), (2, 5, 3))[0]
        agent, write = "claude", write_claude
        planned = Job(uuid4(chance), begun, folder, era, length, needle, is_forked)
    else:
        era = chance.choices(("old", "new"), (4, 6))[0]
        agent, write = "codex", write_codex
        planned = Job(uuid7(chance, begun), begun, folder, era, length, needle, is_forked)
    done = write(chance, stock, planned)
    written = write_files(home, done.files)
    return _Part(agent, done.bill, done.sessions, len(done.files), written, needle)


def main() -> None:
    size, place = sys.argv[1:3]
    truth = make_corpus(Path(place), size, workers=os.cpu_count() or 1)
    print(json.dumps(truth["agents"], indent=1))


if __name__ == "__main__":
    main()
