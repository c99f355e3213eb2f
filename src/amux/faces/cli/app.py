"""Runs one command line: parse it, load the command's module, report every failure as a message.

Exit codes: 0 for success, 2 for wrong usage, 130 for Ctrl-C, else the code of the error. If the
reading program closes the pipe early, the command ends silently. Tracebacks need `--debug`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from amux.errors import AmbiguousIdError, AmuxError
from amux.faces.cli.commands import load_command
from amux.faces.cli.output import Output
from amux.faces.cli.plain_lines import plain_arguments

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    import argparse

CANDIDATES_SHOWN = 5


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    for name in ("stdout", "stderr"):  # a process may be started without them
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    code = 0
    try:
        code = _attempt(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _discard_stdout()  # flushing at exit could block on a pipe that is no longer read
        raise
    except OSError as error:  # the final flush failed
        return end_unwritten(error, code)
    return code


def _attempt(words: Sequence[str]) -> int:
    try:
        _execute(words)
    except SystemExit as stop:  # argparse has printed a help text or the version
        return int(stop.code or 0)
    except BrokenPipeError:
        raise
    except AmuxError as error:
        return _report(error, words)
    except Exception as error:  # noqa: BLE001 - the outermost handler shows no traceback
        return _report(_unexpected(error), words)
    return 0


def _execute(words: Sequence[str]) -> None:
    args = plain_arguments(words) or _parse(words)
    from amux.faces.cli.context import Context

    output = Output(color=args.color, is_quiet=args.quiet)
    context = Context(args, output)
    try:
        _, run_command = load_command(args.module)
        run_command(context)
        context.start_indexer()
    except KeyboardInterrupt:
        context.note_interrupted()
        raise


def _parse(words: Sequence[str]) -> argparse.Namespace:
    from amux.faces.cli.parser import parse

    args, extra = parse(words)
    if extra:
        args.parser.refuse(extra)
    if args.completions is not None:
        args.module, args.shell = "completion", args.completions
    return args


def _unexpected(error: Exception) -> AmuxError:
    wrapped: AmuxError
    if isinstance(error, OSError) and error.strerror:
        doing = "continue" if error.filename is None else f"use `{error.filename}`"
        wrapped = AmuxError(f"cannot {doing}: {error.strerror}")
    else:
        reason = f": {error}" if str(error) else ""
        wrapped = AmuxError(
            f"unexpected {type(error).__name__}{reason}",
            hint="run it again with `--debug` for a traceback, and please report it",
        )
    wrapped.__cause__ = error
    return wrapped


def _report(error: AmuxError, words: Sequence[str]) -> int:
    options = _options_of(words)
    output = Output(is_quiet="-q" in options or "--quiet" in options)
    if "--debug" in options:
        import traceback

        traceback.print_exception(error)
    if "--json" in options:
        message = str(error).encode("utf-8", "replace").decode()
        details = {"code": str(error.code), "message": message, "recoverable": error.recoverable}
        output.json({"ok": False, "error": details})
    output.error(str(error))
    hint = error.hint
    if hint is None and isinstance(error, AmbiguousIdError):
        hint = _candidates(error)
    if hint is not None:
        output.hint(hint)
    return error.exit_code


def _candidates(error: AmbiguousIdError) -> str:
    shown = ", ".join(f"`{each}`" for each in error.candidates[:CANDIDATES_SHOWN])
    more = len(error.candidates) - CANDIDATES_SHOWN
    return f"matching sessions: {shown}" + (f" and {more} more" if more > 0 else "")


def _options_of(words: Sequence[str]) -> Sequence[str]:
    """Return the words before `--`; after a usage error there are no parsed options to consult."""
    from amux.faces.cli.parser import without_separator

    words = without_separator(words)
    return words[: words.index("--")] if "--" in words else words


def end_unwritten(error: OSError, code: int = 0) -> int:
    """Return the exit code after stdout could not be written; a closed pipe is no error."""
    _discard_stdout()
    if code or isinstance(error, BrokenPipeError):
        return code
    Output().error(f"cannot write the output: {error.strerror}")
    return 1


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the flush at exit cannot fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
