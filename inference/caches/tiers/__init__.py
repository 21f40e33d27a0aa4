"""One tier a file, none of which knows another."""
