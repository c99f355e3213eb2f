"""The full-text index: which messages may contain a term."""
