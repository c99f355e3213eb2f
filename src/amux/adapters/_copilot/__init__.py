"""Copilot CLI's sessions: event logs, whole documents, the file that names them."""
