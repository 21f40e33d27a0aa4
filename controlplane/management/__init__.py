"""Management commands: thin, each one call of a service or a bridge."""
