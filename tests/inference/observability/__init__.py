"""Logs and metrics, as whoever reads them sees them."""
