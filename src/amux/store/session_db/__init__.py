"""The session database: sessions and messages in one SQLite file, usable without anything else."""
