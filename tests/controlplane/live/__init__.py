"""Live figures, from what processes say of themselves to what pages and API show."""
