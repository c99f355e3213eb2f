"""The errors amux raises, with their codes and the exit codes of the command line.

    AmuxError                    1
      ValidationError            2   VALIDATION_ERROR (fields)
      AgentNotFoundError         3   AGENT_NOT_FOUND
      CapabilityError            6   CAPABILITY_ERROR (agent, capability, model)
      AuthError                  5   AUTH_ERROR (agent, status, guidance)
      ConfigError                7   CONFIG_ERROR
      SessionNotFoundError       8   SESSION_NOT_FOUND
        AmbiguousIdError         8   AMBIGUOUS_ID (candidates)
      ParseError                 1   PARSE_ERROR
      DecisionRequiredError      1   DECISION_REQUIRED (kind, choices)
      StoreError                 1   STORE_ERROR
        ConflictError            1   STORE_ERROR (expected, found)
        StoreBusyError           1   STORE_BUSY
        TitleInUseError          1   TITLE_IN_USE (title, holder)
        TurnInProgressError      1   TURN_IN_PROGRESS (thread_id, owner)

An error is raised for what the caller can act on; bad bytes in a source are `Problem` values.
`message`, which is also `str(error)`, is one sentence without a final period and with values in
backticks; `hint` says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class ErrorCode(StrEnum):
    """The closed list of error codes. The codes are part of the public contract."""

    CAPABILITY_ERROR = "CAPABILITY_ERROR"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    AUTH_ERROR = "AUTH_ERROR"
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND"
    AGENT_NOT_INSTALLED = "AGENT_NOT_INSTALLED"
    AGENT_CRASH = "AGENT_CRASH"
    SPAWN_ERROR = "SPAWN_ERROR"
    TIMEOUT = "TIMEOUT"
    INACTIVITY_TIMEOUT = "INACTIVITY_TIMEOUT"
    PARSE_ERROR = "PARSE_ERROR"
    CONFIG_ERROR = "CONFIG_ERROR"
    CONFIG_LOCK_ERROR = "CONFIG_LOCK_ERROR"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    PROFILE_NOT_FOUND = "PROFILE_NOT_FOUND"
    PLUGIN_ERROR = "PLUGIN_ERROR"
    RATE_LIMITED = "RATE_LIMITED"
    CONTEXT_EXCEEDED = "CONTEXT_EXCEEDED"
    ABORTED = "ABORTED"
    RUN_NOT_ACTIVE = "RUN_NOT_ACTIVE"
    STDIN_NOT_AVAILABLE = "STDIN_NOT_AVAILABLE"
    NO_PENDING_INTERACTION = "NO_PENDING_INTERACTION"
    INVALID_STATE_TRANSITION = "INVALID_STATE_TRANSITION"
    PTY_NOT_AVAILABLE = "PTY_NOT_AVAILABLE"
    INTERNAL = "INTERNAL"
    # not in the specification
    STORE_ERROR = "STORE_ERROR"
    STORE_BUSY = "STORE_BUSY"
    TITLE_IN_USE = "TITLE_IN_USE"
    AMBIGUOUS_ID = "AMBIGUOUS_ID"
    TURN_IN_PROGRESS = "TURN_IN_PROGRESS"
    RESUME_FAILED = "RESUME_FAILED"
    DECISION_REQUIRED = "DECISION_REQUIRED"


EXIT_CODES: dict[ErrorCode, int] = {
    ErrorCode.VALIDATION_ERROR: 2,
    ErrorCode.AGENT_NOT_FOUND: 3,
    ErrorCode.AGENT_NOT_INSTALLED: 4,
    ErrorCode.AUTH_ERROR: 5,
    ErrorCode.CAPABILITY_ERROR: 6,
    ErrorCode.CONFIG_ERROR: 7,
    ErrorCode.CONFIG_LOCK_ERROR: 7,
    ErrorCode.SESSION_NOT_FOUND: 8,
    ErrorCode.AMBIGUOUS_ID: 8,
    ErrorCode.PROFILE_NOT_FOUND: 9,
    ErrorCode.PLUGIN_ERROR: 10,
    ErrorCode.TIMEOUT: 11,
    ErrorCode.INACTIVITY_TIMEOUT: 11,
    ErrorCode.AGENT_CRASH: 12,
    ErrorCode.ABORTED: 13,
    ErrorCode.RATE_LIMITED: 14,
    ErrorCode.CONTEXT_EXCEEDED: 15,
}
"""The exit code of the command line by error code; 1 for every code that is not listed."""


class AmuxError(Exception):
    """Base class of all errors. `recoverable` says whether a retry may help."""

    code: ErrorCode = ErrorCode.INTERNAL
    recoverable: bool = False

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        hint: str | None = None,
        recoverable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if recoverable is not None:
            self.recoverable = recoverable
        self.hint = hint

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command line for this error."""
        return EXIT_CODES.get(self.code, 1)


