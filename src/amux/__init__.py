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
        ConflictError,
        DecisionRequiredError,
        ErrorCode,
        ParseError,
        SessionNotFoundError,
        StoreBusyError,
        StoreError,
        TitleInUseError,
        TurnInProgressError,
        ValidationError,
    )
    from amux.host import Host
    from amux.lifecycle.context_prompt import (
        HomeChannel,
        SessionContext,
        build_session_context_prompt,
    )
    from amux.lifecycle.framework import SessionFramework, framework
    from amux.lifecycle.hook_results import HookResult
    from amux.lifecycle.hooks import HookEvent, LifecycleHook, LifecycleSource
    from amux.lifecycle.lifecycle import Lifecycle
    from amux.lifecycle.live_session import LiveSession, LiveState, PromptSection
    from amux.lifecycle.message_source import ChatType, Platform, SessionSource, build_session_key
    from amux.lifecycle.redaction import Redactor
    from amux.lifecycle.reset import ResetMode, ResetOutcome, ResetPolicy, ResetPolicySet
    from amux.lifecycle.restore import RestorableSubsystem, RestoreRegistry
    from amux.lifecycle.restore_report import Decision, RestoreProblem, RestoreReport
    from amux.lifecycle.router import OutboundMessage, SourceRouter
    from amux.managed.agents.base import ManagedAgent
    from amux.managed.sessions import ManagedSessions
    from amux.managed.state import ResumeStrategy, SessionInfo, SessionState, SessionStatus
    from amux.managed.store import UnifiedSessionStore
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
    from amux.rollout.entries import parse_line
    from amux.rollout.entry_log import EntryLog
    from amux.rollout.entry_log_folder import EntryLogInfo, list_entry_logs
    from amux.rollout.entry_reader import parse_messages
    from amux.rollout.ids import (
        is_valid_session_id,
        looks_like_session_id,
        new_run_session_id,
        new_thread_id,
        scoped_key,
    )
    from amux.rollout.log import ThreadLog
    from amux.rollout.recorder import RolloutRecorder
    from amux.rollout.records import NewRecord, PayloadText, Record, SessionMeta
    from amux.rollout.threads import ThreadFilter, ThreadSummary
    from amux.run_index import RecordedRun, RunIndex, RunIndexEntry
    from amux.runs.events import AgentEvent
    from amux.runs.launch import Launch
    from amux.runs.manager import RunManager
    from amux.runs.run import Run, RunResult
    from amux.sessions.entry_log_html import export_html
    from amux.sessions.manager import SessionManager
    from amux.store.file_log.file_system_rollout import FileSystemRollout
    from amux.store.file_log.session_index import SessionIndex, SqliteSessionIndex
    from amux.store.session_db.database import SessionDB
    from amux.store.session_store import SessionStore
    from amux.store.thread import ThreadHandle, ThreadView
    from amux.store.turns import TurnContext

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
        "ConflictError",
        "DecisionRequiredError",
        "SessionNotFoundError",
        "StoreBusyError",
        "StoreError",
        "TitleInUseError",
        "TurnInProgressError",
        "ValidationError",
    ),
    "amux.host": ("Host",),
    "amux.lifecycle.context_prompt": (
        "HomeChannel",
        "SessionContext",
        "build_session_context_prompt",
    ),
    "amux.lifecycle.framework": ("SessionFramework", "framework"),
    "amux.lifecycle.hook_results": ("HookResult",),
    "amux.lifecycle.hooks": ("HookEvent", "LifecycleHook", "LifecycleSource"),
    "amux.lifecycle.lifecycle": ("Lifecycle",),
    "amux.lifecycle.live_session": ("LiveSession", "LiveState", "PromptSection"),
    "amux.lifecycle.message_source": ("ChatType", "Platform", "SessionSource", "build_session_key"),
    "amux.lifecycle.redaction": ("Redactor",),
    "amux.lifecycle.reset": ("ResetMode", "ResetOutcome", "ResetPolicy", "ResetPolicySet"),
    "amux.lifecycle.restore": ("RestorableSubsystem", "RestoreRegistry"),
    "amux.lifecycle.restore_report": ("Decision", "RestoreProblem", "RestoreReport"),
    "amux.lifecycle.router": ("OutboundMessage", "SourceRouter"),
    "amux.managed.agents.base": ("ManagedAgent",),
    "amux.managed.sessions": ("ManagedSessions",),
    "amux.managed.state": ("ResumeStrategy", "SessionInfo", "SessionState", "SessionStatus"),
    "amux.managed.store": ("UnifiedSessionStore",),
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
    "amux.rollout.entries": ("parse_line",),
    "amux.rollout.entry_log": ("EntryLog",),
    "amux.rollout.entry_log_folder": ("EntryLogInfo", "list_entry_logs"),
    "amux.rollout.entry_reader": ("parse_messages",),
    "amux.rollout.ids": (
        "is_valid_session_id",
        "looks_like_session_id",
        "new_run_session_id",
        "new_thread_id",
        "scoped_key",
    ),
    "amux.run_index": ("RecordedRun", "RunIndex", "RunIndexEntry"),
    "amux.runs.events": ("AgentEvent",),
    "amux.runs.launch": ("Launch",),
    "amux.runs.manager": ("RunManager",),
    "amux.runs.run": ("Run", "RunResult"),
    "amux.sessions.entry_log_html": ("export_html",),
    "amux.sessions.manager": ("SessionManager",),
    "amux.rollout.threads": ("ThreadFilter", "ThreadSummary"),
    "amux.rollout.log": ("ThreadLog",),
    "amux.rollout.records": ("NewRecord", "PayloadText", "Record", "SessionMeta"),
    "amux.store.file_log.file_system_rollout": ("FileSystemRollout",),
    "amux.store.file_log.session_index": ("SessionIndex", "SqliteSessionIndex"),
    "amux.rollout.recorder": ("RolloutRecorder",),
    "amux.store.turns": ("TurnContext",),
    "amux.store.thread": ("ThreadHandle", "ThreadView"),
    "amux.store.session_store": ("SessionStore",),
    "amux.store.session_db.database": ("SessionDB",),
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "Adapter",
    "AgentEvent",
    "AgentInfo",
    "AgentNotFoundError",
    "AmbiguousIdError",
    "AmuxError",
    "AuthError",
    "Bystander",
    "Call",
    "Capabilities",
    "CapabilityError",
    "ChatType",
    "Client",
    "Command",
    "Config",
    "ConfigError",
    "ConflictError",
    "CostAggregationOptions",
    "CostBlock",
    "CostBreakdown",
    "CostRecord",
    "CostSummary",
    "Decision",
    "DecisionRequiredError",
    "DiffOperation",
    "DiffStats",
    "EntryLog",
    "EntryLogInfo",
    "ErrorCode",
    "Facts",
    "FileSystemRollout",
    "Head",
    "HomeChannel",
    "HookEvent",
    "HookResult",
    "Host",
    "Item",
    "Launch",
    "Lifecycle",
    "LifecycleHook",
    "LifecycleSource",
    "LiveSession",
    "LiveState",
    "ManagedAgent",
    "ManagedSessions",
    "NativeRef",
    "NewRecord",
    "Note",
    "OutboundMessage",
    "ParseError",
    "PayloadText",
    "Platform",
    "Problem",
    "PromptSection",
    "Record",
    "RecordedRun",
    "Redactor",
    "ResetMode",
    "ResetOutcome",
    "ResetPolicy",
    "ResetPolicySet",
    "RestorableSubsystem",
    "RestoreProblem",
    "RestoreRegistry",
    "RestoreReport",
    "ResumeStrategy",
    "RolloutRecorder",
    "Run",
    "RunIndex",
    "RunIndexEntry",
    "RunManager",
    "RunResult",
    "Session",
    "SessionAnnotations",
    "SessionChange",
    "SessionContext",
    "SessionDB",
    "SessionDiff",
    "SessionFramework",
    "SessionIndex",
    "SessionInfo",
    "SessionListOptions",
    "SessionManager",
    "SessionMessage",
    "SessionMeta",
    "SessionNotFoundError",
    "SessionQuery",
    "SessionSource",
    "SessionState",
    "SessionStatus",
    "SessionStore",
    "SessionSummary",
    "SessionToolCall",
    "SourceRef",
    "SourceRouter",
    "SqliteSessionIndex",
    "StoreBusyError",
    "StoreError",
    "ThreadFilter",
    "ThreadHandle",
    "ThreadLog",
    "ThreadSummary",
    "ThreadView",
    "TitleInUseError",
    "TokenUsage",
    "Tokens",
    "ToolResult",
    "TurnContext",
    "TurnInProgressError",
    "UnifiedSessionStore",
    "ValidationError",
    "Want",
    "__version__",
    "build_session_context_prompt",
    "build_session_key",
    "create_client",
    "export_html",
    "framework",
    "is_valid_session_id",
    "list_entry_logs",
    "looks_like_session_id",
    "new_run_session_id",
    "new_thread_id",
    "parse_line",
    "parse_messages",
    "scoped_key",
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
