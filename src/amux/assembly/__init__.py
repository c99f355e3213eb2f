"""From facts to sessions: joined, related, named, costed. Pure: no file or database is read."""
