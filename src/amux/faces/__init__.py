"""Faces: how people and programs speak to amux. They hold no logic; below them is the client."""
