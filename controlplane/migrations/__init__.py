"""Migrations. Indexes on tables that may be large are created concurrently."""
