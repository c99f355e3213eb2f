"""Reads the sessions of OpenClaw's agents, on every channel.

Store     $OPENCLAW_STATE_DIR, or .openclaw below $OPENCLAW_HOME or the home (older names of the
          program: ~/.clawdbot, ~/.moltbot): agents/<agent>/sessions/<id>.jsonl with archives, then
          agents/<agent>/agent/openclaw-agent.sqlite; sessions/<channel>/<id>.json as specified
Formats   Pi's log, version 3 in files and 4 in the database; long events are compressed
Branch    the current branch ends at the leaf that the database names, else at the last line
Counting  one call per assistant message; compactions are not recorded
Title     the label that a person gave, else the first prompt

Two channels or agents may use one id for two sessions: the id then names the newest one, and
`<channel>/<id>` names each of them. Evidence and gaps: docs/agents/openclaw.md.

Sources below the state folder are classified by their names alone:

    agents/<agent>/sessions/<id>.jsonl                     a session (to 2026.6)
    agents/<agent>/sessions/<id>.jsonl.<why>.<time>        a session that was deleted or reset
    agents/<agent>/sessions/<id>.checkpoint.<uuid>.jsonl   a copy from before a compaction
    agents/<agent>/sessions/sessions.json                  names of sessions
    agents/<agent>/agent/openclaw-agent.sqlite             all sessions (from 2026.9)
    sessions/<channel>/<id>.json                           a session, as specified

Links are not followed, so no source is outside the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Command,
    IgnoredFiles,
    Item,
    SourceRef,
    Want,
)
from amux.adapters._kit.command_line import CommandLine
from amux.adapters._kit.folders import Folders
from amux.adapters.openclaw.injected import INJECTED_TEXTS
from amux.host import Host
from amux.launchers import LAUNCHERS

if TYPE_CHECKING:
    from amux.adapters._kit.related import LinkKeys, Named, RelatedSessions
    from amux.adapters.pi.log import Origin


NAME: Final = "openclaw"
INFO: Final = AgentInfo(
    name=NAME,
    label="OpenClaw",
    cli_command="openclaw",
    capabilities=Capabilities(session_persistence="file", can_resume=True),
    evidence="seen: 2026.1.30, 2026.3.13, 2026.6.11, 2026.9.6; archives read in the source",
    ignored_files=(
        IgnoredFiles("agents/*/sessions/*.trajectory*", "a trace of the run; repeats the session"),
        IgnoredFiles("agents/*/sessions/*.lock", "held while a session is written"),
        IgnoredFiles("agents/*/sessions/sessions.json.*", "a copy or a part of the list of names"),
        IgnoredFiles("agents/*/agent/*", "settings, accounts and locks of an agent"),
        IgnoredFiles("state/*", "state of the gateway"),
        IgnoredFiles("workspace*/*", "files agents work on"),
        IgnoredFiles("openclaw.json*", "settings"),
    ),
    injected_texts=INJECTED_TEXTS,
    revision=7,
    indexable=True,
)

DATABASE: Final = "openclaw-agent.sqlite"
NAMES: Final = "sessions.json"

_CHECKPOINT: Final = re.compile(r"(.+)\.checkpoint\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ARCHIVE: Final = re.compile(
    r"(?P<id>.+?)(?:\.jsonl\.(?P<why>deleted|reset|bak|full\.bak)(?:\..+)?|\.full\.bak)"
)
_TRACE: Final = ".trajectory"


_COMMAND: Final = CommandLine(LAUNCHERS["openclaw"])


class OpenClawAdapter:
    """Reads the sessions of OpenClaw. Stateless."""

    info = INFO

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the state folder that the environment names, else those of all product names."""
        for variable in ("OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR"):
            named = host.path_from(variable)
            if named is not None:
                return [named]
        home = host.path_from("OPENCLAW_HOME") or host.home
        profile = host.env.get("OPENCLAW_PROFILE", "").strip()
        own = ".openclaw" if profile in {"", "default"} else f".openclaw-{Path(profile).name}"
        return [home / own, home / ".clawdbot", home / ".moltbot"]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield logs, databases and documents; their names do not include a working directory."""
        del cwd
        return SourceFinder(root).sources()

    def read(
        self,
        source: SourceRef,
        *,
        want: Want,
        only: str | None = None,
        until: int | None = None,  # noqa: ARG002 - history is copied here, never referred to
    ) -> Iterator[Item]:
        """Read one source; only a database holds several sessions."""
        from amux.adapters.openclaw.database import read_database
        from amux.adapters.openclaw.documents import read_document, read_names
        from amux.adapters.pi.reader import FileLines, read_log

        if source.role == "names":
            return read_names(source)
        if source.path.name == DATABASE:
            chosen = None if only is None else (only,)
            return read_database(source, want=want, only=chosen)
        if is_document(source):
            return read_document(source, want)
        return read_log(FileLines([source.path]), _origin(source), want=want)

    def names(self, source: SourceRef) -> Sequence[Named] | None:
        """Return the ids and aliases of the sessions in a database; None for other sources."""
        from amux.adapters._kit.related import query_database
        from amux.adapters.openclaw.database import names_in

        return query_database(source, partial(names_in, source))

    def related(self, sources: Sequence[SourceRef], session_id: str) -> RelatedSessions | None:
        """Return the sessions related to one; None if there are also logs in files."""
        from amux.adapters._kit.related import SharedKeys, all_link_keys, by_name, query_database
        from amux.adapters.openclaw.database import keys_by_session

        def keys_of(source: SourceRef) -> LinkKeys | None:
            if source.path.name == DATABASE:
                return query_database(source, partial(keys_by_session, source))
            return by_name(source) if source.role == "names" else None

        keys = all_link_keys(sources, keys_of)
        return None if keys is None else SharedKeys(keys, session_id)

    def read_selected(self, source: SourceRef, *, chosen: Sequence[str]) -> Iterator[Item]:
        """Read selected sessions of a database; a list of names is read completely."""
        from amux.adapters.openclaw.database import read_database

        if source.path.name != DATABASE:
            return self.read(source, want="facts")
        return read_database(source, want="facts", only=chosen)

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Return a command for one turn; without a prompt, only one for a new conversation."""
        if session_id is not None and prompt is not None and action == "new":
            action = "resume"  # a new conversation may be given an id
        return _COMMAND(action, session_id=session_id, prompt=prompt, cwd=cwd, version=version)


