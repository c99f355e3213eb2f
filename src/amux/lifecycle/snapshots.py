"""The stored form of a session's state, and how it is read from the records of a thread.

A snapshot is the value of a register of the thread, so it goes wherever the thread goes: into
PostgreSQL, into a packed file, onto another machine. It holds the *premises*, which are the values
that a conversation silently relies on, and the states of the subsystems. Environments of turns that
began after the snapshot are newer than it, and count. A clear or a reset after it ends the summary
of the conversation that it holds, and a later compaction replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from amux._version import __version__
from amux.errors import StoreError
from amux.lifecycle.live_session import BASELINE, LiveState
from amux.rollout import control
from amux.rollout.control import SNAPSHOT
from amux.rollout.records import Record, SessionMeta, as_mapping

SNAPSHOT_VERSION: Final = 1
"""The version of the form. A newer one is refused; older ones are converted."""

PREMISES: Final = (
    "cwd",
    "model",
    "approval_mode",
    "sandbox_policy",
    "git_sha",
    "git_branch",
    "agent_role",
    "cli_version",
    "send_policy",
    "plugins",
)
"""The fields of `LiveState` that belong to no subsystem."""

_OF_META: Final = tuple(name for name in PREMISES if name in SessionMeta.__struct_fields__)
_OF_TURNS: Final = ("cwd", "approval_mode", "sandbox_policy", "git_sha", "git_branch")


class RecordedState(msgspec.Struct, kw_only=True):
    """The state of a session according to its records.

    `had_directory` says whether the working directory existed where the snapshot was taken.
    """

    version: int | None = None
    premises: dict[str, Any] = {}
    subsystems: dict[str, Any] = {}
    had_directory: bool = True


def encode_snapshot(
    state: LiveState, subsystems: Mapping[str, Any], *, had_directory: bool
) -> dict[str, Any]:
    """Return the stored form of a state; premises that are unknown are left out."""
    premises: dict[str, Any] = msgspec.to_builtins(
        {name: getattr(state, name) for name in PREMISES}
    )
    premises["cli_version"] = __version__  # whatever version the session was restored from
    return {
        "schema_version": SNAPSHOT_VERSION,
        "premises": {name: value for name, value in premises.items() if value not in (None, {})},
        "had_directory": had_directory,
        "subsystems": dict(subsystems),
    }


def read_state(meta: SessionMeta, records: Iterable[Record]) -> RecordedState:
    """Return the state that the records of a thread, oldest first, leave.

    Raises:
        StoreError: The last snapshot was written by a newer version of amux.
    """
    known = msgspec.to_builtins(meta)
    start: dict[str, Any] = {name: known[name] for name in _OF_META if name in known}
    recorded = RecordedState(premises=dict(start))
    for record in records:
        if record.type == "turn_context":
            _add_turn(recorded, as_mapping(record.payload))
        elif record.type == "compacted":
            _replace_baseline(recorded, as_mapping(record.payload).get("summary"))
        elif record.type == "event_msg":
            kind, event = control.event_of(record) or ("", {})
            if kind == control.REGISTER and event.get("name") == SNAPSHOT:
                _add_snapshot(recorded, event.get("value"), start)
            elif kind == control.HIDE and event.get("all") is True:
                _replace_baseline(recorded, None)
            elif kind == control.SESSION_RESUMED and isinstance(event.get("cli_version"), str):
                recorded.premises["cli_version"] = event["cli_version"]
    if recorded.version is not None and recorded.version > SNAPSHOT_VERSION:
        raise StoreError(
            f"the last snapshot of thread `{meta.thread_id}` has version {recorded.version}; "
            f"this version of amux restores up to {SNAPSHOT_VERSION}",
            hint="update amux",
        )
    recorded.premises = {
        name: recorded.premises[name] for name in PREMISES if name in recorded.premises
    }
    return recorded


def _add_turn(recorded: RecordedState, context: Mapping[str, Any]) -> None:
    """Take the environment of a turn into account: a model that it names replaces the choice."""
    for name in _OF_TURNS:
        if context.get(name) is not None:
            recorded.premises[name] = context[name]
    chosen = dict(as_mapping(recorded.subsystems.get("model")))
    if context.get("effort") is not None:
        chosen["level"] = context["effort"]
    if context.get("model") is not None:
        if chosen.get("model_override") is not None:
            chosen["model_override"] = context["model"]
        else:
            recorded.premises["model"] = context["model"]
    if chosen:
        recorded.subsystems["model"] = chosen


def _add_snapshot(recorded: RecordedState, value: object, start: Mapping[str, Any]) -> None:
    """Replace the state by a snapshot; premises that it leaves out are those of the start."""
    snapshot = as_mapping(value)
    version = snapshot.get("schema_version", 0)
    recorded.version = max(0, version) if isinstance(version, int) else 0
    for number in range(recorded.version, SNAPSHOT_VERSION):
        snapshot = _UPGRADES[number](snapshot)
    recorded.premises = {**start, **as_mapping(snapshot.get("premises"))}
    recorded.subsystems = dict(as_mapping(snapshot.get("subsystems")))
    recorded.had_directory = snapshot.get("had_directory") is not False


def _replace_baseline(recorded: RecordedState, summary: object) -> None:
    """Replace the summary in the prompt by a later one; without a text it is dropped."""
    prompt = as_mapping(recorded.subsystems.get("system_prompt"))
    found: object = prompt.get("prompt_sections")
    sections = cast("list[object]", found) if isinstance(found, list) else []
    kept = [each for each in sections if as_mapping(each).get("origin") != BASELINE]
    if len(kept) == len(sections):
        return
    if isinstance(summary, str):
        kept.append({"name": BASELINE, "text": summary, "origin": BASELINE})
    recorded.subsystems["system_prompt"] = {**prompt, "prompt_sections": kept}


def _from_flat(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return version 1 of a flat snapshot, as the first releases of agents wrote it.

    It has one key per subsystem: `cost` (a total in USD), `attribution`, `file_history`, `todos`,
    `model_override`, `worktree_state` and `system_prompt`, a text or a list of sections.
    """
    subsystems: dict[str, Any] = {}
    for old, name, field in _FLAT:
        if old in snapshot:
            subsystems[name] = {field: snapshot[old]}
    prompt = snapshot.get("system_prompt")
    if isinstance(prompt, str):
        sections = [{"name": "system_prompt", "text": prompt, "origin": "user"}]
        subsystems["system_prompt"] = {"prompt_sections": sections}
    elif isinstance(prompt, list):
        subsystems["system_prompt"] = {"prompt_sections": prompt}
    cost = snapshot.get("cost")
    if isinstance(cost, int | float):
        subsystems["cost"] = {"billing_nusd": round(cost * 1e9)}
    premises = {name: snapshot[name] for name in PREMISES if name in snapshot}
    return {"premises": premises, "subsystems": subsystems}


_FLAT: Final = (
    ("attribution", "attribution", "attribution"),
    ("file_history", "file_history", "file_history"),
    ("todos", "todos", "todos"),
    ("model_override", "model", "model_override"),
    ("worktree_state", "worktree", "worktree"),
)

_UPGRADES: Final[tuple[Callable[[Mapping[str, Any]], dict[str, Any]], ...]] = (_from_flat,)
"""The functions that convert a snapshot of each version to the next one."""
