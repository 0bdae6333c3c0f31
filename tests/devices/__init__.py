"""Dynamic resource allocation, as functions of values."""
