"""The unified model: frozen structs and pure functions. Nothing here does I/O."""
