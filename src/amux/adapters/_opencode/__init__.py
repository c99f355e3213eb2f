"""How OpenCode's sessions are read; `adapters/opencode.py` finds them."""
