"""Tags, stars and notes: user data in a file below `Host.data_dir()`.

amux never writes to the files of agents, and the index may be deleted at any time, so neither can
hold user data. An annotation refers to an id: it outlives the session and its agent.
"""

from __future__ import annotations
