"""What OpenClaw keeps besides Pi's logs: a database, documents per channel, names, archives."""
