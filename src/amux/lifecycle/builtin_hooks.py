"""The built-in hooks: the work that belongs to each of the four sources.

- startup sets the directory, reads the Git state and the instruction files, adds the prompt
  sections of plugins and takes the first snapshot. It does not read archives or other sessions,
  and it restores no worktree.
- resume restores everything from the last snapshot. It does not reset the costs, and it does not
  read the instruction files again.
- clear empties the conversation and drops the summary that stood for it. It deletes no file, and
  costs, model, to-do list and plugins stay as they are.
- compact takes a snapshot, lets the caller summarise, and makes the summary the baseline of the
  prompt. It does not empty the history, and it does not reset the model.

The costs of a thread are computed from its records, so there is no counter to start, pause or lose.
The record with a summary has a bucket of its own: `session.cost.compaction`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from amux.lifecycle.hook_results import HookResult, visible
from amux.lifecycle.hooks import HookEvent, HookInfo, LifecycleHook, LifecycleSource
from amux.lifecycle.live_session import BASELINE, LiveSession, LiveState, PromptSection
from amux.rollout.records import as_mapping

INSTRUCTION_FILES: Final = ("AGENTS.md", "CLAUDE.md")
"""The files with instructions for agents, in the order in which they enter the prompt."""

MAX_INSTRUCTIONS: Final = 32_768
"""The number of bytes of an instruction file that are read."""


class SnapshotRegistry(Protocol):
    """Takes snapshots of a session and restores them; `RestoreRegistry` does."""

    def snapshot(self, session: LiveSession) -> dict[str, Any]:
        """Store a snapshot in the thread and return it."""
        ...

    def restore(self, session: LiveSession) -> Any:
        """Restore the last snapshot and return a report."""
        ...


def builtin_hooks(restore: SnapshotRegistry | None) -> Sequence[HookInfo]:
    """Return the built-in hooks. Without a registry no snapshot is taken or restored."""
    startup, resume = LifecycleSource.STARTUP, LifecycleSource.RESUME
    clear, compact = LifecycleSource.CLEAR, LifecycleSource.COMPACT
    return (
        _info("amux.directory", DirectoryHook(), startup, 10),
        _info("amux.git", GitStateHook(), startup, 20),
        _info("amux.instructions", InstructionsHook(), startup, 30),
        _info("amux.sections", PromptSectionsHook(), startup, 40),
        _info("amux.snapshot", FirstSnapshotHook(restore), startup, 50),
        _info("amux.restore", RestoreHook(restore), resume, 10, is_essential=True),
        _info("amux.clear", ClearHook(restore), clear, 10, is_essential=True),
        _info("amux.compact", CompactHook(restore), compact, 10, is_essential=True),
    )


def _info(
    name: str,
    hook: LifecycleHook,
    source: LifecycleSource,
    priority: int,
    *,
    is_essential: bool = False,
) -> HookInfo:
    return HookInfo(
        name=name,
        hook=hook,
        applies_to=frozenset({source}),
        origin="built-in",
        trust="managed",
        priority=priority,
        is_builtin=True,
        is_essential=is_essential,
    )


# startup
#
# NO WARM-UP. These hooks run before the user can type. They open the files of this session and of
# its directory, each by its name, and nothing else: no scan, no archive, no network, no subprocess.
# A value that is not needed for the first prompt is read when it is asked for.


class DirectoryHook(LifecycleHook):
    """Sets the working directory and the model of the session from the start of the thread."""

    def on_startup(self, event: HookEvent) -> None:
        """Fill in the fields that the caller has not set."""
        state, meta = event.session.state, event.session.meta
        state.cwd = state.cwd or meta.cwd or None
        state.model = state.model or meta.model


class GitStateHook(LifecycleHook):
    """Reads the commit and the branch from the files of the repository."""

    def on_startup(self, event: HookEvent) -> None:
        """Fill in the Git state; without a repository it stays unknown."""
        state = event.session.state
        if state.cwd is None or state.git_sha is not None:
            return
        from amux.lifecycle.git_state import git_state

        found = git_state(state.cwd)
        if found is not None:
            state.git_sha, state.git_branch = found.sha, found.branch


class InstructionsHook(LifecycleHook):
    """Reads the instruction files of the project into prompt sections."""

    def on_startup(self, event: HookEvent) -> None:
        """Replace the sections of the project by the files of the directory."""
        state = event.session.state
        kept = [each for each in state.prompt_sections if each.origin != "project"]
        found = [] if state.cwd is None else list(read_instructions(state.cwd))
        state.prompt_sections = [*found, *kept]


class PromptSectionsHook(LifecycleHook):
    """Adds the prompt sections of other hooks."""

    def on_startup(self, event: HookEvent) -> None:
        """Append the sections in the order of their hooks."""
        event.session.state.prompt_sections.extend(event.prompt_sections)


class FirstSnapshotHook(LifecycleHook):
    """Takes the first snapshot, so that a session that crashes at once can be resumed."""

    def __init__(self, restore: SnapshotRegistry | None) -> None:
        self._restore = restore

    def on_startup(self, event: HookEvent) -> None:
        """Store a snapshot in the thread."""
        if self._restore is not None:
            self._restore.snapshot(event.session)


def read_instructions(directory: str) -> Iterator[PromptSection]:
    """Yield the instruction files of a directory as prompt sections.

    A file is read up to `MAX_INSTRUCTIONS` bytes, and only if it is a regular file that lies in the
    directory: a link to another place is not followed. A file with two names is read once.
    """
    texts: set[str] = set()
    for name in INSTRUCTION_FILES:
        text = _read_inside(directory, name)
        if text is not None and text.strip() and text not in texts:
            texts.add(text)
            yield PromptSection(name=name, text=visible(text), origin="project")


def _read_inside(directory: str, name: str) -> str | None:
    """Return the beginning of a file of a directory; None if it cannot or may not be read."""
    try:
        base = os.path.realpath(directory)
        path = os.path.realpath(f"{base}{os.sep}{name}")
        if os.path.commonpath((base, path)) != base:
            return None
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            content = file.read(MAX_INSTRUCTIONS + 1)
    except (OSError, ValueError):  # missing, unreadable, or a name with a NUL
        return None
    text = content[:MAX_INSTRUCTIONS].decode("utf-8", "replace")
    if len(content) <= MAX_INSTRUCTIONS:
        return text
    return f"{text}\n[cut: only the first {MAX_INSTRUCTIONS} bytes of the file]"


# resume


class RestoreHook(LifecycleHook):
    """Restores the session from its last snapshot, unless that was done already."""

    def __init__(self, restore: SnapshotRegistry | None) -> None:
        self._restore = restore

    def on_resume(self, event: HookEvent) -> HookResult:
        """Restore the state and return the report; no file of the project is read."""
        session = event.session
        if session.report is None and self._restore is not None:
            session.report = self._restore.restore(session)
        return HookResult(restored=session.report)


# clear


class ClearHook(LifecycleHook):
    """Empties the conversation. Costs, model, to-do list, files and plugins stay."""

    def __init__(self, restore: SnapshotRegistry | None) -> None:
        self._restore = restore

    def on_clear(self, event: HookEvent) -> None:
        """Append the record that hides the conversation, and drop the summary in the prompt."""
        event.session.clear()
        set_baseline(event.session.state, None)
        if self._restore is not None:
            self._restore.snapshot(event.session)


# compact


class CompactHook(LifecycleHook):
    """Condenses the conversation into a summary, which becomes the baseline of the prompt."""

    def __init__(self, restore: SnapshotRegistry | None) -> None:
        self._restore = restore

    def on_compact(self, event: HookEvent) -> HookResult:
        """Take a snapshot, summarise, set the baseline, and return the id of the new record.

        Without a summariser the caller condenses the conversation itself, and only the snapshot is
        taken. If the summariser fails, its error is raised and nothing has changed: no write was
        held back, and the next message is recorded and billed as always.
        """
        session = event.session
        self._snapshot(session)
        if event.summarize is None:
            return HookResult()
        compacted = session.compact(event.summarize, **event.options)
        if compacted is not None:
            set_baseline(session.state, latest_summary(session))
            self._snapshot(session)
        return HookResult(compacted=compacted)

    def _snapshot(self, session: LiveSession) -> None:
        if self._restore is not None:
            self._restore.snapshot(session)


def latest_summary(session: LiveSession) -> str | None:
    """Return the summary that the conversation begins with; None if there is none."""
    for record in session.conversation_records():
        if record.type == "compacted":
            summary: object = as_mapping(record.payload).get("summary")
            return summary if isinstance(summary, str) else None
    return None


def set_baseline(state: LiveState, text: str | None) -> None:
    """Make a summary the only prompt section of the origin "baseline"; None removes it."""
    kept = [each for each in state.prompt_sections if each.origin != BASELINE]
    if text is not None:
        kept.append(PromptSection(name=BASELINE, text=text, origin=BASELINE))
    state.prompt_sections = kept
