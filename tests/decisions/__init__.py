"""The functional core, by value."""
