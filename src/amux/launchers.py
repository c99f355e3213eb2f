"""The command lines of the agents: one launcher per agent, a table of flags by version.

A launcher knows how to begin, resume and fork a session, with a terminal or without one, with which
flags the agent prints its events as JSON, and how it gets a prompt that its own parser would
misread. Nothing here starts a program or looks at the disk, and nothing heavy is imported: a dry
run needs this table and little else.

The flags are those that docs/agents and the agents' own help describe. An unknown version counts as
the newest one.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # importing `typing` would double the time of a dry run
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

    Action = Literal["new", "resume", "fork"]
    Version = tuple[int, ...]
    Forms = tuple[str | None, str | None]

LONGEST_ARGUMENT = 128 * 1024 - 1
"""The number of bytes that Linux accepts in one argument of a program, without the final NUL."""

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")


def parse_version(text: str | None) -> Version | None:
    """Return the first two or three numbers of a version; None if there are none."""
    found = _VERSION.search(text or "")
    return None if found is None else tuple(int(part) for part in found.groups("0"))


def is_since(text: str | None, first: Version) -> bool:
    """Return whether a version is not older than `first`; an unknown one counts as new."""
    version = parse_version(text)
    return version is None or version[: len(first)] >= first


class Flags:
    """Words that the agent accepts since a version.

    `format` is the format of the output that they select, see `runs.readers`.
    """

    __slots__ = ("first", "format", "words")

    def __init__(self, words: str, *, first: Version = (0,), format: str | None = None) -> None:
        self.words = words
        self.first = first
        self.format = format


class CommandPlan:
    """One command line: the arguments, the text for its standard input, and its output format.

    `stdin` is None if the prompt is an argument, or if there is none. `format` is None for an
    interactive command, and "text" if the agent prints no events.
    """

    __slots__ = ("argv", "format", "stdin")

    def __init__(self, argv: tuple[str, ...], stdin: str | None, format: str | None) -> None:
        self.argv = argv
        self.stdin = stdin
        self.format = format

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommandPlan):
            return NotImplemented
        return (self.argv, self.stdin, self.format) == (other.argv, other.stdin, other.format)

    __hash__ = None  # type: ignore[assignment] # a plan is compared, never a key


class LaunchRequest:
    """The wishes of a caller for one command line.

    A command with a prompt runs without a terminal, unless it `is_interactive`. `is_structured`
    asks for events instead of the text of the answer. `assigned_id` is an id for the new session.
    With `is_argument` the prompt is an argument, even if the agent misreads it there.
    """

    __slots__ = (
        "action", "args", "assigned_id", "is_argument", "is_interactive", "is_structured", "model",
        "no_session", "prompt", "session_id", "skips_approval",
    )  # fmt: skip

    def __init__(
        self,
        action: Action = "new",
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        model: str | None = None,
        no_session: bool = False,
        skips_approval: bool = False,
        is_interactive: bool = False,
        is_structured: bool = False,
        is_argument: bool = False,
        assigned_id: str | None = None,
        args: Sequence[str] = (),
    ) -> None:
        self.action: Action = action
        self.session_id = session_id
        self.prompt = prompt
        self.model = model
        self.no_session = no_session
        self.skips_approval = skips_approval
        self.is_interactive = is_interactive or prompt is None
        self.is_structured = is_structured
        self.is_argument = is_argument
        self.assigned_id = assigned_id
        self.args = tuple(args)


class UnsupportedError(Exception):
    """The agent, in this version, has no command line for a request; `what` it cannot do."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Launcher:
    """The command lines of one agent.

    An action has two forms: one for a terminal and one with a prompt; None means that the agent has
    none. A form is a text of words with `{id}`, `{prompt}` and `{options}`. The words after `--`
    are operands; `--` is omitted unless an operand begins with `-` or the caller adds arguments.
    `opening` are the words that add a first prompt to the form for a terminal.

    `stdin` are the words in place of the prompt if the agent reads it from standard input; None if
    it does not. The agent's parser misreads a prompt that begins with one of `misread`: such a
    prompt, and one that is too long for an argument, goes to standard input.
    """

    __slots__ = (
        "_approval", "_assigned", "_ephemeral", "_first_fork", "_first_prompt_fork",
        "_first_resume", "_fork", "_misread", "_model", "_new", "_opening", "_outputs", "_resume",
        "_stdin",
    )  # fmt: skip

    def __init__(
        self,
        *,
        new: Forms,
        resume: Forms | None = None,
        fork: Forms | None = None,
        outputs: Iterable[Flags] = (),
        model: str | None = "--model {model}",
        ephemeral: Flags | None = None,
        approval: Flags | None = None,
        assigned: Flags | None = None,
        opening: str | None = None,
        stdin: str | None = None,
        misread: tuple[str, ...] = (),
        first_resume: Version = (0,),
        first_fork: Version = (0,),
        first_prompt_fork: Version = (0,),
    ) -> None:
        self._new, self._resume, self._fork = new, resume, fork
        self._outputs = tuple(outputs)
        self._model, self._ephemeral, self._approval = model, ephemeral, approval
        self._assigned, self._opening = assigned, opening
        self._stdin, self._misread = stdin, misread
        self._first_resume, self._first_fork = first_resume, first_fork
        self._first_prompt_fork = first_prompt_fork

    def plan(self, request: LaunchRequest, version: str | None = None) -> CommandPlan:
        """Return the command line for a request.

        Raises:
            UnsupportedError: The agent, or its version, cannot do that.
        """
        form = self._form(request, version)
        reads_stdin = self._needs_stdin(request, form)
        output = self._output(request, version)
        options = [*self._options(request, version), *(output.words.split() if output else ())]
        argv: list[str] = []
        operands: int | None = None
        for word in form.split():
            if word == "{options}":
                argv += [*options, *request.args]
            elif word == "--":
                operands = len(argv)
                argv.append(word)
            elif "{prompt}" in word and reads_stdin:
                argv += (self._stdin or "").split()
            else:
                argv.append(word.format(id=request.session_id, prompt=request.prompt))
        is_plain = not request.args  # a further option may take any number of words
        if is_plain and operands is not None and not any(map(_is_option, argv[operands + 1 :])):
            del argv[operands]
        format = None if request.is_interactive else "text"
        if output is not None and output.format is not None:
            format = output.format
        return CommandPlan(tuple(argv), request.prompt if reads_stdin else None, format)

    def depends_on_version(self, request: LaunchRequest) -> bool:
        """Return whether the first and the newest version need different command lines."""
        try:
            return self.plan(request, "0.0.0") != self.plan(request)
        except UnsupportedError:
            return True

    @property
    def formats(self) -> tuple[str | None, ...]:
        """The output formats that the agent can be asked for."""
        return tuple(flags.format for flags in self._outputs)

    def assigns_ids(self, version: str | None = None) -> bool:
        """Return whether a new session can be given an id."""
        return self._assigned is not None and is_since(version, self._assigned.first)

    def _form(self, request: LaunchRequest, version: str | None) -> str:
        """Return the words of the action."""
        forms: Forms | None = self._new
        if request.action == "resume":
            forms = self._resume if is_since(version, self._first_resume) else None
        elif request.action == "fork":
            first = self._first_fork if request.is_interactive else self._first_prompt_fork
            can_fork = is_since(version, self._first_fork) and is_since(version, first)
            forms = self._fork if can_fork else None
        form = None if forms is None else forms[not request.is_interactive]
        if form is None or (request.session_id is None and request.action != "new"):
            raise UnsupportedError(request.action)
        if request.is_interactive and request.prompt is not None:
            if self._opening is None:
                raise UnsupportedError("opening")
            form = f"{form} {self._opening}"
        return form

    def _options(self, request: LaunchRequest, version: str | None) -> list[str]:
        """Return the words for everything but the action, the prompt and the output."""
        words: list[str] = []
        if request.model is not None:
            if self._model is None:
                raise UnsupportedError("model")
            words += [each.format(model=request.model) for each in self._model.split()]
        if request.assigned_id is not None:
            words += _accepted(self._assigned, "assigned_id", version)
            words = [each.format(id=request.assigned_id) for each in words]
        if request.no_session:
            words += _accepted(self._ephemeral, "no_session", version)
        if request.skips_approval:
            words += _accepted(self._approval, "approval_mode", version)
        return words

    def _output(self, request: LaunchRequest, version: str | None) -> Flags | None:
        """Return the flags for events, the best that the version has; None without any."""
        if request.is_interactive or not request.is_structured:
            return None
        return next((each for each in self._outputs if is_since(version, each.first)), None)

    def _needs_stdin(self, request: LaunchRequest, form: str) -> bool:
        """Return whether the prompt must go to standard input."""
        prompt = request.prompt
        if prompt is None or request.is_interactive or request.is_argument:
            return False
        around = max(len(word) - len("{prompt}") for word in form.split() if "{prompt}" in word)
        is_long = len(prompt) * 4 + around > LONGEST_ARGUMENT and (
            len(prompt.encode("utf-8", "surrogateescape")) + around > LONGEST_ARGUMENT
        )
        is_misread = prompt.startswith(self._misread) if self._misread else False
        if (is_long or is_misread) and self._stdin is None:
            raise UnsupportedError("long_prompt" if is_long else "misread_prompt")
        return is_long or is_misread


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _accepted(flags: Flags | None, what: str, version: str | None) -> list[str]:
    if flags is None or not is_since(version, flags.first):
        raise UnsupportedError(what)
    return flags.words.split()


