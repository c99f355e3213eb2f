"""Tags, stars and notes: user data in a file of our own, below `Host.data_dir()`.

Agents' stores are never written to and the index may be deleted at any time, so neither can hold
what a person typed. An annotation is about an id: it outlives the session and its agent.
"""

from __future__ import annotations
