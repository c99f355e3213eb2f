"""The entry point of the command `amux`; prints `--version` and `--help` without a parser."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # the exit code that shells report after Ctrl-C


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if words in (["--version"], ["-V"]):
            from amux._version import __version__

            return _print(f"amux {__version__}\n")
        if words in (["--help"], ["-h"]):
            return _print(_help())
        from amux.faces.cli.app import run

        code = run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    if argv is None:  # the process ends: skip the final garbage collection
        import gc

        gc.freeze()
    return code


def _help() -> str:
    """Return the help text that tools/gen_cli_docs.py generated."""
    with open(f"{__file__.removesuffix('__main__.py')}faces/cli/help.txt", "rb") as text:  # noqa: PTH123 - importing pathlib would take most of the start
        return text.read().decode()


def _print(text: str) -> int:
    """Write a text and return the exit code; the pipe may be closed, the disk full."""
    if sys.stdout is None:  # the process has no stdout
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        from amux.faces.cli.app import end_unwritten

        return end_unwritten(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
