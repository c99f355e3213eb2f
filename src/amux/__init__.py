"""amux: every session of every AI coding agent, read, kept and run."""
