"""The unified model: frozen structs and pure functions. No I/O."""
