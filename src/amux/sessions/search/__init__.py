"""Search: one grammar and one matcher for all agents."""
