"""Alerts: what fires, what is sent, and what isn't."""
