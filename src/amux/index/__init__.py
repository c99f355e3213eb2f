"""What was read before, kept so that it need not be read again. Disposable: deleting it costs time.

`store` is the database file. `fingerprint` and `snapshot` tell what has changed, `reading` reads
one source, `pool` many at once, `sources` keeps what they said, `links` finds which of them bear on
each other, `results` keeps what was made of them.
"""