class ValidationError(AmuxError):
    """An argument or setting has an invalid value; `fields` names the arguments or settings."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(
        self, message: str, *, fields: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.fields = tuple(fields)


class AgentNotFoundError(AmuxError):
    """No adapter is registered under the given name."""

    code = ErrorCode.AGENT_NOT_FOUND


class SessionNotFoundError(AmuxError):
    """The agent has no session with the given id."""

    code = ErrorCode.SESSION_NOT_FOUND


class AmbiguousIdError(SessionNotFoundError):
    """An id prefix matches several sessions; `candidates` holds their unified ids."""

    code = ErrorCode.AMBIGUOUS_ID

    def __init__(
        self, message: str, *, candidates: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


class ParseError(AmuxError):
    """A source contains nothing readable, or its format is newer than this version of amux."""

    code = ErrorCode.PARSE_ERROR


class ConfigError(AmuxError):
    """A configuration file cannot be read or parsed; the message names the file and the line."""

    code = ErrorCode.CONFIG_ERROR


class CapabilityError(AmuxError):
    """The agent does not support the requested operation."""

    code = ErrorCode.CAPABILITY_ERROR

    def __init__(
        self,
        message: str,
        *,
        agent: str,
        capability: str,
        model: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.agent, self.capability, self.model = agent, capability, model


class AuthError(AmuxError):
    """The agent is not signed in; `guidance` says how to sign in."""

    code = ErrorCode.AUTH_ERROR

    def __init__(
        self, message: str, *, agent: str, status: str | None = None, guidance: str | None = None
    ) -> None:
        super().__init__(message, hint=guidance)
        self.agent, self.status, self.guidance = agent, status, guidance


class DecisionRequiredError(AmuxError):
    """The caller must choose how to go on; nothing was changed. `choices` names the ways."""

    code = ErrorCode.DECISION_REQUIRED

    def __init__(
        self, message: str, *, kind: str, choices: Sequence[str], hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind, self.choices = kind, tuple(choices)


class StoreError(AmuxError):
    """The session store cannot do what was asked; nothing that it acknowledged is lost."""

    code = ErrorCode.STORE_ERROR


class ConflictError(StoreError):
    """A guard of a write did not hold: another writer was faster. Read again and retry."""

    recoverable = True

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.expected, self.found = expected, found


class StoreBusyError(StoreError):
    """Another process holds the store longer than this one may wait; a retry may help."""

    code = ErrorCode.STORE_BUSY
    recoverable = True


class TitleInUseError(StoreError):
    """Another session has the title; `holder` is its id."""

    code = ErrorCode.TITLE_IN_USE

    def __init__(
        self, message: str, *, title: str, holder: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.title, self.holder = title, holder


class TurnInProgressError(StoreError):
    """A turn of the thread is running; `owner` describes the process that runs it."""

    code = ErrorCode.TURN_IN_PROGRESS
    recoverable = True

    def __init__(
        self, message: str, *, thread_id: str, owner: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.thread_id, self.owner = thread_id, owner
