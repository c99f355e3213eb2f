"""The command lines of an agent, as a table instead of a method."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from amux.adapters._base import Command

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})")


def since(major: int, minor: int) -> Callable[[str | None], bool]:
    """Return a check that a version is not older than this one; an unknown one counts as new."""

    def is_at_least(version: str | None) -> bool:
        found = _VERSION.search(version or "")
        return found is None or (int(found[1]), int(found[2])) >= (major, minor)

    return is_at_least


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """The command lines that start an agent; implements `Adapter.command`.

    Each action has two forms: one without a prompt, which is interactive, and one with a prompt. A
    form is a text of words that contain `{id}` and `{prompt}`. The words after `--` are operands;
    `--` is omitted unless an operand begins with `-`.
    """

    new: tuple[str, str]
    resume: tuple[str, str]
    fork: tuple[str, str] | None = None  # None: the agent cannot fork from the command line
    can_resume: Callable[[str | None], bool] = since(0, 0)
    can_fork: Callable[[str | None], bool] = since(0, 0)
    can_fork_with_prompt: Callable[[str | None], bool] = since(0, 0)  # in addition to `can_fork`

    def __call__(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Return the command line of an action; None if the agent (of that version) has none."""
        forms: tuple[str, str] | None = self.new
        if action == "resume":
            forms = self.resume if self.can_resume(version) else None
        elif action == "fork":
            is_able = prompt is None or self.can_fork_with_prompt(version)
            forms = self.fork if is_able and self.can_fork(version) else None
        if forms is None or (session_id is None and action != "new"):
            return None
        form = forms[prompt is not None].split()
        argv = [word.format(id=session_id, prompt=prompt) for word in form]
        if "--" in form:
            operands = form.index("--") + 1
            if not any(word.startswith("-") for word in argv[operands:]):
                del argv[operands - 1]
        return Command(argv=tuple(argv), cwd=cwd)
