"""Connections to workers, against servers that send exactly the bytes a test wants."""
