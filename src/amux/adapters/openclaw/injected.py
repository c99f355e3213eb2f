"""The texts that OpenClaw injects with the role of the person.

A notice is injected as a whole. A wrapper stands before the text of a person; `envelopes` finds
where that text begins.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

_ALL: Final = "2026.1.30 to 2026.9.6"
_READ: Final = "read in the source"

TIME: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
"""The time in every header."""

_LEVELS: Final = "INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|NOTICE"  # of a pasted log, no channel
_REST: Final = r"[^\]\n]{0,40}\]"
CHANNEL: Final = (
    rf"\[(?!(?:{_LEVELS})\b)(?P<channel>[A-Z][^\s\[\]]{{0,40}})[^\[\]\n]{{0,300}}? {TIME}{_REST}"
)
"""The header of a channel, with sender and time."""

DATE: Final = rf"\[(?:[A-Z][a-z]{{2}} {TIME}{_REST}|{TIME}{_REST}(?=\s*\[Subagent ))"
"""The date before a text. Without a day of the week, it may begin a pasted log."""

NOTICES: Final = (
    InjectedText("Read HEARTBEAT.md if it exists", seen="2026.1.30 to 2026.6.11"),
    InjectedText(r"\[OpenClaw [a-z]+(?: [a-z]+)*\]", seen="2026.6.11, 2026.9.6", regex=True),
    InjectedText("Pre-compaction memory flush", seen=f"{_ALL}, {_READ}"),
    InjectedText("A new session was started via /new or /reset", seen=f"{_ALL}, {_READ}"),
    InjectedText("A scheduled reminder has been triggered.", seen=f"2026.3.13, {_READ}"),
    InjectedText("An async command you ran earlier", seen=f"2026.3.13, {_READ}"),
    InjectedText("An async command completion event was", seen=f"2026.6.11, {_READ}"),
    InjectedText("An async command the user already approved", seen=f"2026.3.13, {_READ}"),
    InjectedText("An async command did not run.", seen=f"2026.6.11, {_READ}"),
    InjectedText("Continue where you left off. The previous model", seen=f"2026.3.13, {_READ}"),
    InjectedText("Agent-to-agent announce step", seen=f"{_ALL}, {_READ}"),
    InjectedText("[Inter-session message]", seen=f"2026.3.13, {_READ}"),
    InjectedText("[Internal task completion event]", seen=f"2026.3.13, {_READ}"),
    InjectedText("OpenClaw runtime context (internal):", seen=f"2026.3.13, {_READ}"),
    InjectedText("[System Message] [sessionId: ", seen=f"2026.2.26, {_READ}"),
    InjectedText("[Startup context loaded by runtime]", seen=f"2026.6.11, {_READ}"),
)

WRAPPERS: Final = (
    InjectedText(
        rf"System(?: \(untrusted\))?: \[(?:{TIME}|unknown-time)",
        seen="real homes, 2026; 2026.1.30 to 2026.2.26",
        regex=True,
    ),
    InjectedText(
        r"[^\n]{1,120} \(untrusted(?: metadata|, [^)\n]{1,100})\):\n",
        seen="real homes, 2026; 2026.2.26 to 2026.6.11",
        regex=True,
    ),
    InjectedText("[message_id: ", seen="real homes, 2026; 2026.1.30 to 2026.3.13"),
    InjectedText("[Subagent Context]", seen="real homes, 2026; 2026.2.26 to 2026.6.11"),
    InjectedText("[Subagent Task]", seen="2026.2.26 to 2026.6.11"),
    InjectedText(CHANNEL, seen=f"real homes, 2026; {_ALL}", regex=True),
    InjectedText(DATE, seen=f"real homes, 2026; 2026.2.9, {_READ}", regex=True),
    InjectedText("[Chat messages since your last reply - for context]", seen=f"{_ALL}, {_READ}"),
    InjectedText("[Current message - respond to this]", seen=f"{_ALL}, {_READ}"),
    InjectedText("[Thread starter - for context]", seen=f"{_ALL}, {_READ}"),
    InjectedText("[Thread history - for context]", seen=f"2026.2.26, {_READ}"),
    InjectedText("[Queued messages while agent was busy]", seen=f"{_ALL}, {_READ}"),
    InjectedText("[cron:", seen=f"{_ALL}, {_READ}"),
    InjectedText("[media attached", seen=f"{_ALL}, {_READ}"),
    InjectedText("Note: The previous agent run was aborted by the user.", seen=f"{_ALL}, {_READ}"),
    InjectedText("Delivery: Final assistant text is not", seen=f"2026.6.11, {_READ}"),
    InjectedText("Delivery: to send a message, use the", seen=f"2026.6.11, {_READ}"),
    InjectedText("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", seen=f"2026.6.11, {_READ}"),
)

INJECTED_TEXTS: Final = (*NOTICES, *WRAPPERS)
