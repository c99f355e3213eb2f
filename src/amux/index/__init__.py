"""Derived data of all sources, stored so that sources need not be read again.

The index is disposable: deleting it costs time only. `database` is its file. `facts` reads sources
and finds which of them affect each other, `rows` stores sessions, `text` is the full-text index.
`freshness` and `environment` decide whether stored results are current, `updater` updates them.
"""
