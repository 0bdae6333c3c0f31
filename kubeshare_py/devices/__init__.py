"""Dynamic resource allocation: which devices satisfy claims, as a function of values."""
