"""Chats of Gemini CLI and of what descends from it: parts, usage, records, conversations."""
