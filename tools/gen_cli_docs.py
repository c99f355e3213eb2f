"""Writes docs/reference/cli.md and the text of `amux --help` from the command table and parsers.

With `--check` nothing is written: the exit code says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from amux.faces.cli.commands import COMMANDS, GROUPS
from amux.faces.cli.commands.help import TOPICS, topic_text
from amux.faces.cli.parser import CommandParser, build_parser

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "cli.md"
HELP = ROOT / "src" / "amux" / "faces" / "cli" / "help.txt"
WIDTH = "100"

INTRODUCTION = """\
# The command line

<!-- written by tools/gen_cli_docs.py; change the commands, not this page -->

`amux` without a command shows an overview of this machine. Data is written to stdout; notes,
warnings, errors and progress are written to stderr. A terminal gets tables. A pipe or a file gets
rows that are separated by tabs, without headings, with full ids and with RFC 3339 times in UTC.

`--json` prints bare arrays and objects with the field names of the specification. When a command
fails, `--json` prints `{"ok": false, "error": {"code", "message", "recoverable"}}` instead, and the
exit code is not 0.

A cost is `$1.23` if every call is known, `>= $1.20` if some calls were not recorded, `<= $1.20` if
more was recorded than was billed, `~ $1.20` if both is the case, `?` if nothing is known, and
`no calls` if no model was called. Text from sessions never controls the terminal: control
characters are made visible.
"""


def main() -> int:
    """Write the page, or compare it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="only compare")
    page, text = render(), help_text()
    if not options.parse_args().check:
        PAGE.write_text(page, encoding="utf-8", newline="\n")
        HELP.write_text(text, encoding="utf-8", newline="\n")
        return 0
    if _read(PAGE) == page and _words(_read(HELP)) == _words(text):
        return 0
    print(
        "the pages of the command line are out of date; run tools/gen_cli_docs.py", file=sys.stderr
    )
    return 1


def help_text() -> str:
    """What `amux --help` prints: kept in a file, so that showing it imports no parser."""
    os.environ["COLUMNS"] = WIDTH
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        build_parser().parse_args(["--help"])
    return text.getvalue()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _words(text: str) -> set[str]:
    """Versions of Python lay the same help out differently."""
    return {word.rstrip(",") for word in text.split()}


def render() -> str:
    """The whole page."""
    root = build_parser()
    root.load_all()
    parts = [INTRODUCTION, *_global_options(root)]
    groups = {group.word: group for group in GROUPS}
    for command in COMMANDS:
        first, _, verb = command.words.partition(" ")
        parser = root.children[first].children[verb] if verb else root.children[first]
        parts += _command(parser)
        if verb and groups[first].default == verb:
            parts.append(f"`amux {first}` is short for `amux {first} {verb}`.\n")
    for topic in TOPICS:
        parts.append(f"## amux help {topic}\n\n```text\n{topic_text(topic)}```\n")
    return "\n".join(parts)


def _command(parser: CommandParser) -> Iterator[str]:
    yield f"## {parser.prog}\n"
    yield f"{parser.description}\n"
    yield f"```text\n{parser.usage}\n```\n"
    shared = _global_names()
    own = [each for each in parser.all_actions() if not shared & set(each.option_strings)]
    yield from _table([each for each in own if each.help is not None and each.nargs != "A..."])


def _global_options(root: CommandParser) -> Iterator[str]:
    yield "## Global options\n"
    yield "Global options are accepted before and after the command.\n"
    yield from _table([each for each in root.all_actions() if each.option_strings])


def _global_names() -> set[str]:
    root = build_parser()
    root.load()
    return {name for action in root.all_actions() for name in action.option_strings}


def _table(actions: list[argparse.Action]) -> Iterator[str]:
    if not actions:
        return
    rows = [f"| {_names(action)} | {_escaped(action.help or '')} |" for action in actions]
    yield "\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n"


def _names(action: argparse.Action) -> str:
    metavar = f" {action.metavar}" if action.metavar else ""
    if not action.option_strings:
        return f"`{metavar.strip() or action.dest}`"
    return ", ".join(f"`{_escaped(name + metavar)}`" for name in action.option_strings)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
