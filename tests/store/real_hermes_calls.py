"""Runs in the environment of the real package: applies calls to a database, prints the answers.

It reads `{"path": ..., "calls": [[name, args, kwargs], ...]}` and prints `[["ok", answer], ...]` or
`["error", text]`. With `ticks`, the clock is one second later at every look.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

seconds = 1_750_000_000.0


def tick() -> float:
    global seconds  # noqa: PLW0603 - the clock of this process
    seconds += 1.0
    return seconds


def main() -> None:
    request = json.load(sys.stdin)
    if request["ticks"]:
        time.time = tick
    module: Any = importlib.import_module("hermes_state")
    db = module.SessionDB(db_path=Path(request["path"]))
    answers: list[tuple[str, Any]] = []
    for name, args, kwargs in request["calls"]:
        try:
            answers.append(("ok", getattr(db, name)(*args, **kwargs)))
        except Exception as error:  # noqa: BLE001 - an answer like any other
            answers.append(("error", f"{type(error).__name__}: {error}"))
    db.close()
    json.dump(answers, sys.stdout)


main()
