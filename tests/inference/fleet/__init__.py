"""The directory of workers and the lease that says who writes it."""
