"""Runs commands in forked processes that need not import amux again, which saves most of the time.

As a program, this module loads all of amux and forks for every order it reads: words, environment,
directory, and files for the output. A fork behaves like a fresh process except for the imports;
`test_cli_start_up.py` and all tests that need pipes or a terminal start fresh processes.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

LONGEST_S = 60
_LEFT_OUT = ("amux.testing", "amux.__main__", "amux.integrations.")
"""No command loads these; integrations need frameworks that are not installed."""
_ALSO = ("rich.console", "rich.table", "rich.text", "genai_prices", "yaml", "zoneinfo")


class CommandServer:
    """The forking process, as a test sees it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._place = TemporaryDirectory(prefix="amux-test-")
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path | None
    ) -> tuple[int, bytes, bytes]:
        """Exit code, stdout and stderr of one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        files = [Path(self._place.name, name) for name in ("out", "err")]
        order = {"words": words, "env": dict(env), "cwd": str(cwd or Path.cwd())}
        order["files"] = [str(file) for file in files]
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, err = (file.read_bytes() for file in files)
        return code, out, err

    def stop(self) -> None:
        """End it; it has nothing to lose."""
        with self._process as process:
            process.kill()
        self._place.cleanup()


def _load_everything() -> None:
    import amux

    for module in pkgutil.walk_packages(amux.__path__, "amux."):
        if not module.name.startswith(_LEFT_OUT):
            import_module(module.name)
    for name in ("amux.__main__", *_ALSO):
        import_module(name)


def _serve(replies: TextIO) -> None:
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            _become(json.loads(line))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), file=replies, flush=True)


def _become(order: dict[str, Any]) -> None:
    """Run the command and end with its code."""
    code = 1
    try:
        signal.alarm(LONGEST_S)
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        os.chdir(order["cwd"])
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
        for number, path in enumerate(order["files"], start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        from amux.__main__ import main

        code = main(order["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - as the interpreter itself would
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        _load_everything()
        gc.freeze()
        _serve(answers)
