"""Argument parsers that load the arguments of a command only when the command is typed.

Global options are accepted before and after the command: every parser defines them, but only the
root parser gives them a default, so that a later parser never resets a value that an earlier one
has read. Wrong usage raises `ValidationError` with a suggestion instead of ending the process.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Container, Iterable, Sequence

from amux._version import __version__
from amux.errors import ValidationError
from amux.faces.cli.commands import COMMANDS, GROUPS, OVERVIEW, load_command
from amux.faces.cli.plain_lines import GLOBAL_DEFAULTS

TYPE_CHECKING = False  # `typing` would double the imports of a help text
if TYPE_CHECKING:
    from typing import Any, NoReturn, Protocol

    class Subcommands(Protocol):
        """Accepts the commands of a parser; argparse has no public type for it."""

        def add_parser(self, name: str, *, prog: str, help: str, description: str) -> CommandParser:  # noqa: A002 - named by argparse
            """Add a command."""
            ...


SHELLS = ("bash", "zsh", "fish")

COLOR_WORDS = ("auto", "always", "never")

_VALUE_GLOBALS = frozenset(
    (
        *("-a", "--agent", "-m", "--model", "--home"),
        *("--config-dir", "--project-dir", "--profile", "--color"),
    )
)
_FLAG_GLOBALS = frozenset(("--json", "--demo", "--no-color", "-q", "--quiet", "--debug"))
_OTHER_ANSWERS = frozenset(("-h", "--help", "-V", "--version"))
_EXAMPLES = """\
examples:
  amux                              show an overview of this machine
  amux list claude --since 7d       list the last week of one agent
  amux search "flaky test"          find sessions by their text
  amux show 29c5cee3                print a session
  amux cost --group-by model        show the cost of each model
