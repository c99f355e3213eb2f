"""The entry point of the command `amux`; answers `--version` without importing a parser."""

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
        from amux.faces.cli.app import run

        return run(words)
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
