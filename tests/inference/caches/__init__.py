"""Tiers, flights and answers from caches."""