def _origin(source: SourceRef) -> Origin:
    from amux.adapters.openclaw.envelopes import OpenClawTexts
    from amux.adapters.pi.log import Origin

    session_id = source.session_id or source.path.stem
    agent = agent_or_channel(source)
    return Origin(
        session_id=session_id,
        path=str(source.path),
        archived=source.archived,
        namespace=agent,
        aliases=(f"{agent}/{session_id}",),
        texts=OpenClawTexts(),
        doubles_reasoning=True,
        raw={"agentId": agent},
    )


class SourceFinder:
    """Finds the sources below one state folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._template = SourceRef(agent=NAME, path=root, root=root, group=str(root))
        self._folders = Folders()

    def sources(self) -> Iterator[SourceRef]:
        """Yield all logs, databases, documents and lists of names."""
        for folder in self._below(self._root / "agents", folders=True):
            for path in self._below(folder / "sessions"):
                yield from self._log(path)
            for path in self._below(folder / "agent"):
                if path.name == DATABASE:
                    yield self._source(path)
        for channel in self._below(self._root / "sessions", folders=True):
            for path in self._below(channel):
                if path.suffix == ".json":
                    yield self._source(path, session_id=path.stem)
        yield from self._folders.sources(NAME, self._root, group=self._template.group)

    def _below(self, folder: Path, *, folders: bool = False) -> list[Path]:
        """Return the files in a folder, or its subfolders."""
        return sorted(
            Path(entry.path)
            for entry in self._folders.entries(folder)
            if (entry.is_dir if folders else entry.is_file)(follow_symlinks=False)
        )

    def _log(self, path: Path) -> Iterator[SourceRef]:
        name = path.name.removesuffix(".zst")
        if name == NAMES:
            yield self._source(path, role="names")
        elif _TRACE in name:
            return
        elif name.endswith(".jsonl"):
            copy = _CHECKPOINT.fullmatch(name.removesuffix(".jsonl"))
            session_id = name.removesuffix(".jsonl") if copy is None else copy[1]
            yield self._source(path, session_id=session_id, superseded=copy is not None)
        elif (archive := _ARCHIVE.fullmatch(name)) is not None:
            copied = archive["why"] not in {"deleted", "reset"}
            yield self._source(path, session_id=archive["id"], archived=True, superseded=copied)

    def _source(self, path: Path, **known: object) -> SourceRef:
        return self._template.replace(path=path, **known)


def agent_or_channel(source: SourceRef) -> str:
    """Return the name of the agent or channel that a source belongs to."""
    parts = source.path.relative_to(source.root).parts
    return parts[1] if len(parts) > 1 else ""


def is_document(source: SourceRef) -> bool:
    """Return whether a source is a document of a channel."""
    return source.path.relative_to(source.root).parts[0] == "sessions"


ADAPTER: Final = OpenClawAdapter()
