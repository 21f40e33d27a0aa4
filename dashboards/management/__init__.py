"""Commands of this app; the processes they start."""
