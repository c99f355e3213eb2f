"""Measure a dry run and the cost of a run: `python benchmarks/bench_run.py [runs]`.

A program that prints the events of Claude Code stands in for the agent. The commands take turns, so
that a busy machine slows all of them alike; the fastest run of each counts. The targets: a dry run
takes less than three times the time of an empty Python program, and a run less than 100 ms of
processor time more than the agent alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRY_WISH = 3.0
OVERHEAD_WISH_S = 0.100
EVENTS = 200
SCRIPT = str(Path(sys.executable).with_name("amux"))
AGENT = """#!{python} -S
print({first!r})
for _ in range({events}): print({event!r})
print({last!r})
"""


def write_agent(folder: Path) -> Path:
    usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1000}
    text = [{"type": "text", "text": "word " * 40}]
    event = {"type": "assistant", "message": {"id": "m", "content": text, "usage": usage}}
    program = folder / "claude"
    program.write_text(
        AGENT.format(
            python=sys.executable,
            events=EVENTS,
            first=json.dumps({"type": "system", "subtype": "init", "session_id": "s"}),
            event=json.dumps(event),
            last=json.dumps({"type": "result", "result": "done", "usage": usage}),
        )
    )
    program.chmod(0o755)
    return program


def measured(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """The elapsed and the processor time of a command and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = str(write_agent(folder))
        env = {"HOME": name, "PATH": name, "LANG": "C.UTF-8"}
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "amux run claude hello --dry-run": [SCRIPT, "run", "claude", "hello", "--dry-run"],
            f"the agent alone, {EVENTS} events": [agent],
            "amux run claude hello": [SCRIPT, "run", "claude", "hello"],
        }
        best = dict.fromkeys(commands, (float("inf"), float("inf")))
        for _ in range(rounds):
            for words, command in commands.items():
                elapsed, busy = measured(command, env)
                best[words] = (min(best[words][0], elapsed), min(best[words][1], busy))
    for words, (elapsed, busy) in best.items():
        print(f"{elapsed * 1000:8.1f} ms elapsed {busy * 1000:8.1f} ms busy  {words}")
    (empty, _), (dry, _), (_, alone), (_, ours) = best.values()
    print(f"a dry run takes {dry / empty:.2f} times `python -c pass` (target: {DRY_WISH:g})")
    print(f"a run takes {(ours - alone) * 1000:.0f} ms more than the agent "
          f"(target: {OVERHEAD_WISH_S * 1000:g} ms)")  # fmt: skip
    if dry / empty >= DRY_WISH or ours - alone >= OVERHEAD_WISH_S:
        print("a target was missed")


if __name__ == "__main__":
    main()
