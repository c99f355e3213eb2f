"""How Cursor's sessions are read; `adapters/cursor.py` finds them."""
