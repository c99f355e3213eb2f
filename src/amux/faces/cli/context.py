"""The context of a command: its arguments, its output and a client, created on first use."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from amux.errors import ValidationError
from amux.faces.cli.output import Output

TYPE_CHECKING = False  # importing `typing` would take a tenth of the time of a fast list
if TYPE_CHECKING:
    import argparse
    from types import SimpleNamespace

    from amux.client import Client
    from amux.faces.cli.progress import Report
    from amux.model.ids import NativeRef
    from amux.model.problems import Problem

PROBLEMS_SHOWN = 3

_OWN_VARIABLES = ("AMUX_", "AGENT_MUX_")
_ADDRESS_WORDS = 2
_INTERRUPTED = "interrupted"
_INTERRUPTED_INDEXED = "interrupted; the index holds what was read, the next run continues there"


class Context:
    """One run of one command."""

    def __init__(self, args: argparse.Namespace | SimpleNamespace, output: Output) -> None:
        self.args = args
        self.output = output
        self.is_endless = False  # if set, Ctrl-C is the normal end and needs no message

    @cached_property
    def now(self) -> datetime:
        """The current time; with `--demo` the fixed time of the sample sessions."""
        if self.args.demo:
            from amux.demo import DEMO_NOW

            return DEMO_NOW
        return datetime.now(UTC)

    @property
    def since(self) -> datetime | None:
        """The moment of `--since`."""
        return self._moment(self.args.since)

    @property
    def until(self) -> datetime | None:
        """The moment of `--until`; a date without a time means the end of that day."""
        return self._moment(self.args.until, is_end=True)

    @property
    def is_json(self) -> bool:
        """Whether `--json` was given."""
        return bool(self.args.json)

    @cached_property
    def client(self) -> Client:
        """The client for the home directory that the options select."""
        client = self._choose_client()
        if client.has_settings:
            color, warnings = client.display_settings
            if self.args.color is None:
                self.output.use_color(color)
            for warning in warnings:
                self.output.warning(warning)
        return client

    def find(self, words: Sequence[str]) -> NativeRef:
        """Return the session that is named as `ID`, `AGENT:ID` or `AGENT ID`."""
        ref, agent = self.address(words)
        return self.client.find(ref, agent=agent)

    def address(self, words: Sequence[str]) -> tuple[str, str | None]:
        """Return the id of a session, and its agent if the words or `--agent` name one."""
        agent: str | None = self.args.agent
        if len(words) > _ADDRESS_WORDS:
            raise ValidationError(
                f"expected one session, got {len(words)} words",
                hint="name it as `AGENT ID`, `AGENT:ID` or by the beginning of its id",
            )
        if len(words) == _ADDRESS_WORDS:
            agent = one_agent(words[0], agent)
        return words[-1], agent

    def busy(self, text: str) -> AbstractContextManager[None]:
        """Show a spinner while the body runs, if it takes long."""
        from amux.faces.cli.progress import busy

        return busy(text, shows_progress=self.output.shows_progress)

    def working(self, text: str) -> AbstractContextManager[Report]:
        """Show a progress bar; the body calls the function it gets to report progress."""
        from amux.faces.cli.progress import working

        is_dumb = os.environ.get("TERM") == "dumb"  # noqa: TID251 - a face asks the process
        return working(text, shows_progress=self.output.shows_progress and not is_dumb)

    @contextmanager
    def reading(self, text: str) -> Generator[None]:
        """Show a progress bar while the client reads sources and updates the index."""
        with self.working(text) as report:
            if self.output.shows_progress:
                self.client.watch(report)
            yield

    def note_interrupted(self) -> None:
        """Write a note that Ctrl-C ended the command, and whether the index was updated."""
        if self.is_endless:
            return
        client: Client | None = self.__dict__.get("client")
        is_indexed = client is not None and client.index_was_written
        self.output.stopped(_INTERRUPTED_INDEXED if is_indexed else _INTERRUPTED)

    def start_indexer(self) -> None:
        """Start the background indexer after the answer, if the index lacks much."""
        client: Client | None = self.__dict__.get("client")
        if client is not None and client.needs_indexer:
            from amux.faces.cli.background import start_indexer

            start_indexer(self, client)

    def report_problems(self, problems: Sequence[Problem]) -> None:
        """Warn about what could not be read, in one line; `--debug` gives each problem a line."""
        if not problems:
            return
        from amux.faces.cli.figures import count

        lines = list(dict.fromkeys(str(problem) for problem in problems))
        if self.args.debug:
            for line in lines:
                self.output.warning(line)
            return
        shown = "; ".join(lines[:PROBLEMS_SHOWN])
        more = f"; and {len(lines) - PROBLEMS_SHOWN} more" if len(lines) > PROBLEMS_SHOWN else ""
        self.output.warning(f"{count(len(lines), 'problem')} while reading: {shown}{more}")

    def confirm(self, result: object, sentence: str) -> None:
        """Report a change: its result with `--json`, else a note."""
        if self.is_json:
            self.output.json(result)
        else:
            self.output.note(sentence)

    def warn_unknown_agent(self) -> None:
        """Warn if `--agent` names no known agent, which a search or a cost report accepts."""
        agent: str | None = self.args.agent
        known = [info.name for info in self.client.adapters.list()]
        if agent is not None and agent not in known:
            self.output.warning(f"no agent is called `{agent}`; known: {', '.join(known)}")

    def _moment(self, text: str | None, *, is_end: bool = False) -> datetime | None:
        if text is None:
            return None
        from amux.model.when import parse_when

        try:
            return parse_when(text, now=self.now, is_end=is_end, zone=self.client.zone)
        except ValueError as error:  # the parser accepted the syntax, but the time is out of range
            raise ValidationError(str(error), fields=["until" if is_end else "since"]) from error

    def client_options(self) -> list[str]:
        """Return the options with which a process in any directory gets an equal client."""
        given = (
            ("--home", None if self.args.home is None else _existing(self.args.home)),
            ("--config-dir", _path(self.args.config_dir)),
            ("--project-dir", self._project_dir),
            ("--profile", self.args.profile),
        )
        return [f"{option}={value}" for option, value in given if value is not None]

    @property
    def _project_dir(self) -> Path | None:
        given = _path(self.args.project_dir)
        return _current_directory() if given is None and self.args.home is None else given

    def _choose_client(self) -> Client:
        from amux.client import create_client, create_demo_client

        if self.args.demo:
            return create_demo_client()
        home = None if self.args.home is None else _existing(self.args.home)
        return create_client(
            home=home,
            config_dir=_path(self.args.config_dir),
            project_dir=self._project_dir,
            env=None if home is None else _own_environment(),
            default_agent=self.args.agent,
            profile=self.args.profile,
        )


def one_agent(word: str | None, option: str | None) -> str | None:
    """Return the agent named by an argument or by `--agent`; if both are given, they must agree."""
    if word is not None and option is not None and word != option:
        raise ValidationError(f"two agents are given, `{word}` and `{option}`", fields=["agent"])
    return word if word is not None else option


def _path(text: str | None) -> Path | None:
    return None if text is None else usable_path(text).expanduser().absolute()


def usable_path(text: str) -> Path:
    """Return a typed path; raise `ValidationError` if it contains a NUL character."""
    if "\0" in text:
        raise ValidationError(f"`{text}` is not a valid path: it contains a NUL character")
    return Path(text)


def _existing(text: str) -> Path:
    path = usable_path(text).expanduser().absolute()
    if not os.path.isdir(path):  # noqa: PTH112 - does not raise for an unreadable parent directory
        raise ValidationError(f"`{path}` is not a directory", fields=["home"])
    return path


def _current_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # the directory was removed
        return None


def _own_environment() -> dict[str, str]:
    """Return amux's own variables; those that move an agent's folder apply to this home only."""
    environment = os.environ  # noqa: TID251 - a face is where the process is asked
    return {name: value for name, value in environment.items() if name.startswith(_OWN_VARIABLES)}


def working_directory(text: str) -> str:
    """Return a typed directory as an absolute path; a foreign Windows path stays unchanged."""
    is_foreign = sys.platform != "win32" and text[1:3] in (":\\", ":/")
    return text if is_foreign else os.path.abspath(text)  # noqa: PTH100 - also resolves `..`
