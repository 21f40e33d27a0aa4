"""Template tags: thin doors from templates to how the console writes and draws things."""
