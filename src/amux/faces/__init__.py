"""User interfaces of amux. They contain no logic and use only the client."""
