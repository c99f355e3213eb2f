"""`amux completion`, `amux --completions`: print a completion script generated from the parser."""

from __future__ import annotations

import sys

from amux.faces.cli.context import Context
from amux.faces.cli.parser import SHELLS, CommandParser, build_parser, one_of

DIRECTORY_OPTIONS = ("home", "config_dir", "project_dir", "cwd")
FILE_OPTIONS = ("output",)

_INSTALL = """\
to install it:
  bash  amux completion bash > ~/.local/share/bash-completion/completions/amux
  zsh   amux completion zsh > ~/.zfunc/_amux   (with ~/.zfunc in $fpath)
  fish  amux completion fish > ~/.config/fish/completions/amux.fish
"""


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", **one_of(*SHELLS), help="the shell")
    parser.epilog = _INSTALL


def run(context: Context) -> None:
    """Print the script."""
    import shtab

    root = build_parser()
    root.load_all()
    _complete_paths(root)
    sys.stdout.write(shtab.complete(root, context.args.shell))


def _complete_paths(parser: CommandParser) -> None:
    import shtab

    kinds = dict.fromkeys(DIRECTORY_OPTIONS, shtab.DIRECTORY) | dict.fromkeys(
        FILE_OPTIONS, shtab.FILE
    )
    for action in parser.all_actions():
        if action.dest in kinds and action.option_strings:
            action.complete = kinds[action.dest]  # type: ignore[attr-defined] # read by shtab
    for child in parser.children.values():
        _complete_paths(child)
