"""The search grammar: terms, groups, filters and regular expressions."""
