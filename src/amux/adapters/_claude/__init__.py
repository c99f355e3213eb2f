"""How Claude Code's lines become sessions; used by `amux.adapters.claude` alone."""
