"""Shapes of the API, one file a noun. Unknown and read-only fields are refused, never ignored."""