_CLAUDE = Launcher(
    new=("claude {options}", "claude -p {options} -- {prompt}"),
    resume=("claude {options} --resume {id}", "claude -p {options} --resume {id} -- {prompt}"),
    fork=(
        "claude {options} --resume {id} --fork-session",
        "claude -p {options} --resume {id} --fork-session -- {prompt}",
    ),
    outputs=(Flags("--output-format stream-json --verbose", format="claude"),),
    ephemeral=Flags("--no-session-persistence", first=(2, 1)),
    approval=Flags("--dangerously-skip-permissions"),
    assigned=Flags("--session-id {id}", first=(1, 0, 120)),
    opening="-- {prompt}",
    stdin="",
    first_fork=(1, 0, 120),
)

_CODEX = Launcher(
    new=("codex {options}", "codex exec {options} -- {prompt}"),
    resume=("codex resume {options} -- {id}", "codex exec {options} resume -- {id} {prompt}"),
    fork=("codex fork {options} -- {id}", "codex exec {options} fork -- {id} {prompt}"),
    outputs=(Flags("--json", format="codex"),),
    model="-m {model}",
    ephemeral=Flags("--ephemeral", first=(0, 120)),
    approval=Flags("--dangerously-bypass-approvals-and-sandbox"),
    opening="-- {prompt}",
    stdin="-",
    first_resume=(0, 39),
    first_fork=(0, 120),
    first_prompt_fork=(0, 166),
)