"""


class CommandParser(argparse.ArgumentParser):
    """A parser that loads its command's module when it is first used.

    `default` is the verb of a group when none is typed. `words` is the name of an argument that
    takes any number of words; it also gets the words after an option, which argparse would refuse.
    With `has_filters` it also gets `-key:value`, which argparse would read as the option `-k`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, add_help=False, formatter_class=_formatter)
        self.module: str | None = None
        self.default: str | None = None
        self.words: str | None = None
        self.has_filters = False
        self.children: dict[str, CommandParser] = {}
        self._is_loaded = False

    def load(self) -> None:
        """Import the command's module and let it add its arguments; later calls do nothing."""
        if self._is_loaded:
            return
        self._is_loaded = True
        if self.module is not None:
            self.set_defaults(module=self.module, parser=self)
            configure, _ = load_command(self.module)
            configure(self)
        positionals = (action for action in self._actions if not action.option_strings)
        self.usage = " ".join([self.prog, "[options]", *map(_usage_of, positionals)])
        add_globals(self)

    def load_all(self) -> None:
        """Load this parser and all parsers below it, for completion scripts and documentation."""
        self.load()
        for child in self.children.values():
            child.load_all()

    def parse_known_args(  # type: ignore[override] # one signature
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Load the command and parse; a group without a verb gets its default verb."""
        self.load()
        given = without_separator(args or ()) if self.children else list(args or ())
        if self.default is not None and _lacks_verb(given):
            given.insert(0, self.default)
        given, filters = _set_apart(given) if self.has_filters else (given, [])
        parsed, extra = super().parse_known_args(given, namespace or argparse.Namespace())
        if self.words is not None:
            words, extra = _free_words(extra)
            getattr(parsed, self.words).extend([*words, *filters])
        return parsed, extra

    def all_actions(self) -> Sequence[argparse.Action]:
        """Return every argument that was added."""
        return tuple(self._actions)

    def error(self, message: str) -> NoReturn:
        """Raise `ValidationError`, where argparse would print a message and exit."""
        _, found, rest = message.partition("invalid choice: '")
        word = rest.partition("'")[0]
        if found:  # argparse itself checks the choice of a command only
            message = f"unknown command `{word}`"
        near = closest(word, self.children) if found else None
        hint = near or f"run `{self.prog} --help` for its usage"
        raise ValidationError(message.removeprefix("argument "), hint=hint)

    def refuse(self, extra: Sequence[str]) -> NoReturn:
        """Raise `ValidationError` for an argument that the command does not accept."""
        word = extra[0]
        kind = "option" if word.startswith("-") else "argument"
        options = [text for action in self._actions for text in action.option_strings]
        near = closest(word.partition("=")[0], options) if kind == "option" else None
        hint = near or f"run `{self.prog} --help` for its usage"
        raise ValidationError(f"unknown {kind} `{word}`", hint=hint)


def parse(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the parsed arguments of a command line, and the words that no argument accepted.

    Building parsers takes most of the time, so only the commands that the line names get one. Help
    texts and usage errors refer to all commands: for these the whole tree is built.
    """
    if not any(map(_may_ask_for_help, words)):
        try:
            parsed, extra = build_parser(frozenset(words)).parse_known_args(words)
        except ValidationError:
            pass
        else:
            if not extra:
                return parsed, extra
    return build_parser().parse_known_args(words)


def _may_ask_for_help(word: str) -> bool:
    """Return whether a word may contain `-h` or `-V`, alone or among short options as in `-qh`."""
    is_bundle = word.startswith("-") and not word.startswith("--") and len(word) > len("-h")
    return is_bundle or word in _OTHER_ANSWERS


def build_parser(named: Container[str] | None = None) -> CommandParser:
    """Build the tree of all commands, or only of those that are among the words in `named`.

    No command module is imported yet.
    """
    root = CommandParser(
        prog="amux",
        description="Every session of every AI coding agent on this machine.",
        epilog=_EXAMPLES,
    )
    groups = {group.word: group for group in GROUPS}
    subcommands: dict[str, Subcommands] = {"": _open_commands(root)}
    for command in COMMANDS:
        first, _, verb = command.words.partition(" ")
        if named is not None and (
            first not in named or (verb and verb not in named and verb != groups[first].default)
        ):
            continue
        if verb and first not in subcommands:
            parser = _add_command(root, subcommands[""], word=first, summary=groups[first].summary)
            parser.default = groups[first].default
            subcommands[first] = _open_commands(parser)
        parent = root.children[first] if verb else root
        siblings = subcommands[first if verb else ""]
        child = _add_command(parent, siblings, word=verb or first, summary=command.summary)
        child.module = command.module
    root.set_defaults(**GLOBAL_DEFAULTS, module=OVERVIEW, parser=root)
    return root


def _open_commands(parser: CommandParser) -> Subcommands:
    return parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=CommandParser)


def _add_command(
    parent: CommandParser, siblings: Subcommands, *, word: str, summary: str
) -> CommandParser:
    sentence = f"{summary[0].upper()}{summary[1:]}."
    child = siblings.add_parser(
        word, prog=f"{parent.prog} {word}", help=summary, description=sentence
    )
    parent.children[word] = child
    return child


def add_globals(parser: CommandParser) -> None:
    """Add the options that every command accepts; only the root parser gives them a default."""
    group = parser.add_argument_group("global options")
    is_root = parser.prog == "amux"

    def add(*names: str, **settings: Any) -> None:
        dest = settings.setdefault("dest", names[-1].removeprefix("--").replace("-", "_"))
        if any(set(names) & set(action.option_strings) for action in parser.all_actions()):
            return  # the command has its own sentence for it
        group.add_argument(
            *names, default=GLOBAL_DEFAULTS[dest] if is_root else argparse.SUPPRESS, **settings
        )

    add("-a", "--agent", metavar="NAME", help="only this agent")
    add("-m", "--model", metavar="NAME", help="only sessions that used this model")
    add("--json", action="store_true", help="print JSON")
    add("--home", metavar="DIR", help="read the sessions of another home directory")
    add("--demo", action="store_true", help="use the built-in sample sessions")
    add("--config-dir", metavar="DIR", help="directory of the settings and the run index")
    add("--project-dir", metavar="DIR", help="directory of the project whose settings apply")
    add("--profile", metavar="NAME", help="profile of the settings to use")
    add(
        "--color",
        **one_of(*COLOR_WORDS),
        help="when to print tables and colour; always: also to a pipe (auto)",
    )
    add(
        "--no-color",
        action="store_const",
        const="never",
        dest="color",
        help="same as --color never",
    )
    add("-q", "--quiet", action="store_true", help="print no notes, warnings or progress")
    add("--debug", action="store_true", help="show tracebacks and every problem")
    if is_root:
        add("--completions", **one_of(*SHELLS), help="print a completion script")
    version = f"amux {__version__}"
    group.add_argument(
        "-V", "--version", action="version", version=version, help="print the version"
    )
    group.add_argument("-h", "--help", action="help", help="print this help")


