"""Derived and disposable: what the agents' sources said when they were last looked at."""
