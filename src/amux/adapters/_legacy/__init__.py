"""Formats that agents no longer write; each is turned into the records of its successor."""
