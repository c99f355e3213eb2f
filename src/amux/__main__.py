"""The entry point of the command `amux`; answers `--version` and `--help` without a parser."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # what shells report for a program ended by Ctrl-C


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if words in (["--version"], ["-V"]):
            from amux._version import __version__

            sys.stdout.write(f"amux {__version__}\n")
            sys.stdout.flush()
            return 0
        if words in (["--help"], ["-h"]):
            return _show_help()
        from amux.faces.cli.app import run

        code = run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    if argv is None:  # the process ends: looking for cycles would be all that is left to do
        import gc

        gc.freeze()
    return code


def _show_help() -> int:
    """Print the text that tools/gen_cli_docs.py wrote; a reader may close the pipe early."""
    with open(f"{__file__.removesuffix('__main__.py')}faces/cli/help.txt", "rb") as text:  # noqa: PTH123 - pathlib would be most of the start
        try:
            sys.stdout.write(text.read().decode())
            sys.stdout.flush()
        except BrokenPipeError:
            sys.stderr.close()  # nobody is there to be told
    return 0


if __name__ == "__main__":
    sys.exit(main())
