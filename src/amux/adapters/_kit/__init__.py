"""What several adapters need: reading lines, foreign SQLite, times, texts."""
