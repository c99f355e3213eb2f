"""Texts that Cursor writes with the role of the person, and the tags it puts around them.

A prompt stands in `<user_query>`; the blocks around it hold context. No capture of the program
exists: the tags are those of the handmade capture and of programs that read Cursor's files.
"""

from __future__ import annotations

from typing import Final

from amux.adapters._base import InjectedText

_HANDMADE: Final = "handmade capture; public readers, 2026"
_READERS: Final = "public readers, 2026"

TAGS: Final = {
    "additional_data": _READERS,
    "agent_skills": _READERS,
    "agent_transcripts": _READERS,
    "always_applied_workspace_rules": _READERS,
    "attached_docs": _READERS,
    "attached_files": _READERS,
    "attached_skills": _READERS,
    "available_skills": _READERS,
    "cursor_commands": _READERS,
    "cursor_rules_context": _READERS,
    "custom_instructions": _READERS,
    "dynamic_tools": _READERS,
    "external_links": _READERS,
    "git_status": _READERS,
    "hooks_context": _READERS,
    "image_files": _READERS,
    "manually_attached_skills": _READERS,
    "mcp_file_system": _READERS,
    "mcp_instructions": _READERS,
    "open_and_recently_viewed_files": _READERS,
    "plugin_info": _READERS,
    "project_layout": _READERS,
    "rules": _READERS,
    "system_notification": _READERS,
    "system_reminder": _READERS,
    "task_notification": _READERS,
    "terminal_files_information": _READERS,
    "timestamp": _READERS,
    "user_info": _HANDMADE,
    "user_rules": _READERS,
}
"""Tags of blocks of context, with the source of each."""

INJECTED_TEXTS: Final = (
    *(InjectedText(rf"<{tag}[\s>]", seen=seen, regex=True) for tag, seen in TAGS.items()),
    InjectedText("Briefly inform the user about the task result", seen=_READERS),
    InjectedText("The beginning of the above subagent result", seen=_READERS),
)
