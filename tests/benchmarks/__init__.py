"""Real signals on real processes, and what must hold after each."""
