"""Managed sessions: one interface to start, resume, save, recover and end sessions of agents."""