def one_of(*choices: str) -> dict[str, Any]:
    """Return argparse settings for a choice of words; an error suggests the closest word."""

    def convert(text: str) -> str:
        if text in choices:
            return text
        near = closest(text, choices)
        raise argparse.ArgumentTypeError(
            f"`{text}` is not one of {', '.join(choices)}" + (f"; {near}" if near else "")
        )

    return {"type": convert, "choices": choices, "metavar": "|".join(choices)}


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return "did you mean `x`?" for the most similar known word; None if none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else None


def _usage_of(argument: argparse.Action) -> str:
    name = str(argument.metavar or argument.dest)
    many = {
        argparse.ONE_OR_MORE: "{}...",
        argparse.OPTIONAL: "[{}]",
        argparse.ZERO_OR_MORE: "[{}...]",
        argparse.PARSER: "[{} ...]",
    }
    return many.get(str(argument.nargs), "{}").format(name)


def without_separator(args: Sequence[str]) -> list[str]:
    """Return the words without a `--` before the command, where it only ends the options."""
    words = iter(enumerate(args))
    for at, word in words:
        if word == "--":
            return [*args[:at], *args[at + 1 :]]
        if not word.startswith("-"):
            break
        if word in _VALUE_GLOBALS:
            next(words, None)
    return list(args)


def _lacks_verb(args: Sequence[str]) -> bool:
    """Return whether a group is followed by no verb: by nothing or options only."""
    words = iter(args)
    for word in words:
        if not word.startswith("-"):
            return False
        name, _, value = word.partition("=")
        if name in _OTHER_ANSWERS:
            return False
        if name in _VALUE_GLOBALS and not value:
            next(words, None)
        elif name not in _VALUE_GLOBALS and name not in _FLAG_GLOBALS:
            return True  # an option of the default verb
    return True


def _set_apart(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words without the `-key:value` filters before `--`, and these filters."""
    end = args.index("--") if "--" in args else len(args)
    filters = [word for word in args[:end] if _is_dashed_filter(word)]
    others = [word for word in args[:end] if not _is_dashed_filter(word)]
    return [*others, *args[end:]], filters


def _is_dashed_filter(word: str) -> bool:
    key, colon, _ = word.removeprefix("-").partition(":")
    return word.startswith("-") and bool(colon) and len(key) > 1 and key.isalpha()


def _free_words(extra: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the remaining words into words and unknown options; after `--` all are words."""
    words: list[str] = []
    options: list[str] = []
    rest = iter(extra)
    for word in rest:
        if word == "--":
            words.extend(rest)
        else:
            (options if word.startswith("-") and word != "-" else words).append(word)
    return words, options


def _formatter(prog: str) -> argparse.HelpFormatter:
    # argparse would import shutil for the width, which takes longer than everything else
    try:
        width = os.get_terminal_size().columns
    except (OSError, ValueError, AttributeError):  # not a terminal, or no stdout at all
        width = 100
    return argparse.RawDescriptionHelpFormatter(
        prog, max_help_position=32, width=max(40, min(width, 100) - 2)
    )