_GEMINI = Launcher(
    new=("gemini {options}", "gemini {options} --prompt={prompt}"),
    resume=("gemini {options} --resume {id}", "gemini {options} --resume {id} --prompt={prompt}"),
    outputs=(
        Flags("-o stream-json", first=(0, 11), format="gemini"),
        Flags("-o json", first=(0, 6), format="gemini-document"),
    ),
    model="-m {model}",
    approval=Flags("--yolo"),
    opening="--prompt-interactive={prompt}",
    stdin="",
    first_resume=(0, 16),
)

_QWEN = Launcher(
    new=("qwen {options}", "qwen {options} --prompt={prompt}"),
    resume=("qwen {options} --resume {id}", "qwen {options} --resume {id} --prompt={prompt}"),
    fork=(
        "qwen {options} --resume {id} --fork-session",
        "qwen {options} --resume {id} --fork-session --prompt={prompt}",
    ),
    outputs=(Flags("-o stream-json", first=(0, 4), format="qwen"),),
    model="-m {model}",
    approval=Flags("--yolo"),
    opening="--prompt-interactive={prompt}",
    stdin="",
    first_resume=(0, 4),
    first_fork=(0, 16),
)

_COPILOT = Launcher(
    new=("copilot {options}", "copilot {options} --prompt={prompt}"),
    resume=("copilot {options} --resume={id}", "copilot {options} --resume={id} --prompt={prompt}"),
    outputs=(Flags("--output-format json", first=(0, 0, 420), format="copilot"),),
    approval=Flags("--allow-all-tools"),
    assigned=Flags("--session-id={id}", first=(1, 0)),
    opening="--interactive={prompt}",
    stdin="",
)

