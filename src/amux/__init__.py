"""amux: every session of every AI coding agent, in one library and one command.

    import amux

    client = amux.create_client()
    for session in client.sessions.list("claude"):
        print(session.unified_id, session.title, session.cost)

Names are imported on first use, so that importing the package takes almost no time. Only the names
in `__all__` are a stable interface.
"""

from __future__ import annotations

from amux._version import __version__

TYPE_CHECKING = False  # importing `typing` would double the start-up time
if TYPE_CHECKING:
    from amux.adapters._base import (
        Adapter,
        AgentInfo,
        Capabilities,
        Command,
        Head,
        Item,
        SourceRef,
        Want,
    )
    from amux.adapters._base import IgnoredFiles as Bystander
    from amux.client import Client, create_client
    from amux.config import Config
    from amux.errors import (
        AgentNotFoundError,
        AmbiguousIdError,
        AmuxError,
        AuthError,
        CapabilityError,
        ConfigError,
        ErrorCode,
        ParseError,
        SessionNotFoundError,
        ValidationError,
    )
    from amux.host import Host
    from amux.model.annotation import Note, SessionAnnotations
    from amux.model.change import SessionChange
    from amux.model.cost import CostBlock, CostBreakdown, CostRecord, CostSummary
    from amux.model.diff import DiffOperation, DiffStats, SessionDiff
    from amux.model.facts import Facts
    from amux.model.ids import NativeRef
    from amux.model.message import SessionMessage, SessionToolCall, TokenUsage, ToolResult
    from amux.model.options import CostAggregationOptions, SessionListOptions, SessionQuery
    from amux.model.problems import Problem
    from amux.model.session import Session, SessionSummary
    from amux.model.usage import Call, Tokens
    from amux.sessions.manager import SessionManager

_EXPORTS = {
    "amux.adapters._base": (
        "Adapter",
        "AgentInfo",
        "Bystander",
        "Capabilities",
        "Command",
        "Head",
        "Item",
        "SourceRef",
        "Want",
    ),
    "amux.client": ("Client", "create_client"),
    "amux.config": ("Config",),
    "amux.errors": (
        "AgentNotFoundError",
        "AmbiguousIdError",
        "AmuxError",
        "AuthError",
        "CapabilityError",
        "ConfigError",
        "ErrorCode",
        "ParseError",
        "SessionNotFoundError",
        "ValidationError",
    ),
    "amux.host": ("Host",),
    "amux.model.annotation": ("Note", "SessionAnnotations"),
    "amux.model.cost": ("CostBlock", "CostBreakdown", "CostRecord", "CostSummary"),
    "amux.model.change": ("SessionChange",),
    "amux.model.diff": ("DiffOperation", "DiffStats", "SessionDiff"),
    "amux.model.facts": ("Facts",),
    "amux.model.ids": ("NativeRef",),
    "amux.model.message": ("SessionMessage", "SessionToolCall", "TokenUsage", "ToolResult"),
    "amux.model.options": ("CostAggregationOptions", "SessionListOptions", "SessionQuery"),
    "amux.model.problems": ("Problem",),
    "amux.model.session": ("Session", "SessionSummary"),
    "amux.model.usage": ("Call", "Tokens"),
    "amux.sessions.manager": ("SessionManager",),
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "Adapter",
    "AgentInfo",
    "AgentNotFoundError",
    "AmbiguousIdError",
    "AmuxError",
    "AuthError",
    "Bystander",
    "Call",
    "Capabilities",
    "CapabilityError",
    "Client",
    "Command",
    "Config",
    "ConfigError",
    "CostAggregationOptions",
    "CostBlock",
    "CostBreakdown",
    "CostRecord",
    "CostSummary",
    "DiffOperation",
    "DiffStats",
    "ErrorCode",
    "Facts",
    "Head",
    "Host",
    "Item",
    "NativeRef",
    "Note",
    "ParseError",
    "Problem",
    "Session",
    "SessionAnnotations",
    "SessionChange",
    "SessionDiff",
    "SessionListOptions",
    "SessionManager",
    "SessionMessage",
    "SessionNotFoundError",
    "SessionQuery",
    "SessionSummary",
    "SessionToolCall",
    "SourceRef",
    "TokenUsage",
    "Tokens",
    "ToolResult",
    "ValidationError",
    "Want",
    "__version__",
    "create_client",
]


_RENAMED = {"Bystander": "IgnoredFiles"}
"""Promised names of things that are called otherwise now."""


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module `amux` has no attribute `{name}`")
    from importlib import import_module

    value: object = getattr(import_module(module), _RENAMED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
