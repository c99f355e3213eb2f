"""Builds sessions from facts: sources, lineage, titles, cost. Pure: reads no file or database."""
