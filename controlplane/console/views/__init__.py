"""Views, one file a noun: read what the caller may see, render, nothing else."""
