"""Checks what callers of managed sessions ask for: prompts, directories, statuses, changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amux.errors import DecisionRequiredError, ValidationError
from amux.managed.state import SessionState, SessionStatus

Prompt = str | Sequence[str] | None
"""A prompt, or several that are sent one after the other."""

_SAVED_FIELDS: Final = ("status", "agent_session_id", "last_error", "metadata")


def directory_of(cwd: str | None) -> str | None:
    """Return a working directory as an absolute path; raises ValidationError if there is none."""
    if cwd is None:
        return None
    path = os.path.abspath(cwd)  # noqa: PTH100 - also resolves `..`
    if not os.path.isdir(path):  # noqa: PTH112 - never raises
        raise ValidationError(f"`{path}` is not a directory", fields=("cwd",))
    return path


def prompts_of(prompt: Prompt) -> list[str]:
    """Return the prompts of a request.

    Raises:
        ValidationError: A prompt is empty.
    """
    prompts = [] if prompt is None else [prompt] if isinstance(prompt, str) else list(prompt)
    for each in prompts:
        if not each.strip():
            raise ValidationError("a prompt is empty", fields=("prompt",))
    return prompts


def status_of(value: SessionStatus | str) -> SessionStatus:
    """Return a status by its name; raises ValidationError."""
    try:
        return SessionStatus(value)
    except ValueError:
        raise ValidationError(
            f"`{value}` is not a status of a managed session",
            fields=("status",),
            hint=f"one of {', '.join(SessionStatus)}",
        ) from None


def changes_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to change; keys that are no fields are merged into `metadata`.

    Raises:
        ValidationError: A field has a wrong type or cannot be set.
    """
    fixed = [name for name in SessionState.__struct_fields__ if name not in _SAVED_FIELDS]
    changes: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in state.items():
        if name in fixed:
            raise ValidationError(f"`{name}` of a managed session cannot be set", fields=(name,))
        if name == "metadata":
            if not isinstance(value, Mapping):
                raise ValidationError("`metadata` must be a mapping", fields=(name,))
            extra |= value
        elif name == "status":
            changes[name] = status_of(value)
        elif name in _SAVED_FIELDS:
            if value is not None and not isinstance(value, str):
                raise ValidationError(f"`{name}` must be a text", fields=(name,))
            changes[name] = value
        else:
            extra[name] = value
    return {**changes, "metadata": extra}


def decision_required(
    state: SessionState, reason: str, new_id: str | None = None
) -> DecisionRequiredError:
    """Return the error of a session that was not resumed, with the ways to go on."""
    offer = "start a new session" if new_id is None else f"start a new session, `{new_id}`"
    return DecisionRequiredError(
        f"managed session `{state.id}` was not resumed: {reason}",
        kind="resume",
        choices=("new", "discard"),
        hint=f"{offer} with the strategy `always_new`, or delete it",
    )
