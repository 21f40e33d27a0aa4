"""The guards there are, one file each, named by its kind."""