_CURSOR = Launcher(
    new=("cursor-agent {options}", "cursor-agent {options} -p -- {prompt}"),
    resume=(
        "cursor-agent {options} --resume {id}",
        "cursor-agent {options} --resume {id} -p -- {prompt}",
    ),
    outputs=(Flags("--output-format stream-json", format="cursor"),),
    approval=Flags("--force"),
    opening="-- {prompt}",
)

_OPENCODE = Launcher(
    new=("opencode {options}", "opencode run {options} -- {prompt}"),
    resume=(
        "opencode {options} --session {id}",
        "opencode run {options} --session {id} -- {prompt}",
    ),
    fork=(
        "opencode {options} --session {id} --fork",
        "opencode run {options} --session {id} --fork -- {prompt}",
    ),
    outputs=(Flags("--format json", first=(1, 0), format="opencode"),),
    opening="--prompt={prompt}",
    stdin="",
    misread=("",),  # it puts quotes around an argument with a space
    first_fork=(1, 2),
)

_PI = Launcher(
    new=("pi {options}", "pi {options} -p {prompt}"),
    resume=("pi {options} --session {id}", "pi {options} --session {id} -p {prompt}"),
    fork=("pi {options} --fork {id}", "pi {options} --fork {id} -p {prompt}"),
    outputs=(Flags("--mode json", format="pi"),),
    ephemeral=Flags("--no-session"),
    assigned=Flags("--session-id {id}", first=(1, 0)),
    opening="{prompt}",
    stdin="",
    misread=("-", "@"),  # it has no `--`, and `@` includes a file
)

_OMP = Launcher(
    new=("omp {options}", "omp {options} -p {prompt}"),
    resume=("omp {options} --resume {id}", "omp {options} --resume {id} -p {prompt}"),
    fork=("omp {options} --fork {id}", "omp {options} --fork {id} -p {prompt}"),
    outputs=(Flags("--mode json", format="pi"),),
    ephemeral=Flags("--no-session"),
    approval=Flags("--auto-approve"),
    opening="{prompt}",
    stdin="",
    misread=("-", "@"),
)

_OPENCLAW = Launcher(
    new=(
        "openclaw tui {options}",
        "openclaw agent --local {options} --agent main --message {prompt}",
    ),
    resume=(None, "openclaw agent --local {options} --session-id {id} --message {prompt}"),
    outputs=(Flags("--json", format="openclaw"),),
    model=None,
)

_HERMES = Launcher(
    new=("hermes {options}", "hermes chat {options} --query={prompt}"),
    resume=(
        "hermes {options} --resume={id}",
        "hermes chat {options} --resume={id} --query={prompt}",
    ),
    # Hermes creates branches only inside a chat, and prints no JSON.
    outputs=(Flags("--quiet", format="hermes"),),
    approval=Flags("--yolo"),
)

_DROID = Launcher(
    new=("droid {options}", "droid exec {options} -- {prompt}"),
    resume=("droid {options} -r {id}", "droid exec {options} -s {id} -- {prompt}"),
    fork=("droid {options} --fork {id}", "droid exec {options} --fork {id} -- {prompt}"),
    outputs=(Flags("-o stream-json", format="droid"),),
    approval=Flags("--auto high"),
    opening="-- {prompt}",
    stdin="",
)

LAUNCHERS: dict[str, Launcher] = {
    "claude": _CLAUDE,
    "codex": _CODEX,
    "gemini": _GEMINI,
    "qwen": _QWEN,
    "copilot": _COPILOT,
    "cursor": _CURSOR,
    "opencode": _OPENCODE,
    "pi": _PI,
    "omp": _OMP,
    "openclaw": _OPENCLAW,
    "hermes": _HERMES,
    "droid": _DROID,
}
"""The launchers of the built-in agents; other agents have a command line in their adapter only."""
