"""The session store: threads that other programs write, on files, in memory or in PostgreSQL."""
