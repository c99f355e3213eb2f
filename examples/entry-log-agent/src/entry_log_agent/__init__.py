"""A small agent that keeps its sessions with `amux.EntryLog`."""
