"""Tests, in folders that mirror the code: see docs/testing.md for what runs where."""
