"""Parsing of queries: the grammar, terms, filters and regular expressions."""
